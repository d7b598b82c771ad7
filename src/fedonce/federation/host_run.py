"""A host's training and predictions over a federation: the same jobs as with files, by an engine that asks guests.

Beside the model the host keeps what was asked and what arrived (`federation/`): a host that starts again goes on, and asks nobody
to learn twice. What connects the parties is the business of whoever opens the engine.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import fedonce
from fedonce.data.table import Table
from fedonce.errors import InputError
from fedonce.federation import hinting
from fedonce.federation.aligning import Alignment
from fedonce.federation.asking import Asking, AskingRows
from fedonce.federation.collecting import Collector, Terms
from fedonce.federation.engine import FederationEngine, RoundsFederationEngine
from fedonce.federation.events import Log, Watch
from fedonce.federation.facts import EVENTS, FOLDER, RECEIVED, Facts
from fedonce.federation.hinting import Hinted
from fedonce.federation.report import Answered, FederationPrediction, FederationReport
from fedonce.federation.request import Request
from fedonce.federation.runfile import RunFile
from fedonce.federation.status import GuestStatus
from fedonce.federation.transport import RoundsTransport
from fedonce.jobs import (
    EvaluateJob,
    ExplainJob,
    Fitting,
    HostBudget,
    HostJob,
    Incoming,
    Limits,
    PredictJob,
    TableSource,
)
from fedonce.jobs.host import Connection, Prepared
from fedonce.messages.keys import read_secret
from fedonce.messages.representation import Representation
from fedonce.party import Host
from fedonce.party.storage import model_folder
from fedonce.rounds.settings import Rounds
from fedonce.rows.matching import Matching
from fedonce.system.text import Tell

RowsJob = PredictJob | EvaluateJob | ExplainJob
OpenTransport = Callable[[Terms], RoundsTransport]


def host_job(file: RunFile, name: str, out: Path, refit: bool) -> HostJob:
    """Return the training of a run file as the host's job."""
    budget = HostBudget(lambda n_rows: file.plan(name, n_rows), None if file.budget is None else file.budget.public)
    return HostJob(
        TableSource(file.table, file.id, file.columns, file.drop, file.types),
        out,
        file.label,
        name,
        _fitting(file),
        budget,
        Incoming(secret=file.secret, limits=Limits(max_message=file.max_message, max_memory=file.max_memory)),
        file.forms,
        overwrite=refit,
        rounds=file.rounds_settings(),
    )


def _fitting(file: RunFile) -> Fitting:
    return Fitting(
        file.run,
        file.task,
        file.model,
        file.recipe,
        file.host_epochs,
        file.seed,
        file.weight,
        file.class_weight,
        file.calibrate,
        file.validate,
    )


