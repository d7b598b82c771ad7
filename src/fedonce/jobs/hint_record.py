"""What a host has published of its labels: a private file with its secret for hints, its limit, and a line for each publication.

By the secret, the same label of the same row is told alike however often it is asked for: publishing the same labels of the same
rows again costs nothing. What differs in anything but the run adds its epsilon, up to the limit: another epsilon, other classes,
another row, another label of a row. A line is on the disk before its hints leave.
"""

from __future__ import annotations

import hmac
import json
import math
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedonce.errors import BudgetError, InputError, parameter_error
from fedonce.messages.hints import Hints
from fedonce.messages.keys import warn_if_open
from fedonce.party.hint_checks import checked_public
from fedonce.party.hinting import KEY_BYTES, Hinting, forms_of, publish
from fedonce.rows.alignment import AgreedRows
from fedonce.rows.ids import Ids, Naming, normalise
from fedonce.system.disk import cannot_write, read_file, sync_folder, write_file
from fedonce.system.locks import hold

RECORD = "hints.record"
FORMAT = 1
LIMIT = 8.0  # sum of epsilons, where nobody says otherwise
MOST_LIMIT = 1000.0


@dataclass(frozen=True)
class Published:
    """One publication.

    `epsilon` None: a stand-in that travels as it is, and costs nothing. `classes` or `edges` are what is told of the label.
    `rows_digest` is a keyed digest of all rows' ids and labels: of other rows, or with other labels, it is another publication.
    `column` is where the label stands; the rest tells one file from another.
    """

    label: str
    epsilon: float | None
    classes: tuple[str, ...] | None
    edges: tuple[float, ...] | None
    rows_digest: str
    column: str = ""
    run: str = ""
    rows: int = 0
    checksum: str = ""
    time: str = ""

    @property
    def what(self) -> Published:
        """What of it decides whether it is told again."""
        return Published(self.label, self.epsilon, self.classes, self.edges, self.rows_digest)

    @classmethod
    def from_json(cls, content: Any) -> Published:
        """Read a line; raise ValueError, TypeError or KeyError where it is none."""
        lists = {name: None if content[name] is None else tuple(content[name]) for name in ("classes", "edges")}
        made = cls(**{**content, **lists})
        texts = (made.label, made.rows_digest, made.column, made.run, made.checksum, *(made.classes or ()))
        numbers = (*(made.edges or ()), 1.0 if made.epsilon is None else made.epsilon)
        if not all(isinstance(text, str) for text in texts) or not all(type(each) is float for each in numbers):
            raise ValueError("its texts or numbers cannot be read")
        if made.epsilon is not None and not 0 < made.epsilon < math.inf:
            raise ValueError("its epsilon cannot be read")
        if type(made.rows) is not int or (made.classes is None) == (made.edges is None):
            raise ValueError("it must have a number of rows, and classes or edges")
        datetime.fromisoformat(made.time)
        return made


