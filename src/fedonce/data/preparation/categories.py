"""The step for categories: a column a value, hashed columns, or codes."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import murmurhash3_32

from fedonce.data.preparation.numbers import BLOCK
from fedonce.data.preparation.stored import Stored
from fedonce.data.table import as_text, is_missing
from fedonce.errors import FedOnceWarning, InputError, shown

ONE_HOT_LIMIT = 32  # categories with more values than this are hashed
HASHED_WIDTH = 32  # columns that a hashed category becomes


@dataclass(frozen=True)
class Coding:
    """Which categories with many values become codes 1, 2, ... (0: missing, or not seen in training) and are not hashed.

    Parameters
    ----------
    rows_per_value : float
        Those with so many rows per value, on average: of a value in one row there is nothing to learn.
    alone : bool
        Whether also a column that is the only one of its table, and occurs with nothing.
    """

    rows_per_value: float = 1.0
    alone: bool = True


@dataclass
class CategoryStep:
    """Categories: one column a value, or hashed columns and how common the value is where there are many; or codes."""

    values: dict[str, int]
    counts: dict[str, int] | None
    codes: bool = False
    warns: str = ""  # of whose column to warn when a value turns up that is not among those that were given
    takes: ClassVar[int] = 1

    @property
    def width(self) -> int:
        """How many columns it gives."""
        if self.codes:
            return 1
        return len(self.values) + 1 if self.counts is None else HASHED_WIDTH + 1

    @classmethod
    def fit(cls, column: NDArray[np.object_], name: Hashable, party: str, codes: bool = False) -> CategoryStep:
        """Learn from a party's training rows."""
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
    def of(cls, known: Sequence[Any] | None, name: Hashable, party: str) -> CategoryStep:
        """Take the values from public knowledge; others that turn up are no value."""
        if isinstance(known, str) or not isinstance(known, Collection) or not len(known):
            raise InputError(
                f"Column {name!r} of party {party!r} holds text, and its values are not to be read off the rows with a privacy "
                f"budget: give them all with categories={{{name!r}: [...]}}. Got {shown(known)}."
            )
        names = dict.fromkeys(as_text(value) for value in known)
        return cls({value: position for position, value in enumerate(names)}, None, warns=f"{party!r}, column {name!r}")

    def coded(self, rows_per_value: float) -> CategoryStep | None:
        """Return the step that gives codes in place of hashed columns; None: too few values, or too few rows for them."""
        if self.counts is None or sum(self.counts.values()) < rows_per_value * len(self.counts):
            return None
        return CategoryStep({value: position for position, value in enumerate(self.counts)}, None, codes=True)

    def write(self, column: NDArray[np.object_], out: NDArray[np.float32]) -> None:
        """Write the prepared rows to `out`."""
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
        """Two signed hash columns per value, so that few pairs of values share both, and the logarithm of its count."""
        most = np.log1p(max(counts.values(), default=1))
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
        """Return it in the types of JSON."""
        known = self.values if self.counts is None else self.counts
        counts = None if self.counts is None else list(self.counts.values())
        return {"values": list(known), "counts": counts, "codes": self.codes, "warns": self.warns}

    @classmethod
    def from_json(cls, stored: Stored) -> CategoryStep:
        """Return a stored step, checked."""
        values, codes, warns = stored.texts("values"), stored.flag("codes"), stored.text("warns")
        stored.check("values", len(set(values)) == len(values))
        if not stored.given("counts"):
            return cls({value: position for position, value in enumerate(values)}, None, codes, warns)
        counts = stored.integers("counts", 1)
        stored.check("counts", len(counts) == len(values) and not codes)
        return cls({}, dict(zip(values, counts, strict=True)), codes, warns)


def _looked_up(positions: Mapping[Any, int], column: NDArray[np.object_]) -> NDArray[np.intp]:
    """Return the position of each row's value; -1 where it has none."""
    return np.fromiter(map(positions.get, column, repeat(-1)), np.intp, len(column))


def as_categories(column: NDArray[Any]) -> NDArray[np.object_]:
    """Return numbers as the text that they are in a column of categories; NaN is missing."""
    if column.dtype == object:
        return column
    known, positions = np.unique(column, return_inverse=True)
    texts = np.array([None if is_missing(value) else as_text(value) for value in known.tolist()], dtype=object)
    return np.asarray(texts[positions])
