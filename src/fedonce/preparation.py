"""How a party turns its own columns into numbers, alone, by what it saw in its own training rows.

With a privacy budget (`Public`), all of this comes from bounds and categories that the user gives, and no row is looked at.
Else numbers are standardised, missing ones replaced by the mean and marked. A category with few values is one column a value;
one with many is hashed into a few columns, so that a million customer ids stay a few columns wide. A date is the day,
standardised, and where in the year, the week and the day it lies. Pixels are centred and scaled together. Every row is prepared
independently of the others in the call. `to_json` says all of it, so that another process prepares rows to the same bits.
"""

from __future__ import annotations

import datetime
import math
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import murmurhash3_32

from fedonce.errors import FedOnceWarning, InputError, parameter_error
from fedonce.tables import DATES, Table, as_date, as_text, is_missing, kind_of

ONE_HOT_LIMIT = 32  # categories with more values than this are hashed
HASHED_WIDTH = 32  # columns that a hashed category becomes
SKETCH_WIDTH = 1024  # columns that a very wide sparse table becomes
SPARSE_LIMIT = SKETCH_WIDTH
BLOCK = 2**21  # numbers at a time: bounds the memory beyond input and output
Bounds = Any  # (low, high) for all columns, a pair a column by position, or a dict of columns to pairs
DAY = np.timedelta64(1, "D")
WORDS = {"number": "numbers", "boolean": "booleans", "category": "text", "date": "dates"}
CLIP = 4.0  # standard deviations; what lies further out is set to this, so that rare values do not carry a row away


@dataclass(frozen=True)
class Public:
    """What is known of a table without looking at it: with a privacy budget, all that columns are scaled and coded by.

    Parameters
    ----------
    bounds : (low, high), a list of such pairs or a dict of columns to them
        Between which numbers lie, and dates: as text ("2024-12-31"), as dates, or as days since 1970. What lies beyond is set to
        the bound.
    categories : dict
        Columns of text to the list of values that they can have.
    """

    bounds: Bounds = None
    categories: Mapping[Hashable, Sequence[Any]] = field(default_factory=dict)

    def of(self, name: Hashable, position: int, party: str) -> tuple[float, float]:
        """Return the bounds of one column."""
        found = self._given(name, position, party)
        pair = as_bounds(found)
        if pair is None:
            raise InputError(
                f"The bounds of column {name!r} of party {party!r} must be (low, high), low below high. Got {found!r}."
            )
        return pair

    def of_dates(self, name: Hashable, position: int, party: str) -> tuple[tuple[float, float], bool]:
        """Return the bounds of a column of dates in days since 1970, and whether they have a time of day."""
        found = self._given(name, position, party)
        try:
            ends = [_days_of(end) for end in found]
        except (TypeError, ValueError):
            ends = []
        pair = as_bounds([days for days, _ in ends])
        if pair is None:
            raise InputError(
                f"The bounds of column {name!r} of party {party!r} must be two dates, as ('2000-01-01', '2024-12-31'), the "
                f"first before the second. Got {found!r}."
            )
        return pair, any(timed for _, timed in ends)

    def _given(self, name: Hashable, position: int, party: str) -> Any:
        found = self.bounds
        if isinstance(found, Mapping):
            found = found.get(name)
        elif found is not None and np.ndim(found) == 2:
            found = found[position] if position < len(found) else None
        if found is None:
            raise InputError(
                f"Column {name!r} of party {party!r} has no bounds. With a privacy budget nothing may be read off the rows: say "
                "between which values the column lies, by what is known of it, with bounds=(low, high) or a dict of columns."
            )
        return found


def _days_of(end: Any) -> tuple[float, bool]:
    """Return a date as days since 1970, and whether it has a time of day."""
    if isinstance(end, int | float | np.number) and not isinstance(end, np.timedelta64):
        return float(end), False
    date = as_date(datetime.datetime.fromisoformat(end) if isinstance(end, str) else end)
    return float((date - np.datetime64(0, "us")) / DAY), bool(date.astype("datetime64[D]") != date)


def as_bounds(given: Any) -> tuple[float, float] | None:
    """Return (low, high) as numbers; None where they are not a range."""
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError):
        return None
    return (low, high) if np.isfinite([low, high]).all() and low < high else None


