"""What a guest has answered: a line for each answer, written down before it leaves, and never changed.

The lines are in `answers/record.jsonl` of the guest's kit. What the policy limits over a run, or over the life of a table, is
counted here, and not by the answers that are kept: those are cleared away, this is not.

A line is on the disk before its answer is sent. So a last line that is not whole belongs to an answer that never left: it is cut
off. Any other line that cannot be read is an error, as nobody knows what it counted.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import secrets
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedonce.errors import InputError, MessageError
from fedonce.federation import request as asking
from fedonce.federation.policy import Policy
from fedonce.messages.envelope import read_header
from fedonce.messages.representation import DIM_LIMIT, Representation
from fedonce.rows import alignment
from fedonce.system.disk import cannot_write, write_file
from fedonce.system.locks import hold

ANSWERS, MESSAGE, ASKED = "answers", "message.fedonce", "request.fedonce"  # where answers are kept, and what of each
COLUMNS, REBUILT = (
    "columns.json",
    "rebuilt.json",
)  # beside a message: what it was learnt from, and what attacks get
RECORD, LOCK, KEY = "record.jsonl", "record.lock", "noise.key"
FORMAT = 1
KEY_BYTES = 32
# What a line may be about. "intended": a private learning begins; "withdrawn": it failed, and nothing left. "round": so many
# rounds may follow; "tuned": a model that came out of rounds. "begun": the record itself.
WHATS = ("begun", "intended", "withdrawn", "learn", "represent", "align", "round", "tuned")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """A line of the record; what does not apply is None.

    `columns`, `dim`, `bits`, `noise`, `local_epsilon`, `rows`, `bytes`, `sha256` are of the message, `model` is the
    fingerprint of the model that made it, `epsilon` the price of the plan that it was learnt by, `rounds` how many rounds,
    `rebuilt` how well the best attack rebuilt its columns: figures, no names. `hints` is what `Request.hinted` says.
    """

    what: str
    run: str = ""
    fingerprint: str = ""
    time: str = ""
    host: str | None = None
    model: str | None = None
    columns: int | None = None
    dim: int | None = None
    bits: int | None = None
    noise: float | None = None
    local_epsilon: float | None = None
    epsilon: float | None = None
    rows: int | None = None
    rounds: int | None = None
    bytes: int | None = None
    sha256: str | None = None
    rebuilt: dict[str, Any] | None = None
    hints: str | None = None


def line_of(entry: Entry) -> bytes:
    """Return an entry as a line, dated now where it has no date."""
    values = asdict(entry) | {"time": entry.time or datetime.now(UTC).isoformat(timespec="milliseconds")}
    given = {key: value for key, value in values.items() if value is not None}
    return json.dumps({"record": FORMAT, **given}).encode() + b"\n"


def entry_of(line: bytes) -> Entry:
    """Read a line; raise ValueError where it cannot be one. Keys that a later version adds are passed over."""
    content = json.loads(line)
    if not isinstance(content, dict) or not line.endswith(b"\n") or content.get("what") not in WHATS:
        raise ValueError("it is no line of a record")
    entry = Entry(**{each.name: content[each.name] for each in fields(Entry) if each.name in content})
    datetime.fromisoformat(entry.time)
    counts = (entry.columns, entry.dim, entry.rows, entry.rounds, entry.bytes)
    if not all(value is None or (type(value) is int and value >= 0) for value in counts):
        raise ValueError("its numbers cannot be read")
    if not all(
        isinstance(text, str | None)
        for text in (entry.run, entry.fingerprint, entry.host, entry.model, entry.sha256, entry.hints)
    ):
        raise ValueError("its names cannot be read")
    return entry


def same_run(run: str) -> str:
    """Return a run's name without what could make it look like another: "Churn." is "churn" again.

    >>> same_run("Churn-2026. ")
    'churn-2026'
    """
    return unicodedata.normalize("NFKC", run).casefold().strip(" ._-")


@dataclass(frozen=True)
class Tally:
    """What the lines of a record come to."""

    entries: Sequence[Entry]

    def has(self, entry: Entry) -> bool:
        """Tell whether this very answer was written down before."""
        wanted = (entry.what, entry.fingerprint, entry.sha256)
        return any((each.what, each.fingerprint, each.sha256) == wanted for each in self.entries)

    def has_model(self, fingerprint: str) -> bool:
        """Tell whether a model has answered."""
        return any(each.what in ("learn", "tuned") and each.fingerprint == fingerprint for each in self.entries)

    @property
    def open(self) -> dict[str, Entry]:
        """Private learnings that began, and neither answered nor failed: they go on right now, or were killed."""
        found: dict[str, Entry] = {}
        for entry in self.entries:
            if entry.what == "intended":
                found[entry.fingerprint] = entry
            elif entry.what in ("withdrawn", "learn"):
                found.pop(entry.fingerprint, None)
        return found

    def learnings(self, but: str = "") -> list[Entry]:
        """Return the learnings that count: each answer once, and the open ones, `but` not that of this fingerprint."""
        answers = {(each.fingerprint, each.sha256): each for each in self.entries if each.what == "learn"}
        return [*answers.values(), *(each for name, each in self.open.items() if name != but)]

    def rounds(self, run: str) -> int:
        """Return how many rounds there were, or may yet be, in a run."""
        return sum(each.rounds or 0 for each in self.entries if each.what == "round" and _is_of(each, run))

    def runs(self) -> list[str]:
        """Return the runs in which something was learnt, by the names of their first lines."""
        return list({same_run(each.run): each.run for each in reversed(self.learnings())}.values())[::-1]

    @property
    def values_per_row(self) -> int:
        """How many values may have left of a row: those of all models that have answered, each once."""
        models = [each for each in self.entries if each.what in ("learn", "tuned")]
        return sum(each.dim or 0 for each in {(each.fingerprint, each.sha256): each for each in models}.values())


def _is_of(entry: Entry, run: str) -> bool:
    return same_run(entry.run) == same_run(run)


def of_run(entries: Sequence[Entry], run: str) -> list[Entry]:
    """Return the lines of a run."""
    return [entry for entry in entries if _is_of(entry, run)]


@dataclass(frozen=True)
class Record:
    """The record of a guest, in the folder where it keeps its answers."""

    folder: Path

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / RECORD

    def look(self) -> Tally:
        """Return what there is, and change nothing."""
        return Tally(_read(self.path)[0] or kept_before(self.folder))

    def enter(self, entry: Entry, refusal: Callable[[Tally], str | None] = lambda tally: None) -> str | None:
        """Write a line unless it is there, or there is a reason not to, which is returned; no other process comes between."""
        with self._alone():
            tally = Tally(self._begin())
            if entry.sha256 is not None and tally.has(entry):
                return None
            reason = refusal(tally)
            if reason is None:
                _append(self.path, line_of(entry))
            return reason

    def tally(self) -> Tally:
        """Return what there is; a record that is missing is begun, with what is kept from before there was one."""
        with self._alone():
            return Tally(self._begin())

    def noise_key(self) -> bytes:
        """Return the guest's secret for noise, which is made once."""
        path = self.folder / KEY
        with self._alone():
            if not path.exists():
                write_file(path, secrets.token_bytes(KEY_BYTES), private=True)
        key = path.read_bytes()
        if len(key) != KEY_BYTES:
            raise InputError(f"{path} must have {KEY_BYTES} bytes, it has {len(key)}; put it back from a backup.")
        return key

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with hold(self.folder / LOCK):
            yield

    def _begin(self) -> list[Entry]:
        """Return all lines; cut off a last one that is not whole, and write a first one where there is none."""
        entries, whole = _read(self.path)
        if entries:
            if whole < self.path.stat().st_size:
                logger.warning("%s: its last line is not whole, so its answer never left; it is cut off", self.path)
                os.truncate(self.path, whole)
            elif not self.path.read_bytes().endswith(b"\n"):
                _append(self.path, b"\n")
            return entries
        entries = [Entry("begun", time=datetime.now(UTC).isoformat(timespec="milliseconds")), *kept_before(self.folder)]
        write_file(self.path, b"".join(line_of(entry) for entry in entries), private=True)
        return entries