@dataclass(frozen=True)
class Books:
    """The content of a record: the secret, the limit, since when there is which, and what was published."""

    key: bytes = field(repr=False)
    limit: float
    limits: tuple[Mapping[str, Any], ...] = ()
    published: tuple[Published, ...] = ()

    @property
    def spent(self) -> float:
        """The sum of the epsilons, each publication once."""
        told = dict.fromkeys(each.what for each in self.published)
        return math.fsum(each.epsilon for each in told if each.epsilon is not None)

    def to_bytes(self) -> bytes:
        """Return the file."""
        lines = [asdict(each) for each in self.published]
        content = {"fedonce hints record": FORMAT, "key": self.key.hex(), "limit": self.limit, "limits": self.limits}
        return json.dumps(content | {"published": lines}, indent=1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> Books:
        """Read the file; raise ValueError, TypeError or KeyError where it is none."""
        content = json.loads(data)
        if not isinstance(content, dict) or content.pop("fedonce hints record", None) != FORMAT:
            raise ValueError(f"it is no record of hints of format {FORMAT}")
        if set(content) != {"key", "limit", "limits", "published"}:
            raise ValueError("its entries are not those of a record")
        key, limit, limits = bytes.fromhex(content["key"]), content["limit"], content["limits"]
        if len(key) != KEY_BYTES or not is_limit(limit):
            raise ValueError("its key or its limit cannot be read")
        if not isinstance(limits, list) or not all(isinstance(each, dict) for each in limits):
            raise ValueError("its limits cannot be read")
        return cls(key, limit, tuple(limits), tuple(map(Published.from_json, content["published"])))

    def with_limit(self, limit: float | None) -> Books:
        """Return them with another limit, which is noted; None: as it is."""
        if limit is None or (limit == self.limit and self.limits):
            return self
        return replace(self, limit=float(limit), limits=(*self.limits, {"time": _now(), "limit": float(limit)}))

    def adding(self, lines: Sequence[Published], path: Path) -> Books:
        """Return them with more lines, each once; raise BudgetError beyond the limit."""
        guarded = {each.column for each in self.published if each.epsilon is not None}
        bare = next((each for each in lines if each.epsilon is None and each.column in guarded), None)
        if bare is not None:
            raise BudgetError(
                f"The column {bare.column!r} was hinted at with an epsilon before ({path}); as it is, every label would be told. "
                "Nothing was written. A stand-in must be another column.",
                parameter=("label", "proxy"),
            )
        known = {(each.what, each.run, each.checksum) for each in self.published}
        more = [each for each in lines if (each.what, each.run, each.checksum) not in known]
        made = replace(self, published=(*self.published, *more))
        if self.spent < made.spent > self.limit * (1 + 1e-9):
            raise BudgetError(
                f"Hints at {lines[0].label!r} with epsilon {lines[0].epsilon:g} are refused: with those published before, the "
                f"epsilons add up to {made.spent:g}, and the limit in {path} is {self.limit:g}. Nothing was written. Publish the "
                "same as before, which costs nothing; take a smaller epsilon (epsilon), or raise the limit (limit).",
                parameter=("epsilon", "limit"),
            )
        return made


@dataclass(frozen=True)
class Publication:
    """Hints that are written down and may leave; how much the record adds up to, its limit, and whether it is new."""

    hints: tuple[Hints, ...]
    spent: float
    limit: float
    record: Path
    begun: bool
    cost: float


@dataclass(frozen=True)
class HintRecord:
    """A host's record of hints, in a file.

    Parameters
    ----------
    path : path
        The file; it is begun where it is missing.
    limit : float, optional
        The most that epsilons may add up to. None: as the record says, 8 where it is begun.
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

    @property
    def file(self) -> Path:
        """The file itself: by a link, the lock and what is replaced would be other files than by the name behind it."""
        return self.path.resolve()

    def look(self) -> Books | None:
        """Return the content, and change nothing; None: there is no record yet."""
        if not self.file.exists():
            return None
        data = read_file(self.file, "record of hints")
        warn_if_open(self.file, "record of hints")
        try:
            return Books.from_bytes(data)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(
                f"The record of hints {self.path} cannot be read ({str(error)[:100]}), so nobody knows what was published; "
                "put it back from a backup.",
                parameter="record",
            ) from None

    def publish(
        self,
        label: NDArray[Any],
        hinting: Hinting,
        task: str,
        party: str,
        run: str,
        ids: Ids | None,
        naming: Naming | None,
        agreed: Sequence[AgreedRows | None] = (None,),
        column: str = "",
        public: NDArray[Any] | None = None,
    ) -> Publication:
        """Make hints, one file for each of `agreed`, and write them down; beyond the limit raise BudgetError."""
        with self._alone():
            before = self.look()
            books = before or Books(secrets.token_bytes(KEY_BYTES), LIMIT)
            books = books.with_limit(LIMIT if before is None and self.limit is None else self.limit)
            made = tuple(
                publish(label, hinting, task, party, run, ids, naming, books.key, public, each) for each in agreed
            )
            known = None if ids is None else normalise(ids, forms_of(naming, agreed[0]))
            what, now = _described(label, hinting, task, party, known, books.key, public), _now()
            lines = [
                replace(
                    what, column=column or hinting.label, run=run, rows=each.n_rows, checksum=each.checksum, time=now
                )
                for each in made
            ]
            after = books.adding(lines, self.path)
            if after != before:
                write_file(self.file, after.to_bytes(), private=True)
                sync_folder(self.file.parent)
            spent = 0.0 if before is None else before.spent
            return Publication(made, after.spent, after.limit, self.path, before is None, after.spent - spent)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let no other process count between reading and writing."""
        lock = self.file.with_name(f"{self.file.name}.lock")
        try:
            with hold(lock):
                yield
        except OSError as error:
            raise cannot_write(lock, error) from None


def is_limit(value: object) -> bool:
    """Tell whether something can be the limit of a record."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MOST_LIMIT


def _described(
    label: NDArray[Any],
    hinting: Hinting,
    task: str,
    party: str,
    ids: Ids | None,
    key: bytes,
    public: NDArray[Any] | None,
) -> Published:
    """Return what of a publication decides whether it is told again."""
    codes, classes = hinting.codes(label, task, party, checked_public(public, hinting.edges))
    pairs = zip(range(len(codes)) if ids is None else ids, codes.tolist(), strict=True)
    rows = sorted(json.dumps([name, code]) for name, code in pairs)
    digest = hmac.digest(key, "\n".join(["labels", *rows]).encode("utf-8", "surrogatepass"), "sha256").hex()
    edges = None if hinting.edges is None else tuple(hinting.edges)
    epsilon = hinting.epsilon if math.isfinite(hinting.epsilon) else None
    return Published(hinting.label, epsilon, classes if edges is None else None, edges, digest)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