@dataclass
class Preparation:
    """A party's own way from its table to an array, fitted on its training rows.

    Parameters
    ----------
    party : str
        Whose columns these are, for messages to the user.
    shape : tuple or None
        (channels, rows, columns) where the columns are pixels.
    embeddings : tuple of int
        For a network with embeddings: their widths, a column each. Those columns become codes 1, 2, ...; a width of 0 is a
        column of numbers.
    public : Public, optional
        With a privacy budget: bounds and categories, in place of what training rows would tell.
    """

    party: str
    shape: tuple[int, ...] | None = None
    embeddings: tuple[int, ...] = ()
    public: Public | None = None
    names: tuple[Hashable, ...] = ()
    named: bool = False
    sketched: bool = False
    whole: bool = False  # one step for all columns together, or one a column
    steps: list[Any] = field(default_factory=list)

    def fit(self, table: Table) -> Preparation:
        """Learn means, scales and categories from the party's training rows."""
        if not table.names:
            raise InputError(f"Party {self.party!r} has no columns.")
        self.names, self.named = table.names, table.named
        self.whole = not self.embeddings and (self.shape is not None or table.matrix is not None)
        self.sketched = sparse.issparse(table.matrix) and len(table.names) > SPARSE_LIMIT
        if self.public is not None:
            self.steps = self._public_steps(table, self.public)
        elif self.embeddings:
            self.steps = self._coded_steps(table)
        elif self.shape is not None:
            self.steps = [_PixelStep.fit(self._dense(table, fitting=True), self.party)]
        elif self.whole:
            names = tuple(range(SKETCH_WIDTH)) if self.sketched else table.names
            self.steps = [_NumberStep.fit(self._dense(table, fitting=True), names, self.party)]
        else:
            self.steps = [
                _FITS[kind_of(column)](column, name, self.party)
                for column, name in zip(table.columns, table.names, strict=True)
            ]
        return self

    def _public_steps(self, table: Table, public: Public) -> list[Any]:
        """Scale and code by what is public: no row is looked at."""
        if self.embeddings or self.sketched:
            what = "embeddings (NCF)" if self.embeddings else f"a sparse table of more than {SPARSE_LIMIT} columns"
            raise InputError(
                f"Party {self.party!r} has {what}, which has no private version; use numbers and categories."
            )
        coded = self.shape is None and any(name in public.categories for name in table.names)
        self.whole = self.whole and not coded
        if self.whole:
            self._dense(table.take(slice(0, 0)), fitting=True)  # refuses what is not numbers
            pairs = [public.of(name, position, self.party) for position, name in enumerate(table.names)]
            return [_BoundedStep.of(pairs, table.names, self.party)]
        steps: list[Any] = []
        columns = table.columns if table.matrix is None else tuple(self._dense(table).T)
        for position, (column, name) in enumerate(zip(columns, table.names, strict=True)):
            bounded = isinstance(public.bounds, Mapping) and name in public.bounds
            kind = kind_of(column)
            if kind == "category" and bounded and name not in public.categories:
                raise InputError(
                    f"Column {name!r} of party {self.party!r} has bounds, and holds text. Make all of it numbers, or give its "
                    f"values with categories={{{name!r}: [...]}}."
                )
            if kind == "date" and name in public.categories:
                raise InputError(
                    f"Column {name!r} of party {self.party!r} has categories, and holds dates. Give it bounds "
                    f"{{{name!r}: (first, last)}}, or make it text."
                )
            if kind == "category" or name in public.categories:
                steps.append(_CategoryStep.of(public.categories.get(name), name, self.party))
            elif kind == "date":
                pair, timed = public.of_dates(name, position, self.party)
                steps.append(_DateStep(_BoundedStep.of([pair], (name,), self.party), timed))
            else:
                steps.append(_BoundedStep.of([public.of(name, position, self.party)], (name,), self.party))
        return steps

    def check_embeddings(self, n_columns: int) -> None:
        """Raise where there are embeddings for other columns than the party has, before anybody spends time."""
        if self.embeddings and len(self.embeddings) != n_columns:
            wanted = f"as long as party {self.party!r} has columns ({n_columns})"
            raise parameter_error("NCF", "embeddings", wanted, self.embeddings)

    def _coded_steps(self, table: Table) -> list[Any]:
        """Make codes of columns that have an embedding; scale the others, which must be numbers."""
        self.check_embeddings(len(table.names))
        steps: list[Any] = []
        columns = table.columns if table.matrix is None else tuple(self._dense(table).T)
        for column, name, width in zip(columns, table.names, self.embeddings, strict=True):
            if width:
                steps.append(_CategoryStep.fit(_as_categories(column), name, self.party, codes=True))
            else:
                steps.append(_FITS["number"](self._numbers(column, name, fitting=True), name, self.party))
        return steps

    def transform(self, table: Table) -> NDArray[np.float32]:
        """Return the party's rows as an array: (n, columns), or (n, channels, rows, columns) for pixels.

        The table may come from another library than the one fitted on; its columns must be the same.
        """
        renamed = table.named and self.named and list(map(str, table.names)) != list(map(str, self.names))
        if renamed or len(table.names) != len(self.names):
            raise InputError(
                f"Party {self.party!r} learnt from {_shown(self.names)}; got {_shown(table.names)}. "
                "Give the same columns in the same order."
            )
        if self.whole:
            matrix = self._dense(table)
            out = np.empty((len(matrix), self.steps[0].width), np.float32)
            self.steps[0].write(matrix, out)
            return out.reshape(len(out), *self.row_shape)
        columns = table.columns if table.matrix is None else tuple(self._dense(table).T)
        out = np.empty((table.n_rows, *self.row_shape), np.float32)
        start = 0
        for step, column, name in zip(self.steps, columns, self.names, strict=True):
            step.write(self._expected(step, column, name), out[:, start : start + step.width])
            start += step.width
        return out

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one prepared row."""
        if not self.steps:
            raise InputError(f"Party {self.party!r} has not learnt how to prepare its columns yet; call fit first.")
        if self.whole and self.shape is not None:
            return self.shape
        return (sum(step.width for step in self.steps),)

    def _dense(self, table: Table, fitting: bool = False) -> NDArray[Any]:
        """Return a table of numbers as a dense array; a very wide sparse one as a count sketch of it."""
        matrix = table.matrix
        if matrix is None:
            pairs = zip(table.columns, table.names, strict=True)
            matrix = np.column_stack([self._numbers(column, name, fitting) for column, name in pairs])
        if sparse.issparse(matrix) and not np.isfinite(matrix.data).all():
            raise InputError(
                f"A sparse table has no missing values, and party {self.party!r} has NaN or infinity in it."
            )
        if self.sketched:
            matrix = matrix @ _count_sketch(len(self.names))
        return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix)

    def _expected(self, step: Any, column: NDArray[Any], name: Hashable) -> NDArray[Any]:
        """Return a column as the kind that its step takes; refuse what was something else at training."""
        if isinstance(step, _CategoryStep):
            if kind_of(column) == "date" and not step.codes:
                raise self._changed(name, "category", "date")
            return _as_categories(column)
        if not isinstance(step, _DateStep):
            return self._numbers(column, name)[:, None]
        if kind_of(column) != "date" and not _all_missing(column):
            raise self._changed(name, "date", kind_of(column))
        return column if kind_of(column) == "date" else np.full(len(column), "NaT", DATES)

    def _numbers(self, column: NDArray[Any], name: Hashable, fitting: bool = False) -> NDArray[Any]:
        kind = kind_of(column)
        if kind in ("number", "boolean"):
            return column
        if fitting:
            raise InputError(
                f"Column {name!r} of party {self.party!r} must hold numbers, as pixels and columns without an embedding do. "
                f"Got {WORDS[kind]}."
            )
        if not _all_missing(column):
            raise self._changed(name, "number", kind)
        return np.full(len(column), np.nan)

    def _changed(self, name: Hashable, old: str, new: str) -> InputError:
        return InputError(
            f"Column {name!r} of party {self.party!r} was {WORDS[old]} at training and is {WORDS[new]} now; give it as "
            f"{WORDS[old]} again, or train anew."
        )

    def to_json(self) -> dict[str, Any]:
        """Return all that `transform` needs, in the types of JSON."""
        return {
            "party": self.party,
            "shape": None if self.shape is None else [int(size) for size in self.shape],
            "embeddings": [int(width) for width in self.embeddings],
            "names": _plain_names(self.names, self.party),
            "named": bool(self.named),
            "sketched": bool(self.sketched),
            "whole": bool(self.whole),
            "steps": [{"kind": _KINDS[type(step)], **step.to_json()} for step in self.steps],
        }

    @classmethod
    def from_json(cls, content: Any) -> Preparation:
        """Return what `to_json` told of, all of it checked."""
        stored = _Stored(content)
        made = cls(
            stored.text("party"),
            tuple(stored.integers("shape", 1)) if stored.given("shape") else None,
            tuple(stored.integers("embeddings", 0)),
            names=stored.names("names"),
            named=stored.flag("named"),
            sketched=stored.flag("sketched"),
            whole=stored.flag("whole"),
            steps=[_step(step) for step in stored.sequence("steps")],
        )
        wide = SKETCH_WIDTH if made.sketched else len(made.names)
        taken = [wide] if made.whole else [1] * wide
        stored.check("steps", wide > 0 and [step.takes for step in made.steps] == taken)
        stored.check("whole", all(isinstance(step, _MANY if made.whole else _ONE) for step in made.steps))
        stored.check("sketched", made.whole or not made.sketched)
        stored.check("shape", made.shape is None or not made.whole or math.prod(made.shape) == wide)
        stored.check("embeddings", not made.embeddings or len(made.embeddings) == len(made.names))
        return made


def _shown(names: tuple[Hashable, ...]) -> str:
    return f"{len(names)} columns ({', '.join(map(repr, names[:5]))}{', ...' if len(names) > 5 else ''})"


@dataclass
class _NumberStep:
    """Numbers: standardised; missing ones become the mean, and a mark where training rows had some."""

    party: str
    names: tuple[Hashable, ...]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    marked: NDArray[np.intp]

    @property
    def takes(self) -> int:
        return len(self.mean)

    @property
    def width(self) -> int:
        return len(self.mean) + len(self.marked)

    @classmethod
    def fit(cls, matrix: NDArray[Any], names: tuple[Hashable, ...], party: str) -> _NumberStep:
        width = matrix.shape[1]
        count, total, square = np.zeros(width), np.zeros(width), np.zeros(width)
        origin: NDArray[np.float64] | None = None  # squares around a value in the data keep their digits
        for block in _blocks(matrix, names, party):
            known = ~np.isnan(block)
            if origin is None:
                origin = np.where(known.any(axis=0), block[known.argmax(axis=0), np.arange(width)], 0.0)
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
                filled = np.where(known, block - origin, 0.0)
                count += known.sum(axis=0)
                total += filled.sum(axis=0)
                square += np.square(filled).sum(axis=0)
        empty = ", ".join(repr(name) for name, seen in zip(names, count, strict=True) if not seen)
        if empty:
            warnings.warn(
                f"Party {party!r} has no value at all in column {empty}; it is set to zero.",
                FedOnceWarning,
                stacklevel=2,
            )
        if not np.isfinite(square).all():
            large = names[int(np.argmin(np.isfinite(square)))]
            raise InputError(
                f"Party {party!r} has numbers too large to scale in column {large!r}; divide the column by a constant."
            )
        shift = total / np.maximum(count, 1)
        variance = np.maximum(square / np.maximum(count, 1) - shift**2, 0)
        mean = shift + (0.0 if origin is None else origin)
        spread = np.sqrt(variance)
        scale = np.where(spread > 1e-12 * np.abs(mean), spread, np.inf)  # less is rounding: a constant column, zero
        return cls(party, names, mean, scale, np.flatnonzero(count < len(matrix)))

    def write(self, matrix: NDArray[Any], out: NDArray[np.float32]) -> None:
        start = 0
        for block in _blocks(matrix, self.names, self.party):
            rows = slice(start, start + len(block))
            missing = np.isnan(block)
            scaled = np.where(missing, 0.0, (block - self.mean) / self.scale)
            out[rows, : matrix.shape[1]] = np.clip(scaled, -CLIP, CLIP)
            out[rows, matrix.shape[1] :] = missing[:, self.marked]
            start += len(block)

    def to_json(self) -> dict[str, Any]:
        return {
            "party": self.party,
            "names": _plain_names(self.names, self.party),
            "mean": self.mean.tolist(),
            "scale": [None if math.isinf(scale) else scale for scale in self.scale.tolist()],
            "marked": self.marked.tolist(),
        }

    @classmethod
    def from_json(cls, stored: _Stored) -> _NumberStep:
        names, marked = stored.names("names"), stored.integers("marked", 0)
        mean, scale = stored.numbers("mean", len(names)), stored.numbers("scale", len(names), unbounded=True)
        stored.check("scale", bool((scale > 0).all()))
        stored.check("marked", marked == sorted(set(marked)) and max(marked, default=-1) < len(names))
        return cls(stored.text("party"), names, mean, scale, np.array(marked, np.intp))


@dataclass
class _BoundedStep:
    """Numbers with public bounds: between -1 and 1; missing ones are in the middle."""

    party: str
    names: tuple[Hashable, ...]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @property
    def takes(self) -> int:
        return len(self.low)

    width = takes

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]], names: tuple[Hashable, ...], party: str) -> _BoundedStep:
        low, high = np.array(pairs, dtype=np.float64).T
        return cls(party, names, low, high)

    def write(self, matrix: NDArray[Any], out: NDArray[np.float32]) -> None:
        start, step = 0, max(1, BLOCK // max(1, matrix.shape[1]))
        beyond = np.zeros(matrix.shape[1], bool)
        while start < len(matrix):
            block = matrix[start : start + step].astype(np.float64)
            beyond |= ((block < self.low) | (block > self.high)).any(axis=0)
            kept = np.clip(block, self.low, self.high)  # before scaling: a huge number must not overflow
            scaled = 2 * (kept - self.low) / (self.high - self.low) - 1
            out[start : start + len(block)] = np.where(np.isnan(scaled), 0.0, scaled)
            start += len(block)
        if beyond.any():  # that it happened, and not how often: the count is a figure of private rows
            column = self.names[int(beyond.argmax())]
            more = " and in others" if beyond.sum() > 1 else ""
            warnings.warn(
                f"Party {self.party!r} has values beyond the bounds given in column {column!r}{more}; they were set to the "
                "bounds.",
                FedOnceWarning,
                stacklevel=2,
            )

    def to_json(self) -> dict[str, Any]:
        names = _plain_names(self.names, self.party)
        return {"party": self.party, "names": names, "low": self.low.tolist(), "high": self.high.tolist()}

    @classmethod
    def from_json(cls, stored: _Stored) -> _BoundedStep:
        names = stored.names("names")
        low, high = stored.numbers("low", len(names)), stored.numbers("high", len(names))
        stored.check("low", bool((low < high).all()))
        return cls(stored.text("party"), names, low, high)


@dataclass
class _CategoryStep:
    """Categories: one column a value, or hashed columns and how common the value is where there are many; or codes."""

    values: dict[str, int]
    counts: dict[str, int] | None
    codes: bool = False
    warns: str = ""  # of whose column to warn when a value turns up that is not among those that were given
    takes: ClassVar[int] = 1

    @property
    def width(self) -> int:
        if self.codes:
            return 1
        return len(self.values) + 1 if self.counts is None else HASHED_WIDTH + 1

    @classmethod
    def fit(cls, column: NDArray[np.object_], name: Hashable, party: str, codes: bool = False) -> _CategoryStep:
        counts: Counter[str | None] = Counter(column)
        known = sorted(value for value in counts if value is not None)
        if not known:
            warnings.warn(
                f"Party {party!r} has no value at all in column {name!r}; it is set to zero.",
                FedOnceWarning,
                stacklevel=2,
            )
        values = {value: position for position, value in enumerate(known)}
        if codes:
            return cls(values, None, codes)
        if len(known) <= ONE_HOT_LIMIT:
            return cls(values, None)
        return cls({}, {value: counts[value] for value in known})

    @classmethod
    def of(cls, known: Sequence[Any] | None, name: Hashable, party: str) -> _CategoryStep:
        """Take the values from public knowledge; others that turn up are no value."""
        if isinstance(known, str) or not isinstance(known, Collection) or not len(known):
            raise InputError(
                f"Column {name!r} of party {party!r} holds text, and its values are not to be read off the rows with a privacy "
                f"budget: give them all with categories={{{name!r}: [...]}}. Got {known!r}."
            )
        names = dict.fromkeys(as_text(value) for value in known)
        return cls({value: position for position, value in enumerate(names)}, None, warns=f"{party!r}, column {name!r}")

    def write(self, column: NDArray[np.object_], out: NDArray[np.float32]) -> None:
        if self.codes:  # 0 where the value is unseen or missing
            out[:, 0] = _looked_up(self.values, column) + 1
        elif self.counts is not None:
            self._write_hashed(column, self.counts, out)
        else:
            self._write_marks(column, out)

    def _write_marks(self, column: NDArray[np.object_], out: NDArray[np.float32]) -> None:
        """One column a value, and one for a missing one; an unseen value is no value: zeros."""
        if self.warns and not set(column) <= {None, *self.values}:
            warnings.warn(
                f"Party {self.warns}: there are values that are not among the categories given; they count as none.",
                FedOnceWarning,
                stacklevel=2,
            )
        positions = _looked_up({**self.values, None: len(self.values)}, column)
        seen = np.flatnonzero(positions >= 0)
        out[:] = 0
        out[seen, positions[seen]] = 1

    @staticmethod
    def _write_hashed(column: NDArray[np.object_], counts: dict[str, int], out: NDArray[np.float32]) -> None:
        """Two signed hash columns a value, so that few pairs of values share both, and the logarithm of its count."""
        most = np.log1p(max(counts.values()))
        common = {count: np.log1p(count) / most for count in {0, *counts.values()}}
        rows = BLOCK // (HASHED_WIDTH + 1)
        for start in range(0, len(column), rows):
            block = column[start : start + rows]
            values = [value for value in dict.fromkeys(block) if value is not None]
            vectors = np.zeros((len(values) + 1, HASHED_WIDTH + 1), np.float32)  # the last is missing: zeros
            for seed in (1, 2):
                hashes = [murmurhash3_32(value, seed=seed, positive=True) for value in values]
                codes = np.array(hashes, dtype=np.int64)
                vectors[np.arange(len(values)), (codes >> 1) % HASHED_WIDTH] += np.where(codes & 1, 1, -1)
            vectors[:-1, -1] = [common[counts.get(value, 0)] for value in values]
            positions = _looked_up({value: row for row, value in enumerate(values)}, block)
            out[start : start + rows] = vectors[positions]

    def to_json(self) -> dict[str, Any]:
        known = self.values if self.counts is None else self.counts
        counts = None if self.counts is None else list(self.counts.values())
        return {"values": list(known), "counts": counts, "codes": self.codes, "warns": self.warns}

    @classmethod
    def from_json(cls, stored: _Stored) -> _CategoryStep:
        values, codes, warns = stored.texts("values"), stored.flag("codes"), stored.text("warns")
        stored.check("values", len(set(values)) == len(values))
        if not stored.given("counts"):
            return cls({value: position for position, value in enumerate(values)}, None, codes, warns)
        counts = stored.integers("counts", 1)
        stored.check("counts", len(counts) == len(values) > 0 and not codes)
        return cls({}, dict(zip(values, counts, strict=True)), codes, warns)


def _looked_up(positions: Mapping[Any, int], column: NDArray[np.object_]) -> NDArray[np.intp]:
    """Return the position of each row's value; -1 where it has none."""
    return np.fromiter(map(positions.get, column, repeat(-1)), np.intp, len(column))


