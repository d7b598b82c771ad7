"""A host's job before guests learn: to publish hints at its labels, once, and to write down that it did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.assess.inspection import describe_hints
from fedonce.data.files import read_table
from fedonce.errors import InputError, parameter_error, shown
from fedonce.jobs.hint_record import RECORD, HintRecord, Publication, lock_of
from fedonce.jobs.sealing import Sealed, Sealing
from fedonce.jobs.settings import File, RowNames
from fedonce.jobs.tables import TableSource, check_label, check_task, infer_task
from fedonce.messages.envelope import is_name
from fedonce.messages.hints import LEAST_EPSILON, MOST_CLASSES, MOST_EPSILON, Hints
from fedonce.messages.names import check_name
from fedonce.party.hinting import Hinting
from fedonce.rows.ids import Ids
from fedonce.system.disk import write_file
from fedonce.system.text import Tell, silent


@dataclass(frozen=True)
class HintReport:
    """What was published: the hints, their file, and what the record adds up to.

    Attributes
    ----------
    leaving : Sealed
        The hints, as they are in the file.
    path : path
        The file.
    publication : Publication
        What the record says of them.
    """

    leaving: Sealed[Hints]
    path: Path
    publication: Publication

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        sent, receiver, done = self.leaving, self.leaving.receiver, self.publication
        figures = describe_hints(sent.message, len(sent.data), str(self.path), verify=sent.signer)
        return figures | {
            "sealed": "no" if receiver is None else f"to {receiver.fingerprint}",
            "record": str(done.record),
            "record begun": done.begun,
            "cost": done.cost,
            "spent": done.spent,
            "limit": done.limit,
            "rows told anew": done.anew,
            "new ids": done.new,
            "labels changed": done.changed,
        }


@dataclass(frozen=True)
class Telling:
    """How a label is told, and for which run.

    Parameters
    ----------
    epsilon : float, optional
        With which each label is told; finite. It is left out with `proxy` alone.
    proxy : str, optional
        The label is no secret and travels as it is, under this name: last year's, a coarser one, a public stand-in.
    run : str
        The training that hints are for.
    edges : sequence of float, optional
        Of numbers: between which of them the bins lie. They are published.
    task : str, optional
        "classification" or "regression"; None: by the labels.
    classes : sequence of str, optional
        The classes that a label can have, by public knowledge; None: those that the labels have, which hints then tell of.
    """

    epsilon: float | None = None
    proxy: str | None = None
    run: str = "local"
    edges: Sequence[float] | None = None
    task: str | None = None
    classes: Sequence[str] | None = None

    def __post_init__(self) -> None:
        self._check_classes()
        if self.proxy is not None and self.epsilon is not None:
            raise _wrong_epsilon(f"left out where a stand-in, {self.proxy!r}, travels as it is (proxy)", self.epsilon)
        if self.proxy is None and self.epsilon is None:
            raise InputError(
                "Say with which label epsilon the column is told (epsilon), such as 2. If it is no secret and may travel as it "
                "is, say under which name (proxy).",
                parameter=("epsilon", "proxy"),
            )
        if self.epsilon is not None and not LEAST_EPSILON <= self.epsilon <= MOST_EPSILON:
            wanted = f"a number from {LEAST_EPSILON:g} to {MOST_EPSILON:g}"
            if self.epsilon == math.inf:
                wanted += "; a column that is no secret may travel as it is, under a name of its own (proxy)"
            raise _wrong_epsilon(wanted, self.epsilon)
        if self.task not in (None, "classification", "regression"):
            raise parameter_error("Telling", "task", "'classification' or 'regression'", self.task)
        if not is_name(self.run):
            raise parameter_error("Telling", "run", "printable text of 1 to 100 bytes", self.run)
        self.hinting("label")

    def _check_classes(self) -> None:
        if self.classes is None:
            return
        wanted = f"a list of 2 to {MOST_CLASSES} texts, each once"
        texts = not isinstance(self.classes, str) and all(isinstance(each, str) and each for each in self.classes)
        if not texts or not 2 <= len({*self.classes}) <= MOST_CLASSES or len({*self.classes}) < len(self.classes):
            raise parameter_error("Telling", "classes", wanted, self.classes)
        other = "edges" if self.edges is not None else "task" if self.task == "regression" else None
        if other is not None:
            raise InputError(
                f"Labels have classes (classes), or are numbers that are told in bins ({other}); leave out one of the two.",
                parameter=("classes", other),
            )

    def public(self, label: NDArray[Any], column: str) -> NDArray[Any] | None:
        """Return the public classes as labels have them, which may be numbers or truth values; None: none are given."""
        if self.classes is None:
            return None
        named = {"true": True, "false": False, "1": True, "0": False}
        try:
            if label.dtype.kind == "b":
                return np.array([named[each.strip().lower()] for each in self.classes])
            if label.dtype.kind in "iuf":
                return np.array([float(each) for each in self.classes])
        except (KeyError, ValueError):
            what = "true or false" if label.dtype.kind == "b" else "numbers"
            raise InputError(
                f"The labels, column {column!r}, are {what}, and the classes given are not: {shown(list(self.classes))}; give "
                "the classes of this column (classes), or read it as text (types).",
                parameter=("classes", "types"),
            ) from None
        return np.array(self.classes, dtype=object)

    def hinting(self, label: str) -> Hinting:
        """Return it as the parties' code knows it: with an epsilon under the label's own name, or as it is under the proxy's."""
        if self.proxy is not None:
            return Hinting(math.inf, self.edges, self.proxy)
        assert self.epsilon is not None
        return Hinting(self.epsilon, self.edges, label)

    def task_of(self, label: NDArray[Any], column: str) -> str:
        """Return what labels are, classes or numbers; raise where numbers have no bins, or bins no numbers."""
        if self.edges is not None:
            if label.dtype.kind not in "fiu":
                raise InputError(
                    f"The labels, column {column!r}, are no numbers, and bins are for numbers; leave them out (edges).",
                    parameter="edges",
                )
            return "regression"
        if self.classes is not None:
            return "classification"
        found = self.task or infer_task(label)
        check_task(found, label, column)
        if found == "regression":
            raise InputError(
                f"The labels, column {column!r}, are numbers, and hints at numbers need bins; give the numbers between them, by "
                "public knowledge (edges); or say which classes there are (classes), or that each number is one "
                "(task=classification).",
                parameter=("edges", "classes", "task"),
            )
        return found


