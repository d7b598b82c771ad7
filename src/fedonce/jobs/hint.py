"""Hints as files: a host's job to publish them before guests learn, and a guest's way to take them."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedonce.assess.inspection import describe_hints
from fedonce.data.files import read_table
from fedonce.data.table import Table
from fedonce.errors import InputError, MessageError, parameter_error
from fedonce.jobs.hint_record import ANYONE, HintRecord, Publication, lock_of
from fedonce.jobs.sealing import Keys, Sealed, Sealing
from fedonce.jobs.settings import File, RowNames
from fedonce.jobs.tables import TableSource, check_label, check_task, infer_task
from fedonce.learners.hinted import LEAST_HINTED
from fedonce.messages.envelope import SEALED, is_name, kind_of, read_bytes
from fedonce.messages.hints import RECORD, Hinting, Hints, check_start, too_large
from fedonce.messages.keys import PrivateKey, read_public, unseal
from fedonce.messages.names import MUST_BE, check_name, is_party_name, why_not
from fedonce.party import Guest
from fedonce.party.hinting import hints_of
from fedonce.rows.alignment import AgreedRows
from fedonce.rows.ids import Ids
from fedonce.system.disk import write_file
from fedonce.system.text import Tell, silent


@dataclass(frozen=True)
class HintReport:
    """What was published.

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
        sent, receiver = self.leaving, self.leaving.receiver
        figures = describe_hints(sent.message, len(sent.data), str(self.path), verify=sent.signer)
        sealed = "no" if receiver is None else f"to {receiver.fingerprint}"
        return figures | {"sealed": sealed} | self.publication.as_json()


@dataclass(frozen=True)
class HintJob:
    """Publish hints at a label: read it, disclose each row's by randomised response, write that down, then the file.

    Parameters
    ----------
    table : TableSource
        The host's table.
    label : str
        The column that is hinted at; with a finite epsilon the label has its name.
    out : path
        The file of hints, for guests.
    hinting : Hinting
        With which epsilon, in which bins or classes.
    name : str
        The host's name.
    rows, sealing
        How rows are named, as in a guest's message, and who signs and opens the file.
    record : path, optional
        What the host has published so far; None: `hints.record` beside the table. It is private, and has the key to answers.
    limit : float, optional
        The most that epsilons may add up to; None: as the record says, 8 where it is begun.
    for_run : str
        The training that hints are for.
    task : str, optional
        "classification" or "regression"; None: by the labels.
    """

    table: TableSource
    label: str
    out: str | Path
    hinting: Hinting
    name: str = "host"
    rows: RowNames = field(default_factory=RowNames)
    sealing: Sealing = field(default_factory=Sealing)
    record: File = None
    limit: float | None = None
    for_run: str = "local"
    task: str | None = None

    def __post_init__(self) -> None:
        check_name("HintJob", "name", self.name)  # before any error about the table quotes it
        if not is_name(self.for_run):
            raise parameter_error("HintJob", "for_run", "printable text of 1 to 100 bytes", self.for_run)
        if self.task not in (None, "classification", "regression"):
            raise parameter_error("HintJob", "task", "'classification' or 'regression'", self.task)
        if math.isfinite(self.hinting.epsilon):
            object.__setattr__(self, "hinting", replace(self.hinting, label=self.label))
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
        """Do it; `tell` gets each step in a line."""
        keys, agreed, naming = self.sealing.keys(), self.rows.agreed(), self.rows.naming()
        tell(f"reading {self.table.path}")
        label, ids, task = read_label(self.table, self.label, self.hinting, self.name, self.task)
        self.rows.check_ids(ids is not None, f"The hints of party {self.name!r}")
        tell(f"drawing answers for {len(label):,} labels")
        to = ((agreed, (_receiver(agreed, keys),)),)
        done = self.book.publish(label, self.label, self.hinting, task, self.name, self.for_run, ids, naming, to)
        leaving = keys.close(done.hints[0])
        return HintReport(leaving, write_file(self.out, leaving.data), done)


def _receiver(agreed: AgreedRows | None, keys: Keys) -> str:
    """Return who gets a file, as far as it can be known."""
    if keys.receiver is None:
        return ANYONE if agreed is None else agreed.guest
    return f"{'a guest' if agreed is None else agreed.guest} with the key {keys.receiver.fingerprint}"