@dataclass
class _DateStep:
    """Dates: the day, scaled as numbers are; where in the year and the week it lies, and in the day where times were known."""

    days: _NumberStep | _BoundedStep
    timed: bool
    takes: ClassVar[int] = 1

    @property
    def width(self) -> int:
        return self.days.width + (6 if self.timed else 4)

    @classmethod
    def fit(cls, column: NDArray[np.datetime64], name: Hashable, party: str) -> _DateStep:
        days = _NumberStep.fit(_days(column)[:, None], (name,), party)
        known = column[~np.isnat(column)]
        return cls(days, bool((known.astype("datetime64[D]") != known).any()))

    def write(self, column: NDArray[np.datetime64], out: NDArray[np.float32]) -> None:
        scaled = np.empty((len(column), self.days.width), np.float32)
        self.days.write(_days(column)[:, None], scaled)
        out[:, 0], out[:, self.width - self.days.width + 1 :] = scaled[:, 0], scaled[:, 1:]
        missing = np.isnat(column)
        known = np.where(missing, np.datetime64(0, "us"), column)
        for position, turn in enumerate(self._turns(known)):
            out[:, 2 * position + 1] = np.where(missing, 0, np.sin(2 * np.pi * turn))
            out[:, 2 * position + 2] = np.where(missing, 0, np.cos(2 * np.pi * turn))

    def _turns(self, dates: NDArray[np.datetime64]) -> list[NDArray[np.float64]]:
        """Return how much of its year, of its week, and of its day has gone by at each date."""
        day, year = dates.astype("datetime64[D]"), dates.astype("datetime64[Y]")
        first, following = year.astype("datetime64[D]"), (year + 1).astype("datetime64[D]")
        turns = [(day - first) / (following - first), (day.astype(np.int64) + 3) % 7 / 7]  # 1970 began on a Thursday
        return [*turns, (dates - day) / DAY] if self.timed else turns

    def to_json(self) -> dict[str, Any]:
        return {"timed": self.timed, "days": {"kind": _KINDS[type(self.days)], **self.days.to_json()}}

    @classmethod
    def from_json(cls, stored: _Stored) -> _DateStep:
        days = _step(stored.content.get("days"))
        stored.check("days", isinstance(days, _NumberStep | _BoundedStep) and days.takes == 1)
        return cls(days, stored.flag("timed"))


