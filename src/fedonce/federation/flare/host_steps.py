"""`fedonce federation fit` and `predict` on NVIDIA FLARE: the host's jobs, by an engine that asks through FLARE's server."""

from __future__ import annotations

from pathlib import Path

from fedonce.errors import FederationError
from fedonce.federation.events import Watch
from fedonce.federation.facts import Facts
from fedonce.federation.flare.engine import NvflareEngine
from fedonce.federation.flare.kits import Kit, open_kit
from fedonce.federation.host_run import Exchange, HostRun, OpenEngine, PredictionRun
from fedonce.federation.report import FederationPrediction, FederationReport
from fedonce.federation.runfile import RunFile
from fedonce.federation.status import SILENCE
from fedonce.jobs import PredictJob
from fedonce.system.text import Tell


def fit(file: RunFile, kit: Path, out: Path, watch: Watch, tell: Tell, refit: bool = False) -> FederationReport:
    """Train by a run file: ask guests, wait for them, train, save."""
    host = _host_kit(kit)
    file.check_guests(host.guests)
    engine = _opens(host, file.max_message, file.max_memory, file.silence)
    return HostRun(file, host.path, out, watch, engine).run(host.name, tell, refit)


def predict(
    job: PredictJob, deadline: float, watch: Watch, tell: Tell, kit: Path | None = None
) -> FederationPrediction:
    """Ask guests for their values of a table's rows, and predict; `kit` is by default that of the training."""
    facts = Facts.read(Path(job.rows.model))
    host = _host_kit(kit or Path(facts.kit))
    return PredictionRun(job, facts, deadline, watch, _opens(host, facts.max_message, facts.max_memory)).run(tell)


def _opens(kit: Kit, max_message: int, max_memory: int | None, silence: float = SILENCE) -> OpenEngine:
    """Return what opens an engine at a host's server."""

    def open_engine(exchange: Exchange) -> NvflareEngine:
        return NvflareEngine(
            kit,
            exchange.asked,
            exchange.end,
            exchange.folder,
            exchange.least,
            exchange.check,
            exchange.watch,
            silence=silence,
            max_message=max_message,
            max_memory=max_memory,
        )

    return open_engine


def _host_kit(path: Path) -> Kit:
    kit = open_kit(path)
    if kit.role != "host":
        raise FederationError(
            f"The kit {path} is that of the guest {kit.name!r}; training and prediction are the host's."
        )
    return kit