def _wrong_epsilon(wanted: str, got: object) -> InputError:
    return InputError(str(parameter_error("Telling", "epsilon", wanted, got)), parameter=("epsilon", "proxy"))


@dataclass(frozen=True)
class HintJob:
    """Publish hints at a label: read it, tell each row's through randomised response, write that down, then the file.

    Parameters
    ----------
    table : TableSource
        The host's table.
    label : str
        The column that is hinted at.
    out : path
        The file of hints, for guests.
    telling : Telling
        With which epsilon, in which bins, for which run.
    name : str
        The host's name.
    rows, sealing
        How rows are named, as in a guest's message, and who signs and opens the file.
    record : path, optional
        What the host has published so far; None: `hints.record` beside the table. It is private; by it the same is told again.
    limit : float, optional
        The most that a row's epsilons may add up to; None: as the record says, 8 where it is begun.
    new_rows : bool
        Ids that the record does not know are new people, however many they are; else most must be known.
    """

    table: TableSource
    label: str
    out: str | Path
    telling: Telling
    name: str = "host"
    rows: RowNames = field(default_factory=RowNames)
    sealing: Sealing = field(default_factory=Sealing)
    record: File = None
    limit: float | None = None
    new_rows: bool = False

    def __post_init__(self) -> None:
        check_name("HintJob", "name", self.name)  # before any error about the table quotes it
        self.telling.hinting(self.label)
        book = self.book.path
        needed: dict[str, File] = {"record": book, "lock of the record": lock_of(book), "table": self.table.path}
        needed |= {"secret": self.rows.secret, "file of agreed rows": self.rows.rows, "key": self.rows.key}
        needed |= {"key to sign with": self.sealing.sign, "key to seal to": self.sealing.seal_to}
        for what, path in needed.items():
            if path is not None and Path(path).resolve() == Path(self.out).resolve():
                raise parameter_error("HintJob", "out", f"another file than the {what}", str(self.out))

    @property
    def book(self) -> HintRecord:
        """Where it is written down."""
        path = Path(self.table.path).with_name(RECORD) if self.record is None else Path(self.record)
        return HintRecord(path, self.limit)

    def run(self, tell: Tell = silent) -> HintReport:
        """Do it; `tell` is told each step in a line."""
        keys, agreed, naming = self.sealing.keys(), self.rows.agreed(), self.rows.naming()
        tell(f"reading {self.table.path}")
        label, ids = read_label(self.table, self.label, self.name)
        self.rows.check_ids(ids is not None, f"The hints of party {self.name!r}")
        task = self.telling.task_of(label, self.label)
        hinting, run = self.telling.hinting(self.label), self.telling.run
        tell(f"telling {len(label):,} labels")
        public = self.telling.public(label, self.label)
        more = ((agreed,), self.label, public, self.new_rows)
        done = self.book.publish(label, hinting, task, self.name, run, ids, naming, *more)
        leaving = keys.close(done.hints[0])
        return HintReport(leaving, write_file(self.out, leaving.data), done)


def read_label(source: TableSource, label: str, party: str) -> tuple[NDArray[Any], Ids | None]:
    """Read the labels of a table and its ids, and no other column."""
    if label == source.id:
        raise InputError(f"The column {label!r} has the ids, and cannot be the label, too (label).", parameter="label")
    types = {name: kind for name, kind in source.types.items() if name == label}
    table = read_table(source.path, id=source.id, columns=[label], types=types, party=party)
    check_label(table.columns[0], f"Column {label!r} of {source.path}")
    return table.columns[0], table.ids
