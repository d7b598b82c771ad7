"""The host's jobs in a federation on NVIDIA FLARE, by a transport that asks through FLARE's server."""

from __future__ import annotations

from pathlib import Path

from fedonce.errors import FederationError
from fedonce.federation.events import Watch
from fedonce.federation.facts import Facts
from fedonce.federation.flare.kits import Kit, open_kit
from fedonce.federation.flare.transport import FlareTransport
from fedonce.federation.host_run import HostRun, OpenTransport, PredictionRun, RowsJob
from fedonce.federation.report import FederationPrediction, FederationReport
from fedonce.federation.runfile import RunFile
from fedonce.system.text import Tell


def fit(file: RunFile, kit: Path, out: Path, watch: Watch, tell: Tell, refit: bool = False) -> FederationReport:
    """Train by a run file: ask guests, wait for them, train, save."""
    host = _host_kit(kit)
    file.check_guests(host.guests)
    return HostRun(file, host.path, out, watch, _opens(host)).run(host.name, tell, refit)


def predict(job: RowsJob, deadline: float, watch: Watch, tell: Tell, kit: Path | None = None) -> FederationPrediction:
    """Ask guests for their values of a table's rows, predict, and finish the job; `kit` is by default that of the training."""
    facts = Facts.read(Path(job.rows.model))
    host = _host_kit(kit or Path(facts.kit))
    return PredictionRun(job, facts, deadline, watch, _opens(host)).run(tell)


def _opens(kit: Kit) -> OpenTransport:
    """Return what opens FLARE as a transport, whose server keeps to the host's terms."""
    return lambda terms: FlareTransport(kit, terms.silence, terms.max_message)


def _host_kit(path: Path) -> Kit:
    kit = open_kit(path)
    if kit.role != "host":
        raise FederationError(
            f"The kit {path} is that of the guest {kit.name!r}; training and prediction are the host's."
        )
    return kit
