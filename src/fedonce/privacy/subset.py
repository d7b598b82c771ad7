"""Subset selection: one of few values told with pure epsilon (Wang, Huang, Wang and others, 2016; Ye and Barg, 2018).

The answer is a set of `size` of the k values, drawn evenly from the sets that hold the true value, or from those that do not; one
of the former is exp(epsilon) times as probable as one of the latter. With sets of one value this is k-ary randomised response.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SubsetSelection:
    """The mechanism for `values` values, two or more, that answers by sets of `size`."""

    values: int
    epsilon: float
    size: int

    @cached_property
    def true(self) -> float:
        """Probability that the true value is in the answer."""
        return self.size / (self.size + (self.values - self.size) * math.exp(-self.epsilon))

    @cached_property
    def false(self) -> float:
        """Probability that a certain other value is in it."""
        return (self.size - self.true) / (self.values - 1)

    @property
    def levels(self) -> tuple[float, float]:
        """Natural logarithms of the probabilities of a set that holds the true value, and of one that does not."""
        with_it = math.log(self.true) - _log_sets(self.values - 1, self.size - 1)
        return with_it, math.log1p(-self.true) - _log_sets(self.values - 1, self.size)

    @property
    def marks(self) -> tuple[float, float]:
        """What stands for a value outside and inside the answer: on average 1 for the true value, and 0 for the others."""
        spread = self.true - self.false
        return -self.false / spread, (1 - self.false) / spread

    @property
    def error(self) -> float:
        """Mean squared distance between marks and the true value's own: 1 there, 0 elsewhere."""
        variance = self.true * (1 - self.true) + (self.values - 1) * self.false * (1 - self.false)
        return variance / (self.true - self.false) ** 2

    def answers(self, chosen: NDArray[np.intp], uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return marks per row, (rows, values), by 1 + `values` numbers from (0, 1) each."""
        rows = np.arange(len(chosen))
        order = uniforms[:, 1:].copy()
        # The values are taken in an order drawn evenly; the true one is put first where it is in the answer, else last.
        order[rows, chosen] = np.where(uniforms[:, 0] < self.true, -1.0, 2.0)
        taken = np.argpartition(order, self.size - 1, axis=1)[:, : self.size]
        outside, inside = self.marks
        marks = np.full(order.shape, outside)
        np.put_along_axis(marks, taken, inside, axis=1)
        return marks


def _log_sets(values: int, size: int) -> float:
    """Return the natural logarithm of how many sets of `size` of so many values there are."""
    return math.lgamma(values + 1) - math.lgamma(size + 1) - math.lgamma(values - size + 1)


@lru_cache(maxsize=256)
def best(values: int, epsilon: float) -> SubsetSelection:
    """Return the mechanism with the least error for so many values."""
    ideal = values / (1 + math.exp(min(epsilon, 700)))
    sizes = {min(max(round_(ideal), 1), values - 1) for round_ in (math.floor, math.ceil)}
    return min((SubsetSelection(values, epsilon, size) for size in sizes), key=lambda made: made.error)