def _append(path: Path, line: bytes) -> None:
    """Add a line, and return once it is on the disk."""
    try:
        with path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise cannot_write(path, error) from None


def _read(path: Path) -> tuple[list[Entry], int]:
    """Return the lines of a record and how many bytes they are; a last line that is not whole is passed over.

    A last line that lacks nothing but its end is taken: somebody may have mended the file by hand.
    """
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return [], 0
    entries: list[Entry] = []
    for number, line in enumerate(lines, 1):
        torn = not line.endswith(b"\n")
        try:
            entries.append(entry_of(line + b"\n" if torn else line))
        except (ValueError, TypeError, RecursionError) as error:
            if torn:
                return entries, sum(map(len, lines[:-1]))
            raise InputError(
                f"{path}: line {number} cannot be read ({error}), so nobody knows what was answered; put the file back from a "
                "backup, or mend the line."
            ) from None
    return entries, sum(map(len, lines))


def kept_before(folder: Path) -> list[Entry]:
    """Return lines for the models that are kept: for a kit from before there was a record, or one that lost it."""
    return [entry for path in sorted(folder.glob(f"*/{ASKED}")) if (entry := _of_kept(path)) is not None]


def _of_kept(asked: Path) -> Entry | None:
    """Return the line of a kept model: one that answered, or one that came out of rounds; None: it never answered."""
    data, name, message = asked.read_bytes(), asked.parent.name, asked.parent / MESSAGE
    when = datetime.fromtimestamp(asked.stat().st_mtime, UTC).isoformat(timespec="milliseconds")
    file: dict[str, Any] = {"bytes": message.stat().st_size, "sha256": digest_of(message)} if message.exists() else {}
    try:
        request = asking.Request.from_bytes(data)
    except MessageError:  # of another version: what cannot be read is taken for the most that it may be
        return Entry("learn", _run_of(data), name, when, dim=Policy.max_dim, epsilon=math.inf, **file)
    if request.fingerprint != name:
        return Entry("tuned", request.run, name, when, request.host, request.fingerprint, dim=request.dim)
    return learnt(request, time=when, **file) if file else None