def read_label(
    source: TableSource, label: str, hinting: Hinting, party: str, task: str | None = None
) -> tuple[NDArray[Any], Ids | None, str]:
    """Read the labels of a table, its ids and no other column, and say what labels are: classes or numbers."""
    if label == source.id:
        raise InputError(f"The column {label!r} has the ids, and cannot be the label, too (label).", parameter="label")
    types = {name: kind for name, kind in source.types.items() if name == label}
    table = read_table(source.path, id=source.id, columns=[label], types=types, party=party)
    column = table.columns[0]
    check_label(column, f"Column {label!r} of {source.path}")
    if hinting.edges is not None and column.dtype.kind not in "fiu":
        raise InputError(
            f"The labels, column {label!r}, are no numbers, and bins are for numbers; leave them out (edges).",
            parameter="edges",
        )
    if hinting.edges is not None or hinting.classes is not None:
        return column, table.ids, "classification" if hinting.edges is None else "regression"
    found = task or infer_task(column)
    check_task(found, column, label)
    if found == "regression":
        raise InputError(
            f"The labels, column {label!r}, are numbers, and hints at numbers need bins; give the numbers between them, by "
            "public knowledge (edges); or say which classes there are (classes), or that each number is one "
            "(task=classification).",
            parameter=("edges", "classes", "task"),
        )
    return column, table.ids, found


@dataclass(frozen=True)
class HintsFile:
    """Hints of the host that a guest learns with.

    Parameters
    ----------
    path : path
        The file of `fedonce host hint`.
    verify : path, optional
        Public key of the host: the hints must be signed with it.
    """

    path: str | Path
    verify: File = None

    def read(self, run: str, guest: str, key: PrivateKey | None) -> Hints:
        """Read them, trusting nothing of them; `key` opens them where they are sealed."""
        raw = read_bytes(self.path, "hints file", look=partial(self._judge, key is not None))
        try:
            hints = Hints.from_bytes(unseal(raw, key) if key is not None and kind_of(raw) == "sealed" else raw)
        except MessageError as error:
            raise error.found_in(self.path) from None
        if not is_party_name(hints.party) or hints.party == guest:
            what = why_not(hints.party) if hints.party != guest else f"the guest's own, {guest!r}"
            raise self._refused(f"the name of their host must be {MUST_BE}, and another than the guest's. Got {what}")
        if hints.run != run:
            raise self._refused(f"they belong to run {hints.run!r}, this is run {run!r}", "run")
        if self.verify is not None:
            known = read_public(self.verify)
            if not hints.signature:
                raise self._refused(f"they are not signed, and must be, with the key {known.fingerprint}", "verify")
            if not known.verify(hints.checksum, hints.signature):
                why = f"their signature is not by the key {known.fingerprint}. Ask the host, by another way, for its public key"
                raise self._refused(why, "verify")
        return hints

    def _judge(self, has_key: bool, start: bytes, size: int) -> None:
        """Refuse a file by its first bytes and its size, before it is read."""
        if start.startswith(SEALED):
            if not has_key:
                text = f"The hints file {self.path} is sealed; give the private key that it was sealed to (key)."
                raise MessageError(text, parameter="key")
            if why := too_large(size):
                raise self._refused(why)
            return
        try:
            check_start(start, size)
        except MessageError as error:
            raise error.found_in(self.path) from None

    def _refused(self, why: str, parameter: str | tuple[str, ...] = ()) -> MessageError:
        return MessageError(f"The hints in {self.path} are refused: {why}.", parameter=parameter)


@dataclass(frozen=True)
class Taken:
    """What a guest made of hints: at which label, for how many of its rows there was one, and how many values are by them."""

    label: str
    epsilon: float
    classes: int
    rows: int
    hinted_rows: int
    values: int
    hinted_values: int

    @classmethod
    def of(cls, hints: Hints, party: Guest, own: Table, agreed: AgreedRows | None, values: int) -> Taken:
        """Return it of a guest that has learnt, and sends this number of values per row."""
        answers = hints_of(hints, own, None, party.naming, agreed, party.name, party.run)
        by_hints = int(getattr(party.learner, "hinted_", 0))
        known = int((answers >= 0).sum())
        return cls(hints.label, hints.epsilon, hints.classes, len(answers), known, values, by_hints)

    @property
    def in_words(self) -> str:
        """All of it, in some sentences."""
        how = "as it is" if math.isinf(self.epsilon) else f"label epsilon {self.epsilon:g}"
        gaps = "" if self.hinted_rows == self.rows else "; rows without one are fine"
        if self.hinted_values:
            made = f"{self.hinted_values} of {self.values} values {'is' if self.hinted_values == 1 else 'are'} learnt from hints"
        elif self.hinted_rows < LEAST_HINTED:
            made = f"No value is by hints: fewer than {LEAST_HINTED} rows have one"
        else:
            made = (
                "No value is by hints: a table uses hints only if you ask for the learner 'hinted', images only if a trial on "
                "rows held back shows that they help"
            )
        known = f"{self.hinted_rows:,} of {self.rows:,} rows have one{gaps}"
        return f"Hints at {self.label!r} ({how}, {self.classes} classes): {known}. {made}."

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values; an epsilon that is infinite as None."""
        return asdict(self) | {"epsilon": None if math.isinf(self.epsilon) else self.epsilon}