@dataclass
class HostRun:
    """One training over a federation.

    Parameters
    ----------
    file : RunFile
        What is asked of whom.
    kit : path
        The host's kit, which is written down for predictions.
    out : path
        The model's folder.
    watch : callable
        Is told of every change of where a guest stands.
    open_transport : callable
        Opens what carries requests and messages, by the terms of the asking.
    """

    file: RunFile
    kit: Path
    out: Path
    watch: Watch
    open_transport: OpenTransport
    end: float = field(default=0.0, init=False)
    statuses: dict[str, GuestStatus] = field(default_factory=dict, init=False)
    lost: dict[str, str] = field(default_factory=dict, init=False)
    aligned: dict[str, GuestStatus] = field(default_factory=dict, init=False)
    hinted: Hinted | None = field(default=None, init=False)

    def run(self, name: str, tell: Tell, refit: bool) -> FederationReport:
        """Train by the run file: ask guests, wait for them, train, save."""
        done = host_job(self.file, name, self.out, refit).run(tell, self._connect)
        report = FederationReport(done, self.statuses, self.lost, self.aligned, self.hinted)
        self._log().write(stage="end", **report.as_json())
        return report

    def _log(self, stage: str = "learn") -> Log:
        return Log(self.out / FOLDER / EVENTS, self.watch, stage)

    @contextmanager
    def _connect(self, prepared: Prepared, tell: Tell) -> Iterator[Connection]:
        """Align where it is wanted, and give the engine that lets guests learn; then write down whom to ask for predictions."""
        self.end = time.monotonic() + self.file.deadline
        model_folder(self.out)
        model_folder(self.out / FOLDER)
        party, own = prepared.party, prepared.table
        start = {"run": self.file.run, "guests": list(self.file.guests), "version": fedonce.__version__}
        self._log().write(stage="start", **start)
        asking = self._align(party, own) if self.file.align else Asking(self.file, party)
        left_out = {name: status for name, status in self.aligned.items() if status.bytes is None}
        asking = self._hint(asking, [name for name in self.file.guests if name not in left_out])
        asked = {name: asking.learn(name) for name in self.file.guests if name not in left_out}

        def read(guest: str, data: bytes) -> Representation:
            return asking.read(guest, data, own)

        log, terms = self._log(), self._terms(self.end)
        watch = self._watch(log)
        with closing(
            RoundsFederationEngine(self.open_transport(terms), asked, self._kept, terms, read, watch)
        ) as engine:
            engine.ask_rounds = lambda rounds: self._ask_rounds(asking, rounds, own, log)
            yield Connection(engine, asking.matching, "" if self.hinted is None else self.hinted.hints.stated)
            self.statuses = left_out | engine.statuses
            models = {name: engine.tuned.get(name) or asking.learn(name).fingerprint for name in party.dims}
            self._facts(models, party.forms).write(self.out)

    def _hint(self, asking: Asking, guests: list[str]) -> Asking:
        """Publish hints where the run file wants them; it is written down before any guest is asked."""
        self.hinted = hinting.publish(self.file, asking.party, asking.agreed, guests)
        if self.hinted is None:
            return asking
        self._log().write(stage="hints", **self.hinted.as_json())
        return replace(asking, hints=self.hinted.files)

    @property
    def _kept(self) -> Path:
        """Where jobs and what arrived are kept."""
        return self.out / FOLDER / RECEIVED

    def _terms(self, end: float) -> Terms:
        file = self.file
        return Terms(end, file.min_guests, file.silence, file.max_message, file.max_memory)

    def _watch(self, log: Log) -> Watch:
        def watch(status: GuestStatus) -> None:
            if status.state == "lost":
                self.lost[status.guest] = status.reason
            log(status)

        return watch

    def _align(self, party: Host, own: Table) -> Asking:
        """Find out with each guest which rows both have."""
        assert own.ids is not None
        found = Alignment(party.name, self.file.run, self.file.reveal, party.forms, own.ids, self.out / FOLDER)
        asked = Asking(self.file, party).align(found.points())
        terms = self._terms(
            (time.monotonic() + self.end) / 2
        )  # who does not align in time leaves the others time to learn
        watch = self._watch(self._log("align"))
        with closing(Collector(self.open_transport(terms), self._kept, terms, found.read, watch)) as collector:
            matched = collector.collect(asked)
        self.aligned = dict(collector.statuses)
        return Asking(self.file, party, found.agreed(matched, party.secret))

    def _ask_rounds(self, asking: Asking, rounds: Rounds, own: Table, log: Log) -> Mapping[str, Request]:
        assert own.ids is not None
        log.stage = "rounds"
        return asking.rounds(rounds, own.ids)

    def _facts(self, models: dict[str, str], forms: tuple[str, ...]) -> Facts:
        secret = None if self.file.secret is None else str(self.file.secret.resolve())
        limits = self.file.max_message, self.file.max_memory
        hints = "" if self.hinted is None else self.hinted.hints.stated
        return Facts(str(self.kit.resolve()), models, self.file.run, forms, secret, *limits, hints)


@dataclass
class PredictionRun:
    """One prediction over a federation: guests are asked for their values of a table's rows, by hashes of the ids.

    Parameters
    ----------
    job : PredictJob, EvaluateJob or ExplainJob
        Which rows, with which model, and what comes of the predictions.
    facts : Facts
        What was kept of the training.
    deadline : float
        Seconds to wait for guests.
    watch : callable
        Is told of every change of where a guest stands.
    open_transport : callable
        Opens what carries requests and messages, by the terms of the asking.
    """

    job: RowsJob
    facts: Facts
    deadline: float
    watch: Watch
    open_transport: OpenTransport
    statuses: dict[str, GuestStatus] = field(default_factory=dict, init=False)

    def run(self, tell: Tell) -> FederationPrediction:
        """Predict, and finish the job where enough guests are there."""
        done = self.job.rows.predict(tell, self._connect, self.job.labelled)
        answered = Answered(done, self.statuses)
        self._log().write(stage="predicted", **answered.as_json())
        return FederationPrediction(self.job.finish(done, tell), answered)

    @property
    def _folder(self) -> Path:
        return Path(self.job.rows.model) / FOLDER

    def _log(self) -> Log:
        return Log(model_folder(self._folder) / EVENTS, self.watch, "predict")

    @contextmanager
    def _connect(self, party: Host, own: Table, tell: Tell) -> Iterator[Connection]:
        end = time.monotonic() + self.deadline
        if own.ids is None or not own.n_rows:
            raise InputError(f"{self.job.rows.table} has no rows to predict.")
        secret = None if self.facts.secret is None else read_secret(self.facts.secret)
        limits = Matching(secret, max_memory=self.facts.max_memory)
        asking = AskingRows.of(party, own, own.ids, self.facts.models, limits)
        folder = self._folder / f"predictions-{secrets.token_hex(4)}"
        terms = Terms(end, 0, max_message=self.facts.max_message, max_memory=self.facts.max_memory)
        transport = self.open_transport(terms)
        try:
            with closing(
                FederationEngine(transport, asking.represent(), folder, terms, asking.read, self._log())
            ) as engine:
                yield Connection(engine, asking.matching)
            self.statuses = dict(engine.statuses)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
