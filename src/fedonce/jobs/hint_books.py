"""The content of a host's record of hints: its secret, its limit, what each row was told, and a line for each publication.

By the secret, the same label of the same row is told alike however often it is asked for: to tell it again the same way costs
nothing. Another label of a row, another epsilon, other classes or another name add their epsilon to that row's sum
(`fedonce.jobs.hint_rows`), and the limit holds for every row. Rows without ids are known by their places alone: any change among
them counts for every row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from fedonce.errors import BudgetError
from fedonce.jobs.hint_rows import Anew, RowSums, Tellings
from fedonce.party.hinting import KEY_BYTES

FORMAT = 2
FORMATS = (1, FORMAT)  # the first counted publications as wholes, and knew no rows
MOST_LIMIT = 1000.0


@dataclass(frozen=True)
class Published:
    """One publication.

    `epsilon` None: a stand-in that travels as it is, and costs nothing. `classes` or `edges` are what is told of the label.
    `rows_digest` is empty where rows have ids, each of which is counted by itself. Of rows by their places, and in records of
    format 1, it is a keyed digest of all labels: with any other it is another publication, which counts for every row.
    `forms` is how ids were made alike, by which rows are known; None: by their places, or a record of before, which did not say.
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
    forms: tuple[str, ...] | None = None

    @property
    def what(self) -> Published:
        """What of it decides whether it is told again."""
        return Published(self.label, self.epsilon, self.classes, self.edges, self.rows_digest)

    @classmethod
    def from_json(cls, content: Any) -> Published:
        """Read a line; raise ValueError, TypeError or KeyError where it is none."""
        lists = {name: content.get(name) for name in ("classes", "edges", "forms")}
        made = cls(**{**content, **{name: None if each is None else tuple(each) for name, each in lists.items()}})
        names = (*(made.classes or ()), *(made.forms or ()))
        texts = (made.label, made.rows_digest, made.column, made.run, made.checksum, *names)
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
    """The content of a record: the secret, the limit, since when there is which, what was published, and what rows were told."""

    key: bytes = field(repr=False)
    limit: float
    limits: tuple[Mapping[str, Any], ...] = ()
    published: tuple[Published, ...] = ()
    rows: RowSums = field(default_factory=RowSums, repr=False)

    @property
    def start(self) -> float:
        """The sum of a row that is not known: of all publications that count for every row, each once."""
        told = dict.fromkeys(each.what for each in self.published if each.rows_digest)
        return math.fsum(each.epsilon for each in told if each.epsilon is not None)

    @property
    def spent(self) -> float:
        """The largest sum of epsilons over rows."""
        return max(self.start, self.rows.largest)

    def to_bytes(self) -> bytes:
        """Return the file."""
        whole = [asdict(each) for each in self.published]
        lines = [{name: value for name, value in each.items() if (name, value) != ("forms", None)} for each in whole]
        content = {"fedonce hints record": FORMAT, "key": self.key.hex(), "limit": self.limit, "limits": self.limits}
        return json.dumps(content | {"published": lines, "rows": self.rows.to_json()}, indent=1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> Books:
        """Read the file; raise ValueError, TypeError or KeyError where it is none."""
        content = json.loads(data)
        version = content.pop("fedonce hints record", None) if isinstance(content, dict) else None
        if type(version) is not int or version not in FORMATS:
            raise ValueError(f"it is no record of hints of format {' or '.join(map(str, FORMATS))}")
        if set(content) != {"key", "limit", "limits", "published"} | ({"rows"} if version > 1 else set()):
            raise ValueError("its entries are not those of a record")
        key, limit, limits = bytes.fromhex(content["key"]), content["limit"], content["limits"]
        if len(key) != KEY_BYTES or not is_limit(limit):
            raise ValueError("its key or its limit cannot be read")
        if not isinstance(limits, list) or not all(isinstance(each, dict) for each in limits):
            raise ValueError("its limits cannot be read")
        rows = RowSums.from_json(content["rows"]) if version > 1 else RowSums()
        return cls(key, limit, tuple(limits), tuple(map(Published.from_json, content["published"])), rows)

    def with_limit(self, limit: float | None) -> Books:
        """Return them with another limit, which is noted; None: as it is."""
        if limit is None or (limit == self.limit and self.limits):
            return self
        return replace(self, limit=float(limit), limits=(*self.limits, {"time": time_now(), "limit": float(limit)}))

    def adding(
        self, lines: Sequence[Published], now: Tellings | None, new_rows: bool, path: Path
    ) -> tuple[Books, Anew]:
        """Return them after a publication, each line once, and what it adds; raise BudgetError beyond the limit.

        `now` is what is told of each row; None: rows are known by their places, and what is new counts for every row.
        """
        self._check_bare(lines, path)
        what, n_rows = lines[0].what, sum(each.rows for each in lines)
        known = {(each.what, each.run, each.checksum) for each in self.published}
        more = [each for each in lines if (each.what, each.run, each.checksum) not in known]
        made, anew = replace(self, published=(*self.published, *more)), Anew()
        counted = what.rows_digest != "" and what in {each.what for each in self.published}
        if what.epsilon is None:
            return made, anew
        if now is None and not counted:
            made = replace(made, rows=self.rows.raised(what.epsilon))
            anew = Anew(np.full(n_rows, made.spent))
        elif now is not None:
            # What was counted for all rows by a record of before is in the sum with which every row starts.
            rows, anew = self.rows.adding(now, 0.0 if counted else what.epsilon, self.start)
            if anew.new and not new_rows:
                self._check_forms(lines, anew, path)
            if anew.strange and not new_rows:
                raise _strangers(what, anew, n_rows, path)
            made, anew = replace(made, rows=rows), Anew() if counted else anew
        self._check_limit(what, anew, n_rows, path)
        return made, anew

    def _check_bare(self, lines: Sequence[Published], path: Path) -> None:
        """Raise where a label travels as it is, and with an epsilon at another time."""
        for bare in (True, False):
            others = {_plain(each.column) for each in self.published if (each.epsilon is None) is not bare}
            told = next(
                (each for each in lines if (each.epsilon is None) is bare and _plain(each.column) in others), None
            )
            if told is None:
                continue
            before, now = (
                ("was hinted at with an epsilon before", "as it is, every label would be told")
                if bare
                else ("travelled as it is before", "an epsilon would protect nothing that was told then")
            )
            raise BudgetError(
                f"The column {told.column!r} {before} ({path}); {now}. Nothing was written. A stand-in must be another column.",
                parameter=("label", "proxy"),
            )

    def _check_forms(self, lines: Sequence[Published], anew: Anew, path: Path) -> None:
        """Raise where ids are made alike by other rules than before: those that then look new may be of people who were told."""
        before = {each.forms for each in self.published if each.forms is not None and each.epsilon is not None}
        other = next((each.forms for each in lines if each.forms is not None and each.forms not in before), None)
        if other is None or not before:
            return
        said = [", ".join(forms) or "not at all" for forms in (other, *sorted(before))]
        raise BudgetError(
            f"Hints at {lines[0].label!r} are refused: ids are normalised now ({said[0]}) otherwise than in the record {path} "
            f"({'; '.join(said[1:])}), which does not know {anew.new:,} of them. They may be people whose labels were told "
            "before, and nobody would count that. Nothing was written. Normalise ids as before (forms), or, where they are new "
            "people, say so (new_rows).",
            parameter=("forms", "new_rows"),
        )

    def _check_limit(self, what: Published, anew: Anew, n_rows: int, path: Path) -> None:
        """Raise where the sum of a row that is told anew is beyond the limit."""
        beyond = int((anew.sums > self.limit * (1 + 1e-9)).sum())
        if not beyond:
            return
        raise BudgetError(
            f"Hints at {what.label!r} with epsilon {what.epsilon:g} are refused: with what was told before, the epsilons of "
            f"{beyond:,} of {n_rows:,} rows add up to {anew.sums.max():g}, and the limit in {path} is {self.limit:g}. Nothing "
            "was written. Publish the same as before, which costs nothing; take a smaller epsilon (epsilon), or raise the limit "
            "(limit).",
            parameter=("epsilon", "limit"),
        )


def _strangers(what: Published, anew: Anew, n_rows: int, path: Path) -> BudgetError:
    """Return the error about ids of which most are new: nothing would link them to what the same people were told before."""
    return BudgetError(
        f"Hints at {what.label!r} with epsilon {what.epsilon:g} are refused: {anew.new:,} of {n_rows:,} ids are not known to the "
        f"record {path}. They may be other ids of people whose labels were told before, and nobody would add that up. Nothing "
        "was written. Use the same ids as before, or, where they are new people, say so (new_rows).",
        parameter="new_rows",
    )


def _plain(name: str) -> str:
    """Return a column's name without what people change in passing."""
    return name.strip().casefold()


def is_limit(value: object) -> bool:
    """Tell whether something can be the limit of a record."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MOST_LIMIT


def time_now() -> str:
    """Return the time as records write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
