"""Who holds a message and knows no row reads the order of rows by a column, where one value is as good as the column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from fedonce.assess.attacks.base import Attack, Exposed, Finding, Floats, shuffled
from fedonce.assess.attacks.columns import FEWEST_ROWS, NUMBERS, ONE_VALUE, TOO_FEW, blocks, kind_of, known_of
from fedonce.assess.attacks.names import ATTACKS, Facts

MOST_ROWS = 5_000


@dataclass(frozen=True)
class Order(Attack):
    """Compare the order of rows by each value with that by each column of numbers or dates: the squared rank correlation.

    Parameters
    ----------
    most_rows : int
        How many rows are looked at.
    """

    name: ClassVar[str] = "order"
    facts: ClassVar[Facts] = ATTACKS.built_in["order"].facts

    most_rows: int = MOST_ROWS

    def run(self, exposed: Exposed, rng: np.random.Generator) -> Sequence[Finding]:
        """Take for each column the value that orders rows most like it, up or down."""
        sample = exposed.sample(self.most_rows)
        ranks = _ranks(np.asarray(sample.values, np.float64))
        other = shuffled(sample.n_rows, rng)
        found = []
        for names, columns in blocks(sample.table, np.arange(sample.n_rows)):
            numbers = [pair for pair in zip(names, columns, strict=True) if kind_of(pair[1]) in NUMBERS]
            found += [self._compare(name, column, ranks, other) for name, column in numbers]
        return found

    def _compare(self, name: object, column: NDArray[np.generic], ranks: Floats, other: NDArray[np.intp]) -> Finding:
        known, kind = known_of(column), kind_of(column)
        if known.sum() < FEWEST_ROWS:
            return Finding(self.name, name, kind, None, note=TOO_FEW)
        own = _ranks(_sortable(column[known])[:, None])[:, 0]
        if not own.any():
            return Finding(self.name, name, kind, None, note=ONE_VALUE)
        score = _best(own, ranks[known])
        control = _best(own, ranks[other][known])
        # Of a rank correlation of r, the standard error is about (1 - r²) / sqrt(n); that of its square twice r times it.
        half = 1.96 * 2 * np.sqrt(score) * (1 - score) / np.sqrt(len(own))
        low, high = max(0.0, score - half), min(1.0, score + half)
        return Finding(self.name, name, kind, score, 0.0, control, low, high, len(own))


def _sortable(column: NDArray[np.generic]) -> Floats:
    """Return numbers or dates as floats; very large whole numbers lose digits, which hardly changes an order."""
    plain = column.astype(np.int64) if column.dtype.kind == "M" else column
    return plain.astype(np.float64)


def _ranks(columns: Floats) -> Floats:
    """Return ranks, centred and of length 1; zeros where a column never changes."""
    ranks = rankdata(columns, axis=0) - (len(columns) + 1) / 2
    size = np.linalg.norm(ranks, axis=0)
    return np.asarray(ranks / np.where(size > 0, size, 1.0))


def _best(own: Floats, ranks: Floats) -> float:
    """Return the best squared correlation of any value; those of fewer rows are centred again, nearly, as the rows are many."""
    centred = ranks - ranks.mean(axis=0)
    size = np.linalg.norm(centred, axis=0)
    return float(np.square(own @ centred / np.where(size > 0, size, 1.0)).max(initial=0.0))