def learnt(request: asking.Request, what: str = "learn", **more: Any) -> Entry:
    """Return the line of a learning."""
    figures = {"dim": request.dim, "bits": request.bits, "noise": request.noise, "epsilon": epsilon_of(request)} | more
    figures.setdefault("local_epsilon", request.local_epsilon)
    figures.setdefault("hints", request.hinted)
    return Entry(what, request.run, request.fingerprint, host=request.host, **figures)


def sent(request: asking.Request, folder: Path) -> Entry:
    """Return the line of an answer, as far as it takes to find it again."""
    message = folder / MESSAGE
    found: dict[str, Any] = {"bytes": message.stat().st_size, "sha256": digest_of(message)}
    return Entry(request.what, request.run, request.fingerprint, host=request.host, **found)


def described(entry: Entry, request: asking.Request, folder: Path) -> Entry:
    """Return the whole line of an answer: what is in it, and how it was made."""
    if request.what == "align":
        return replace(entry, rows=len(alignment.Request.from_bytes(request.points or b"").points))
    values = Representation.from_bytes((folder / MESSAGE).read_bytes(), max_dim=DIM_LIMIT).values
    entry = replace(entry, rows=len(values), dim=int(values.shape[1]))
    if request.what == "represent":
        return replace(entry, model=request.model)
    used, learning = json.loads((folder / COLUMNS).read_text(encoding="utf-8")), learnt(request)
    entry = replace(entry, bits=learning.bits, noise=learning.noise, epsilon=learning.epsilon)
    entry = replace(entry, local_epsilon=learning.local_epsilon, hints=learning.hints)
    return replace(entry, columns=len(used), rebuilt=rebuilt_of(folder))


def rebuilt_of(folder: Path) -> dict[str, Any] | None:
    """Return how well the best attack rebuilt the columns from a message; None: nobody tried, it is of an earlier version."""
    path = folder / REBUILT
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def epsilon_of(request: asking.Request) -> float | None:
    """Return what a request's privacy plan promises to cost; None where there is no plan."""
    if request.plan is None:
        return None
    try:
        return float(json.loads(request.plan)["epsilon"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return math.inf


def digest_of(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _run_of(data: bytes) -> str:
    try:
        return read_header(data, asking.KIND, asking.KEYS)["run"]
    except MessageError:
        return ""
