"""The columns of a table as attacks see them: what kind each is, which values it has, and what is told and held back of it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedonce.assess.attacks.base import Floats, Mask, explained, share_right
from fedonce.data.table import Table, as_text

FEWEST_ROWS = 20  # known rows of a column, below which nothing is said
TOO_FEW = f"fewer than {FEWEST_ROWS} known rows"
ONE_VALUE = "one value only"
MOST_CATEGORIES = 100
COLUMNS_AT_ONCE = 64
NUMBERS = ("number", "date")


def blocks(table: Table, rows: NDArray[np.intp]) -> Iterator[tuple[Sequence[Hashable], list[NDArray[Any]]]]:
    """Yield some rows of the table, a few columns at a time: names and columns."""
    sample = None if table.matrix is None else table.matrix[rows]
    if sparse.issparse(sample):
        sample = sparse.csc_array(sample)
    for start in range(0, len(table.names), COLUMNS_AT_ONCE):
        part = slice(start, start + COLUMNS_AT_ONCE)
        if sample is None:
            columns = [np.asarray(column[rows]) for column in table.columns[part]]
        else:
            cut = sample[:, part]
            columns = list((cut.toarray() if sparse.issparse(cut) else np.asarray(cut)).T)
        yield table.names[part], columns


def kind_of(column: NDArray[Any]) -> str:
    """Return "category", "boolean", "date" or "number"."""
    kinds = {"O": "category", "U": "category", "S": "category", "b": "boolean", "M": "date"}
    return kinds.get(column.dtype.kind, "number")


def known_of(column: NDArray[Any]) -> Mask:
    """Tell which values are there; infinity is none."""
    if column.dtype.kind == "M":
        return np.asarray(~np.isnat(column))
    if column.dtype.kind == "O":
        return np.array([value is not None for value in column], dtype=bool)
    return np.asarray(np.isfinite(column)) if column.dtype.kind == "f" else np.ones(len(column), bool)


def codes_of(column: NDArray[Any]) -> tuple[NDArray[np.intp], int]:
    """Give categories numbers by how common they are, and say how many there are; the rare ones share the last number."""
    texts = [as_text(value) for value in column.tolist()]
    names, places, counts = np.unique(texts, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    code = np.empty(len(names), np.intp)
    code[order] = np.minimum(np.arange(len(names)), MOST_CATEGORIES)
    return code[places], min(len(names), MOST_CATEGORIES + 1)


@dataclass(frozen=True)
class Nothing:
    """A column of which nothing can be said."""

    name: Hashable
    kind: str
    why: str


@dataclass(frozen=True)
class Goal:
    """A column that is guessed: what the attacker is told (for categories, one column each), and what is to be rebuilt."""

    name: Hashable
    kind: str
    told: Floats
    truth: NDArray[Any]
    told_rows: Mask | None  # which have a value; None: all, and the column is one of numbers
    held_rows: Mask | None

    @property
    def is_number(self) -> bool:
        """Whether it is scored by R²."""
        return self.kind in NUMBERS

    @property
    def guess(self) -> float:
        """The score of who names the mean, or the most common value."""
        return 0.0 if self.is_number else float((self.truth == self.told.sum(axis=0).argmax()).mean())

    def score(self, guessed: Floats) -> tuple[float, float, float]:
        """Return the score of a guess, and its interval."""
        if self.is_number:
            return explained(self.truth, guessed[:, 0])
        return share_right(guessed.argmax(axis=1) == self.truth, self.truth == self.told.sum(axis=0).argmax())


def goal_of(name: Hashable, column: NDArray[Any], n_held: int) -> Goal | Nothing:
    """Take some rows of a column, those held back first; where nothing can be said of it, say why."""
    kind, known = kind_of(column), known_of(column)
    held, told = column[:n_held][known[:n_held]], column[n_held:][known[n_held:]]
    if known.sum() < FEWEST_ROWS or min(len(held), len(told)) < FEWEST_ROWS // 5:
        return Nothing(name, kind, TOO_FEW)
    if kind not in NUMBERS:
        codes, truth, classes = _told_codes(told, held)
        if classes == 1:
            return Nothing(name, kind, ONE_VALUE)
        return Goal(name, kind, np.eye(classes)[codes], truth, known[n_held:], known[:n_held])
    told, held = scaled(told, held)
    if not np.ptp(told) or not np.ptp(held):
        return Nothing(name, kind, ONE_VALUE)
    gaps = (None, None) if known.all() else (known[n_held:], known[:n_held])
    return Goal(name, kind, told[:, None], held, *gaps)


def _told_codes(told: NDArray[Any], held: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
    """Give categories numbers by how common they are among the rows that the attacker knows; the rare ones share one.

    A value that only rows held back have gets a number that no guess can be.
    """
    codes, classes = codes_of(told)
    code = dict(zip((as_text(value) for value in told.tolist()), codes.tolist(), strict=True))
    unseen = min(len(code), MOST_CATEGORIES)
    return codes, np.array([code.get(as_text(value), unseen) for value in held.tolist()], dtype=np.intp), classes


def scaled(told: NDArray[Any], held: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return numbers or dates centred and between -1 and 1 or so, as R² does not mind and sums of squares do."""
    if told.dtype.kind == "M":
        told, held = (part.astype("datetime64[us]").astype(np.int64) for part in (told, held))
    told, held = told.astype(np.float64), held.astype(np.float64)
    largest = max(np.abs(told).max(), np.abs(held).max()) or 1.0
    told, held = told / largest, held / largest
    middle = told.mean()
    told, held = told - middle, held - middle
    spread = max(np.abs(told).max(), np.abs(held).max()) or 1.0
    return told / spread, held / spread


def as_numbers(column: NDArray[Any], known: Mask) -> Floats:
    """Return the known values of a column of numbers or dates, centred and of bounded size."""
    values = column[known]
    return scaled(values, values)[0]
