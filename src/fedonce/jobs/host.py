"""The host's training as one job: its table, its labels, the messages that arrive, a model in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedonce import protocol
from fedonce.assess.inspection import hints_in_words
from fedonce.data.table import Table
from fedonce.jobs.folders import check_folder, model_before
from fedonce.jobs.incoming import Incoming, Kept
from fedonce.jobs.pages import host_page, report_aside, write_report
from fedonce.jobs.settings import Fitting, HostBudget, estimator_seed, public_knowledge, purse
from fedonce.jobs.tables import LabelledTable, TableSource, check_task, infer_task, read_labelled
from fedonce.messages.names import check_name
from fedonce.party import Host, storage
from fedonce.privacy.ledger import Ledger, local
from fedonce.rounds.settings import Rounds
from fedonce.rows.matching import Matching
from fedonce.system.text import Tell, silent


class JobEngine(protocol.Engine, Protocol):
    """An engine that also says what came, to be kept with the model, and what was refused."""

    @property
    def moved(self) -> Mapping[str, int]:
        """Sizes of the files that messages came in, by guest, where they came in files."""

    @property
    def refused(self) -> Mapping[str, str]:
        """What was refused, and why."""

    def received(self) -> Mapping[str, bytes]:
        """Return the messages that were taken, by guest."""


@dataclass(frozen=True)
class Connection:
    """An engine by which messages come, how their rows are found, and what the host itself told of labels (`Hints.stated`)."""

    engine: JobEngine
    matching: Matching
    hinted: str = ""


@dataclass(frozen=True)
class Prepared:
    """A host that has not trained yet, its table and labels, the messages of an earlier training, and how much rows count."""

    party: Host
    table: Table
    label: NDArray[Any]
    kept: Kept = field(default_factory=Kept)
    weight: NDArray[np.float64] | None = None


Connect = Callable[[Prepared, Tell], AbstractContextManager[Connection]]


@dataclass(frozen=True)
class HostReport:
    """What a training came to.

    Attributes
    ----------
    host : Host
        The host, with its model.
    rows : int
        Rows that it was trained on.
    fitted : Fitted
        What the training left: messages, traffic, overlap.
    refused : mapping
        Files that could not be used, and why.
    out : path
        The model's folder.
    page : path or None
        The page in it.
    hinted : str
        Hints that the host itself gave its guests in this training, as messages state them; empty: it knows of none.
    """

    host: Host
    rows: int
    fitted: protocol.Fitted
    refused: Mapping[str, str]
    out: Path
    page: Path | None = None
    hinted: str = ""

    @property
    def not_validated(self) -> str | None:
        """Why there is no score on rows held back; None where there is one."""
        if self.host.validation is not None:
            return None
        if self.host.purse is not None:
            return "with a privacy budget every row is learnt from, and a score of rows held back would not be private"
        if self.fitted.traffic.rounds:
            return "rounds train the guests too, so that rows held back would have to be held back by all parties"
        return "it was not asked for" if not self.host.settings.validate else f"{self.rows} rows are too few"

    @property
    def ledger(self) -> Ledger | None:
        """What messages say of each row's epsilon, and of labels that were hinted at; None: nothing, or there is a budget."""
        if self.host.ledger is not None:  # its own book has all of it, and takes time to price
            return None
        messages = self.fitted.representations
        answered = {name: (each.local_epsilon, 1) for name, each in messages.items() if each.local_epsilon is not None}
        stated = sorted({message.hints for message in messages.values() if message.hints})
        lines = [local(answered)]
        for each in stated:
            epsilon, _, label = each.partition(" ")
            # What the host has not given itself is what guests say: anybody can write it into a message.
            who = [name for name, message in messages.items() if message.hints == each and each != self.hinted]
            lines.append(local({}, (self.host.name, label, float(epsilon)), who))
        entries = [entry for ledger in lines if ledger is not None for entry in ledger.entries]
        return Ledger(0.0, "pure", "simple", entries) if entries else None

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        traffic, overlap = self.fitted.traffic, self.fitted.overlap
        return {
            "host": self.host.name,
            "run": self.host.run,
            "rows": self.rows,
            "task": self.host.task,
            "guests": {name: {"overlap": overlap[name], "bytes": size} for name, size in traffic.per_guest.items()},
            "late": list(self.fitted.absent),
            "refused": dict(self.refused),
            "messages": traffic.messages,
            "bytes": traffic.bytes,
            "payload bytes": traffic.payload_bytes,
            "id bytes": traffic.id_bytes,
            "epsilon": None if self.host.ledger is None else self.host.ledger.epsilon(),
            "hints": {name: hints_in_words(each) for name, each in self.fitted.representations.items() if each.hints},
            "ledger": None if self.ledger is None else self.ledger.rows(),
            "host model": None if self.host.model is None else self.host.model.chosen,
            "temperature": self.host.temperature,
            "validation": None if self.host.validation is None else self.host.validation.as_json,
            "not validated": self.not_validated,
            "model": str(self.out),
            "report": None if self.page is None else str(self.page),
        }