def _days(column: NDArray[np.datetime64]) -> NDArray[np.float64]:
    """Return dates as days since 1970; NaN is missing."""
    return np.asarray((column - np.datetime64(0, "us")) / DAY)


@dataclass
class _PixelStep:
    """Pixels: centred and scaled by one mean and one deviation for the whole image."""

    party: str
    mean: float
    scale: float
    width: int

    @property
    def takes(self) -> int:
        return self.width

    @classmethod
    def fit(cls, matrix: NDArray[Any], party: str) -> _PixelStep:
        step = cls(party, 0.0, 1.0, matrix.shape[1])
        step._check(matrix)
        deviation = float(np.std(matrix, dtype=np.float64))
        mean = float(np.mean(matrix, dtype=np.float64))
        return cls(party, mean, deviation if deviation > 0 else 1.0, matrix.shape[1])

    def write(self, matrix: NDArray[Any], out: NDArray[np.float32]) -> None:
        self._check(matrix)
        out[:] = matrix
        out -= np.float32(self.mean)
        out /= np.float32(self.scale)

    def to_json(self) -> dict[str, Any]:
        return {"party": self.party, "mean": self.mean, "scale": self.scale, "width": self.width}

    @classmethod
    def from_json(cls, stored: _Stored) -> _PixelStep:
        mean, scale = stored.number("mean"), stored.number("scale")
        stored.check("scale", scale > 0)
        return cls(stored.text("party"), mean, scale, stored.integer("width", 1))

    def _check(self, matrix: NDArray[Any]) -> None:
        if matrix.dtype.kind == "f" and not (np.abs(matrix) < 1e30).all():
            raise InputError(
                f"Pixels have no missing values, and party {self.party!r} has NaN, infinity or a number beyond 1e30 "
                "in rows that are present. Fill them, or mark the rows as absent with 'present'."
            )


