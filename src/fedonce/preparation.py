"""How a party turns its own columns into numbers, alone, by what it saw in its own training rows.

With a privacy budget (`Public`), all of this comes from bounds and categories that the user gives, and no row is looked at.
Else numbers are standardised, missing ones replaced by the mean and marked. A category with few values is one column a value;
one with many is hashed into a few columns, so that a million customer ids stay a few columns wide. Pixels are
centred and scaled together. Every row is prepared independently of the others in the call.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import murmurhash3_32

from fedonce.errors import FedOnceWarning, InputError, parameter_error
from fedonce.tables import Table, as_text, is_missing

ONE_HOT_LIMIT = 32  # categories with more values than this are hashed
HASHED_WIDTH = 32  # columns that a hashed category becomes
SKETCH_WIDTH = 1024  # columns that a very wide sparse table becomes
SPARSE_LIMIT = SKETCH_WIDTH
BLOCK = 2**21  # numbers at a time: bounds the memory beyond input and output
Bounds = Any  # (low, high) for all columns, a pair a column by position, or a dict of columns to pairs
CLIP = 4.0  # standard deviations; what lies further out is set to this, so that rare values do not carry a row away


@dataclass(frozen=True)
class Public:
    """What is known of a table without looking at it: with a privacy budget, all that columns are scaled and coded by.

    Parameters
    ----------
    bounds : (low, high), a list of such pairs or a dict of columns to them
        Between which numbers lie. What lies beyond is set to the bound.
    categories : dict
        Columns of text to the list of values that they can have.
    """

    bounds: Bounds = None
    categories: Mapping[Hashable, Sequence[Any]] = field(default_factory=dict)

    def of(self, name: Hashable, position: int, party: str) -> tuple[float, float]:
        """Return the bounds of one column."""
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
        pair = as_bounds(found)
        if pair is None:
            raise InputError(
                f"The bounds of column {name!r} of party {party!r} must be (low, high), low below high. Got {found!r}."
            )
        return pair


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
            self.steps = [_PixelStep.fit(self._dense(table), self.party)]
        elif self.whole:
            names = tuple(range(SKETCH_WIDTH)) if self.sketched else table.names
            self.steps = [_NumberStep.fit(self._dense(table), names, self.party)]
        else:
            self.steps = [
                _CategoryStep.fit(column, name, self.party)
                if column.dtype == object
                else _NumberStep.fit(column[:, None], (name,), self.party)
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
            pairs = [public.of(name, position, self.party) for position, name in enumerate(table.names)]
            return [_BoundedStep.of(pairs, table.names, self.party)]
        steps: list[Any] = []
        columns = table.columns if table.matrix is None else tuple(self._dense(table).T)
        for position, (column, name) in enumerate(zip(columns, table.names, strict=True)):
            bounded = isinstance(public.bounds, Mapping) and name in public.bounds
            if column.dtype == object and bounded and name not in public.categories:
                raise InputError(
                    f"Column {name!r} of party {self.party!r} has bounds, and holds text. Make all of it numbers, or give its "
                    f"values with categories={{{name!r}: [...]}}."
                )
            if column.dtype == object or name in public.categories:
                steps.append(_CategoryStep.of(public.categories.get(name), name, self.party))
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
                self._refuse_text(column, name)
                steps.append(_NumberStep.fit(column[:, None], (name,), self.party))
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
            prepared: NDArray[np.float32] = self.steps[0].transform(self._dense(table))
            return prepared if self.shape is None else prepared.reshape(len(prepared), *self.shape)
        columns = table.columns if table.matrix is None else tuple(self._dense(table).T)
        parts = []
        for step, column, name in zip(self.steps, columns, self.names, strict=True):
            if isinstance(step, _CategoryStep):
                parts.append(step.transform(_as_categories(column)))
            else:
                self._refuse_text(column, name)
                parts.append(step.transform(column[:, None]))
        return np.hstack(parts)

    def _dense(self, table: Table) -> NDArray[Any]:
        """Return a table of numbers as a dense array; a very wide sparse one as a count sketch of it."""
        matrix = table.matrix
        if matrix is None:
            for column, name in zip(table.columns, table.names, strict=True):
                self._refuse_text(column, name)
            matrix = np.column_stack(table.columns)
        if sparse.issparse(matrix) and not np.isfinite(matrix.data).all():
            raise InputError(
                f"A sparse table has no missing values, and party {self.party!r} has NaN or infinity in it."
            )
        if self.sketched:
            matrix = matrix @ _count_sketch(len(self.names))
        return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix)

    def _refuse_text(self, column: NDArray[Any], name: Hashable) -> None:
        if column.dtype == object:
            raise InputError(
                f"Column {name!r} of party {self.party!r} must hold numbers, as in training or as pixels do. Got text."
            )


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

    def transform(self, matrix: NDArray[Any]) -> NDArray[np.float32]:
        out = np.empty((len(matrix), matrix.shape[1] + len(self.marked)), np.float32)
        start = 0
        for block in _blocks(matrix, self.names, self.party):
            rows = slice(start, start + len(block))
            missing = np.isnan(block)
            scaled = np.where(missing, 0.0, (block - self.mean) / self.scale)
            out[rows, : matrix.shape[1]] = np.clip(scaled, -CLIP, CLIP)
            out[rows, matrix.shape[1] :] = missing[:, self.marked]
            start += len(block)
        return out


@dataclass
class _BoundedStep:
    """Numbers with public bounds: between -1 and 1; missing ones are in the middle."""

    party: str
    names: tuple[Hashable, ...]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]], names: tuple[Hashable, ...], party: str) -> _BoundedStep:
        low, high = np.array(pairs, dtype=np.float64).T
        return cls(party, names, low, high)

    def transform(self, matrix: NDArray[Any]) -> NDArray[np.float32]:
        out = np.empty(matrix.shape, np.float32)
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
        return out


@dataclass
class _CategoryStep:
    """Categories: one column a value, or hashed columns and how common the value is where there are many; or codes."""

    values: dict[str, int]
    counts: dict[str, int] | None
    codes: bool = False
    warns: str = ""  # of whose column to warn when a value turns up that is not among those that were given

    @classmethod
    def fit(cls, column: NDArray[np.object_], name: Hashable, party: str, codes: bool = False) -> _CategoryStep:
        known, counts = np.unique([value for value in column if value is not None], return_counts=True)
        if not len(known):
            warnings.warn(
                f"Party {party!r} has no value at all in column {name!r}; it is set to zero.",
                FedOnceWarning,
                stacklevel=2,
            )
        values = {str(value): position for position, value in enumerate(known)}
        if codes:
            return cls(values, None, codes)
        if len(known) <= ONE_HOT_LIMIT:
            return cls(values, None)
        return cls({}, {str(value): int(count) for value, count in zip(known, counts, strict=True)})

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

    def transform(self, column: NDArray[np.object_]) -> NDArray[np.float32]:
        if self.codes:  # 0 where the value is unseen or missing
            numbers = [self.values.get(value, -1) + 1 for value in column]
            return np.array(numbers, dtype=np.float32)[:, None]
        if self.counts is not None:
            return self._hashed(column, self.counts)
        if self.warns and not set(column) <= {None, *self.values}:
            warnings.warn(
                f"Party {self.warns}: there are values that are not among the categories given; they count as none.",
                FedOnceWarning,
                stacklevel=2,
            )
        out = np.zeros((len(column), len(self.values) + 1), np.float32)
        for row, value in enumerate(column):
            if value is None:
                out[row, -1] = 1
            elif value in self.values:  # an unseen value is no value: zeros
                out[row, self.values[value]] = 1
        return out

    @staticmethod
    def _hashed(column: NDArray[np.object_], counts: dict[str, int]) -> NDArray[np.float32]:
        """Two signed hash columns a value, so that few pairs of values share both, and the logarithm of its count."""
        values = list(dict.fromkeys(column))
        vectors = np.zeros((len(values), HASHED_WIDTH + 1), np.float32)
        most = np.log1p(max(counts.values()))
        for vector, value in zip(vectors, values, strict=True):
            if value is None:  # missing: zeros
                continue
            for seed in (1, 2):
                code = murmurhash3_32(value, seed=seed, positive=True)
                vector[(code >> 1) % HASHED_WIDTH] += 1 if code & 1 else -1
            vector[-1] = np.log1p(counts.get(value, 0)) / most
        position = {value: row for row, value in enumerate(values)}
        return vectors[np.array([position[value] for value in column], dtype=np.intp)]


@dataclass
class _PixelStep:
    """Pixels: centred and scaled by one mean and one deviation for the whole image."""

    party: str
    mean: float
    scale: float

    @classmethod
    def fit(cls, matrix: NDArray[Any], party: str) -> _PixelStep:
        step = cls(party, 0.0, 1.0)
        step._check(matrix)
        deviation = float(np.std(matrix, dtype=np.float64))
        return cls(party, float(np.mean(matrix, dtype=np.float64)), deviation if deviation > 0 else 1.0)

    def transform(self, matrix: NDArray[Any]) -> NDArray[np.float32]:
        self._check(matrix)
        scaled = matrix.astype(np.float32)
        scaled -= np.float32(self.mean)
        scaled /= np.float32(self.scale)
        return scaled

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
    return np.array([None if is_missing(value) else as_text(value) for value in column.tolist()], dtype=object)


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
