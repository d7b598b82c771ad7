"""The range of values that are written as integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SCALES_LIMIT = 64  # so many columns have a range each; wider representations share one


def n_scales(dim: int) -> int:
    """Return how many ranges there are for `dim` values per row."""
    return dim if dim <= SCALES_LIMIT else 1


def columns_of(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return values as columns that have a range each."""
    return values if values.shape[1] <= SCALES_LIMIT else values.reshape(-1, 1)


@dataclass(frozen=True)
class Scale:
    """The range of values that integers from 0 to `levels` stand for, frozen when the guest has learnt."""

    low: NDArray[np.float32]
    high: NDArray[np.float32]

    @classmethod
    def fit(cls, values: NDArray[np.float32], levels: int) -> Scale:
        """Choose per column the range with the least squared rounding error on the training rows.

        The full range spends codes on a few outliers; a narrower one clips them. Which is better depends on the
        column and on the levels, so a few candidates are tried. Beyond `SCALES_LIMIT` columns all share one range.
        """
        columns = columns_of(values)
        low, high = columns.min(axis=0), columns.max(axis=0)
        sample = columns[:: max(1, len(columns) // 20_000)].astype(np.float64)
        best = np.full(columns.shape[1], np.inf)
        chosen = cls(low, high)
        for tail in (0.0, 1e-3, 3e-3, 1e-2, 2e-2):
            ends = np.quantile(sample, [tail, 1 - tail], axis=0) if tail else np.stack([low, high])
            candidate = cls(ends[0].astype(np.float32), ends[1].astype(np.float32))
            error = np.square(candidate.decode(candidate.encode(sample, levels), levels) - sample).mean(axis=0)
            better = error < best
            best = np.where(better, error, best)
            chosen = cls(np.where(better, candidate.low, chosen.low), np.where(better, candidate.high, chosen.high))
        return chosen

    def encode(self, values: NDArray[Any], levels: int) -> NDArray[np.uint8]:
        """Round values to integers up to `levels`, one per byte; what lies outside the range goes to its edge."""
        codes = (values - self.low) / self.step(levels)
        rounded: NDArray[np.uint8] = np.rint(np.clip(codes, 0, levels)).astype(np.uint8)
        return rounded

    def decode(self, codes: NDArray[np.uint8], levels: int) -> NDArray[np.float32]:
        """Return the values that integers stand for."""
        return (self.low + codes * self.step(levels)).astype(np.float32, copy=False)

    def step(self, levels: int) -> NDArray[np.float32]:
        """Return how far integers are apart; a range without width is taken to be 1 wide."""
        width = self.high - self.low
        return np.asarray(np.where(width > 0, width, np.float32(1)) / np.float32(levels), np.float32)
