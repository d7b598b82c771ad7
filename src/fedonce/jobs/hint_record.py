"""What a host has published of its labels: a private file that is read, added to and written before any hints leave.

It holds the key from which answers follow. With it, the same label of the same row has the same answer in every publication for
the same purpose (`fedonce.party.hinting.Purpose`), so there is no book of answers: the record says which columns were published,
for which purposes, and to whom, and limits the sum of the purposes' epsilons.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedonce.errors import BudgetError, InputError, parameter_error
from fedonce.messages.hints import LEAST_EPSILON, MOST_EPSILON, MOST_LIMIT, Hinting, Hints, keep_of
from fedonce.messages.keys import warn_if_open
from fedonce.party.hinting import KEY_BYTES, Purpose, forms_of, publish
from fedonce.rows.alignment import AgreedRows
from fedonce.rows.ids import Ids, Naming, fingerprint
from fedonce.system.disk import cannot_write, read_file, sync_folder, write_file
from fedonce.system.locks import hold

FORMAT = 3
LIMIT = 8.0  # the sum of epsilons, where nobody says otherwise
LARGEST = 2**28  # bytes of a record
SHOWN = 12  # classes or edges that are named in words
ANYONE = "anyone who is given the file"
HOLDS = (
    "The sum holds for each row whose label has not changed since it was first published. A label that changed gets an answer of "
    "its own: where it differs from the earlier one, it shows for certain that the label changed, at any epsilon, and the new "
    "label costs its epsilon again. Rows are not counted here: a label that changed, an id that is spelt otherwise, two ids of "
    "one person, and what was published with another key are not seen."
)


@dataclass(frozen=True)
class Sent:
    """A file of hints: to whom, for which run, of how many rows."""

    to: tuple[str, ...]
    run: str
    rows: int
    checksum: str
    time: str


@dataclass(frozen=True)
class Published:
    """A column of labels that was published for one purpose, and the files in which it was."""

    column: str
    purpose: Purpose
    sent: tuple[Sent, ...]

    def is_of(self, column: str) -> bool:
        """Tell whether it is of a column, whose name people write in one way or another."""
        return self.column.strip().casefold() == column.strip().casefold()

    @property
    def in_words(self) -> str:
        """What was disclosed, at which epsilon, and to whom."""
        what, many = self.purpose, len(self.purpose.classes)
        named = what.classes if what.edges is None else tuple(f"{edge:g}" for edge in what.edges)
        values = f"{many} {'classes' if what.edges is None else 'bins'}"
        if many <= SHOWN:
            values += f" ({'' if what.edges is None else 'edges '}{', '.join(named)})"
        how = "each row's class AS IT IS, without noise"
        if what.epsilon is not None:
            keep = f"the true class in {100 * keep_of(many, what.epsilon):.3g} % of answers"
            how = f"each row's class by randomised response, label epsilon {what.epsilon:g} ({keep})"
        name = "" if what.label == self.column else f" under the name {what.label!r}"
        to = ", ".join(dict.fromkeys(name for each in self.sent for name in each.to))
        return f"Column {self.column!r}{name}, {values}: {how}. To: {to}."

    @classmethod
    def from_json(cls, content: Any) -> Published:
        """Read it; raise ValueError, TypeError or KeyError where it is none."""
        lists = {name: content["purpose"][name] for name in ("classes", "edges", "forms")}
        tuples = {name: None if each is None else tuple(each) for name, each in lists.items()}
        purpose = Purpose(**{**content["purpose"], **tuples})
        if purpose.epsilon is not None and not LEAST_EPSILON <= purpose.epsilon <= MOST_EPSILON:
            raise ValueError("an epsilon cannot be read")
        return cls(
            content["column"], purpose, tuple(Sent(**{**each, "to": tuple(each["to"])}) for each in content["sent"])
        )


@dataclass(frozen=True)
class Books:
    """The content of a record: the key, the limits that were set, each with its time, and what was published."""

    key: bytes = field(repr=False)
    limits: tuple[dict[str, Any], ...] = ()
    published: tuple[Published, ...] = ()

    @property
    def limit(self) -> float:
        """The most that epsilons may add up to."""
        return float(self.limits[-1]["limit"])

    def spent(self, column: str | None = None) -> float:
        """Return the sum of epsilons over what was published, of one column or of all."""
        return math.fsum(each.purpose.epsilon or 0.0 for each in self.published if column is None or each.is_of(column))

    def with_limit(self, limit: float | None) -> Books:
        """Return them with another limit, which is noted; None: as it is."""
        wanted = LIMIT if limit is None and not self.limits else limit
        if wanted is None or (self.limits and wanted == self.limit):
            return self
        return replace(self, limits=(*self.limits, {"time": _now(), "limit": float(wanted)}))

    def adding(self, column: str, purpose: Purpose, sent: Sent, path: Path) -> Books:
        """Return them with one more file; the same file to the same guests is written down once."""
        bare, others = purpose.epsilon is None, [each for each in self.published if each.is_of(column)]
        if any((each.purpose.epsilon is None) is not bare for each in others):
            before = "was published with an epsilon before; as it is, every label would be disclosed"
            if not bare:
                before = "travelled as it is before; an epsilon would protect nothing that was disclosed then"
            raise BudgetError(
                f"The column {column!r} {before} ({path}). Nothing was written. A stand-in must be another column.",
                parameter=("label", "proxy"),
            )
        known = next((each for each in self.published if (each.column, each.purpose) == (column, purpose)), None)
        if known is None:
            return replace(self, published=(*self.published, Published(column, purpose, (sent,))))
        if any((each.to, each.checksum) == (sent.to, sent.checksum) for each in known.sent):
            return self
        after = replace(known, sent=(*known.sent, sent))
        return replace(self, published=tuple(after if each is known else each for each in self.published))

    def to_bytes(self) -> bytes:
        """Return the file, with all that it says in words."""
        columns = dict.fromkeys(each.column for each in self.published)
        sums = [f"Sum of label epsilons, column {each!r}: {self.spent(each):g}." for each in columns]
        total = f"Sum over all columns: {self.spent():g} of {self.limit:g} at most. Key: {fingerprint(self.key)}."
        words = [*(each.in_words for each in self.published), *sums, total, HOLDS]
        content = {"fedonce hints record": FORMAT, "in words": words, "key": self.key.hex(), "limits": self.limits}
        return json.dumps(content | {"published": list(map(asdict, self.published))}, indent=1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> Books:
        """Read the file; raise ValueError, TypeError or KeyError where it is none."""
        content = json.loads(data)
        published = tuple(map(Published.from_json, content["published"]))
        made = cls(bytes.fromhex(content["key"]), tuple(content["limits"]), published)
        if len(made.key) != KEY_BYTES or not all(is_limit(each["limit"]) for each in made.limits):
            raise ValueError("its key or its limit cannot be read")
        if json.loads(made.to_bytes()) | {"in words": None} != content | {"in words": None}:
            raise ValueError(f"its entries are not those of a record of format {FORMAT}")
        return made


@dataclass(frozen=True)
class Publication:
    """Hints that are written down and may leave.

    `column` was published, `disclosed` says of each file what and to whom. `cost` is by how much the sum of epsilons grew,
    `spent_on_label` and `spent` are the sums of the column and of all columns, `limit` is the most that the latter may be. `key`
    is a fingerprint. `begun`: there was no record.
    """

    hints: tuple[Hints, ...]
    column: str
    disclosed: tuple[str, ...]
    cost: float
    spent_on_label: float
    spent: float
    limit: float
    record: Path
    key: str
    begun: bool

    def as_json(self) -> dict[str, Any]:
        """Return what was published, and what it cost, as JSON values."""
        figures = {
            name.replace("_", " "): value for name, value in vars(self).items() if name not in ("hints", "begun")
        }
        changed = {"disclosed": list(self.disclosed), "record": str(self.record), "record begun": self.begun}
        return figures | changed | {"holds": HOLDS}


@dataclass(frozen=True)
class HintRecord:
    """A host's record of hints, in a file.

    Parameters
    ----------
    path : path
        The file; it is begun where it is missing.
    limit : float, optional
        The most that epsilons may add up to, over all that was published. None: as the record says, 8 where it is begun.
    """

    path: Path
    limit: float | None = None

    def __post_init__(self) -> None:
        # By a link, the lock and the file that is replaced would be another one's than by the name behind it.
        if self.path.is_symlink() and not self.path.exists():
            raise InputError(
                f"The record of hints {self.path} is a link that leads nowhere; mend it.", parameter="record"
            )
        object.__setattr__(self, "path", self.path.resolve())
        if self.limit is not None and not is_limit(self.limit):
            raise parameter_error("HintRecord", "limit", f"a number above 0 and up to {MOST_LIMIT:g}", self.limit)

    def look(self) -> Books | None:
        """Return the content, and change nothing; None: there is no record yet."""
        if not self.path.exists():
            return None
        data = read_file(self.path, "record of hints", LARGEST)
        warn_if_open(self.path, "record of hints")
        try:
            return Books.from_bytes(data)
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise InputError(
                f"The record of hints {self.path} cannot be read ({str(error)[:100]}), so nobody knows what was published; "
                "put it back from a backup.",
                parameter="record",
            ) from None

    def publish(
        self,
        label: NDArray[Any],
        column: str,
        hinting: Hinting,
        task: str,
        party: str,
        run: str,
        ids: Ids | None,
        naming: Naming | None,
        to: Sequence[tuple[AgreedRows | None, tuple[str, ...]]] = ((None, (ANYONE,)),),
    ) -> Publication:
        """Make hints, a file for each of `to` (agreed rows, guests), and write them down; beyond the limit raise BudgetError."""
        with self._alone():
            before = self.look()
            books = (before or Books(secrets.token_bytes(KEY_BYTES))).with_limit(self.limit)
            start, hints, lines, now = books.spent(), [], [], _now()
            for agreed, names in to:
                made = publish(label, hinting, task, party, run, ids, naming, books.key, agreed)
                forms = None if ids is None else forms_of(naming, agreed)
                purpose, _ = Purpose.of(label, hinting, task, party, forms)
                sent = Sent(names, run, made.n_rows, made.checksum, now)
                books = books.adding(column, purpose, sent, self.path)
                hints.append(made)
                lines.append(Published(column, purpose, (sent,)).in_words)
            cost = books.spent() - start
            if cost and books.spent() > books.limit * (1 + 1e-9):
                raise BudgetError(
                    f"Hints at {hinting.label!r} with epsilon {hinting.epsilon:g} are refused: with what was published "
                    f"before, label epsilons add up to {books.spent():g}, and the limit in {self.path} is {books.limit:g}. "
                    "Nothing was written. Publish the same as before (name, epsilon, classes or edges, and form of ids), which "
                    "costs nothing; take a smaller epsilon (epsilon), or raise the limit (limit).",
                    parameter=("epsilon", "limit"),
                )
            if books != before:
                write_file(self.path, books.to_bytes(), private=True)
                sync_folder(self.path.parent)
        sums = cost, books.spent(column), books.spent(), books.limit
        return Publication(tuple(hints), column, tuple(lines), *sums, self.path, fingerprint(books.key), before is None)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let no other process count between reading and writing."""
        lock = lock_of(self.path)
        try:
            with hold(lock):
                yield
        except OSError as error:
            raise cannot_write(lock, error) from None


def lock_of(record: Path) -> Path:
    """Return the file that a process holds while it counts."""
    return record.with_name(f"{record.name}.lock")


def is_limit(value: object) -> bool:
    """Tell whether something can be the limit of a record."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MOST_LIMIT


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