def _as_categories(column: NDArray[Any]) -> NDArray[np.object_]:
    """Return numbers as the text that they are in a column of categories; NaN is missing."""
    if column.dtype == object:
        return column
    known, positions = np.unique(column, return_inverse=True)
    texts = np.array([None if is_missing(value) else as_text(value) for value in known.tolist()], dtype=object)
    return np.asarray(texts[positions])


def _all_missing(column: NDArray[Any]) -> bool:
    if column.dtype == object:
        return all(value is None for value in column)
    return bool((np.isnat(column) if column.dtype.kind == "M" else np.isnan(column)).all())


def _blocks(matrix: NDArray[Any], names: tuple[Hashable, ...], party: str) -> Any:
    """Yield the rows as blocks of float64, refusing infinity."""
    rows = max(1, BLOCK // max(1, matrix.shape[1]))
    for start in range(0, len(matrix), rows):
        block = matrix[start : start + rows].astype(np.float64)
        if np.isinf(block).any():
            column = names[int(np.isinf(block).any(axis=0).argmax())]
            raise InputError(
                f"Input X contains infinity: party {party!r}, column {column!r}. Use NaN for a missing value."
            )
        yield block


def _count_sketch(width: int) -> Any:
    """Return a sparse matrix that adds each column, with a sign, to one of SKETCH_WIDTH columns."""
    codes = np.array([murmurhash3_32(j, seed=0, positive=True) for j in range(width)])
    signs = np.where(codes & 1, 1.0, -1.0).astype(np.float32)
    return sparse.csr_array((signs, (np.arange(width), (codes >> 1) % SKETCH_WIDTH)), shape=(width, SKETCH_WIDTH))


def _fit_numbers(column: NDArray[Any], name: Hashable, party: str) -> _NumberStep:
    return _NumberStep.fit(column[:, None], (name,), party)


_FITS: dict[str, Callable[[Any, Hashable, str], Any]] = {
    "number": _fit_numbers,
    "boolean": _fit_numbers,
    "category": _CategoryStep.fit,
    "date": _DateStep.fit,
}
_STEPS: dict[str, Any] = {
    "number": _NumberStep,
    "bounded": _BoundedStep,
    "category": _CategoryStep,
    "date": _DateStep,
    "pixels": _PixelStep,
}
_KINDS = {step: kind for kind, step in _STEPS.items()}
_MANY = _NumberStep | _BoundedStep | _PixelStep  # steps for all columns together
_ONE = _NumberStep | _BoundedStep | _CategoryStep | _DateStep  # steps for one column


def _step(content: Any) -> Any:
    """Return a stored step."""
    stored = _Stored(content)
    kind = stored.text("kind")
    stored.check("kind", kind in _STEPS)
    return _STEPS[kind].from_json(stored)


def _plain_names(names: tuple[Hashable, ...], party: str) -> list[str | int]:
    """Return names as JSON has them."""
    strange = next(
        (name for name in names if not isinstance(name, str | int | np.integer) or isinstance(name, bool)), None
    )
    if strange is not None:
        raise InputError(
            f"Column {strange!r} of party {party!r} has a name that cannot be stored, a {type(strange).__name__}; name columns "
            "by text or integers before training."
        )
    return [str(name) if isinstance(name, str) else int(name) for name in names]  # type: ignore[call-overload]


class _Stored:
    """What was read of a stored preparation; every value is checked when it is asked for."""

    def __init__(self, content: Any) -> None:
        if not isinstance(content, dict):
            raise InputError(
                f"A stored preparation must be a dict; got {type(content).__name__}. Save the model again."
            )
        self.content = content

    def check(self, key: str, good: bool) -> None:
        """Raise where a value is not good."""
        if not good:
            shown = repr(self.content.get(key))
            raise InputError(
                f"A stored preparation has a wrong {key!r}, {shown[:60]}{'...' if len(shown) > 60 else ''}: it is damaged, or of "
                "another version. Save the model again, or update fedonce."
            )

    def given(self, key: str) -> bool:
        return self.content.get(key) is not None

    def _of(self, key: str, kind: type) -> Any:
        value = self.content.get(key)
        self.check(key, type(value) is kind)
        return value

    def text(self, key: str) -> str:
        return str(self._of(key, str))

    def flag(self, key: str) -> bool:
        return bool(self._of(key, bool))

    def sequence(self, key: str) -> list[Any]:
        return list(self._of(key, list))

    def integer(self, key: str, least: int) -> int:
        value = int(self._of(key, int))
        self.check(key, value >= least)
        return value

    def number(self, key: str) -> float:
        value: Any = self.content.get(key)
        self.check(key, _is_finite(value))
        return float(value)

    def texts(self, key: str) -> list[str]:
        values = self.sequence(key)
        self.check(key, all(type(value) is str for value in values))
        return values

    def names(self, key: str) -> tuple[Hashable, ...]:
        values = self.sequence(key)
        self.check(key, all(type(value) in (str, int) for value in values))
        return tuple(values)

    def integers(self, key: str, least: int) -> list[int]:
        values = self.sequence(key)
        self.check(key, all(type(value) is int and least <= value < 2**63 for value in values))
        return values

    def numbers(self, key: str, length: int, unbounded: bool = False) -> NDArray[np.float64]:
        """Return finite numbers; where they may be unbounded, null is infinity."""
        values = self.sequence(key)
        good = (_is_finite(value) or (unbounded and value is None) for value in values)
        self.check(key, len(values) == length and all(good))
        return np.array([math.inf if value is None else value for value in values], np.float64)


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max