@dataclass(frozen=True)
class HostJob:
    """Train on the host's table, its labels and the messages that arrive; write the model.

    Parameters
    ----------
    table : TableSource
        The host's table.
    out : path
        Folder for the model, and for the messages that it was trained with.
    label : str, optional
        The column to predict; None: as before, where a model is trained again.
    name : str, optional
        The host's name; None: "host", or as before.
    fitting, budget, incoming
        How it trains, what all parties may spend, and where messages come from.
    forms : tuple of str
        How ids are made alike: some of "trim", "lower", "nfkc"; empty: as they are, or as before.
    refit : bool
        Train the model in `out` again: with its settings, its messages and those that came since.
    overwrite : bool
        A model in `out` gives way to one that is trained by this job's own settings.
    rounds : Rounds, optional
        How to go on together after the messages, where the engine can.
    """

    table: TableSource
    out: str | Path
    label: str | None = None
    name: str | None = None
    fitting: Fitting = field(default_factory=Fitting)
    budget: HostBudget = field(default_factory=HostBudget)
    incoming: Incoming = field(default_factory=Incoming)
    forms: tuple[str, ...] = ()
    refit: bool = False
    overwrite: bool = False
    rounds: Rounds | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            check_name("HostJob", "name", self.name)  # before any error about the table quotes it

    def run(self, tell: Tell = silent, connect: Connect | None = None) -> HostReport:
        """Do it.

        `tell` is told each step in a line. `connect` gives the engine by which messages come to a host that is prepared, and ends
        it; None: files.
        """
        out = check_folder(self.out)
        with storage.alone(out, tell):
            prepared = self._prepare(out, tell)
            with (connect or self._by_files)(prepared, tell) as connection:
                return self._train(prepared, connection, out)

    def _prepare(self, out: Path, tell: Tell) -> Prepared:
        """Read all files and make the host, before anybody waits or is asked."""
        found = model_before(out, self.refit or (self.overwrite and storage.exists(out)))
        before = found if self.refit else None
        name = self.name or (before.name if before else "host")
        tell(f"reading {self.table.path}")
        reading = before.reading if before else None
        known = public_knowledge(self.budget.public)
        own = read_labelled(self.table, self.label, name, reading, self.fitting.weighing, *known)
        party = self._host(name, own, before)
        party.check_label(own.label, own.table.n_rows)
        kept = Kept(storage.load(out, "host").messages, before.received) if before else Kept()
        weight = own.weights(party.task, self.table.path)
        return Prepared(party, own.table, own.label, kept, weight)

    def _host(self, name: str, own: LabelledTable, before: Host | None) -> Host:
        """Return a host that has not trained yet."""
        how = self.fitting
        task = how.task or (before.task if before else infer_task(own.label))
        check_task(task, own.label, own.reading.label)
        plan = self.budget.plan_for(own.table.n_rows)
        matching = self.incoming.matching(self.forms or (before.forms if before else ()))
        bounds, labels = public_knowledge(self.budget.public, plan is not None)
        return Host(
            name,
            task,
            how.recipe or "default",
            how.epochs,
            run=how.run or (before.run if before else "local"),
            random_state=before.random_state if before and how.seed is None else estimator_seed(how.seed or 0),
            purse=None if plan is None else purse(plan, name),
            public=bounds,
            plan=plan,
            labels=labels,
            secret=matching.secret,
            forms=matching.forms,
            agreed=matching.agreed,
            max_memory=matching.max_memory,
            model=_model(how, before),
            reading=own.reading,
            known=tuple(before.dims) if before else (),
            **_judging(how, before),
        )

    @contextmanager
    def _by_files(self, prepared: Prepared, tell: Tell) -> Iterator[Connection]:
        yield Connection(self.incoming.engine(prepared.party, tell, prepared.kept), prepared.party.matching)

    def _train(self, prepared: Prepared, connection: Connection, out: Path) -> HostReport:
        party, engine = prepared.party, connection.engine
        matching, weight = connection.matching, prepared.weight
        fitted = protocol.fit(party, prepared.table, prepared.label, engine, self.rounds, matching, weight)
        with report_aside(out):
            party.save(out, engine.received(), engine.moved)
        report = HostReport(party, prepared.table.n_rows, fitted, engine.refused, out, hinted=connection.hinted)
        return replace(report, page=write_report(out, host_page(party, report.as_json())))


def _model(how: Fitting, before: Host | None) -> object:
    """Return the model that is asked for; else that of before, with its settings unless a recipe gives others."""
    if how.model is not None or before is None:
        return how.model or "auto"
    return before.prototype if how.recipe is None else before.prototype.name


def _judging(how: Fitting, before: Host | None) -> dict[str, Any]:
    """Return whether rows held back are to say how good the model is, and to calibrate it: as asked for; else as before."""
    asked = {"validate": how.validate, "calibrate": how.calibrate}
    told = {} if before is None else {name: getattr(before.settings, name) for name in asked}
    return told | {name: value for name, value in asked.items() if value is not None}
