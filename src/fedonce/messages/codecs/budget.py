"""Steps by how many bytes a row may take: all columns have steps of one length, which gives each the bits that it is worth.

With a coder that comes close to the entropy, equal steps in every direction are nearly the best there is (reverse
water-filling): a column that hardly varies falls on one step and costs nothing, one that varies much gets many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.messages.codecs.packing import estimate
from fedonce.messages.codecs.steps import Steps

LEAST_BYTES, MOST_BYTES = 0.05, 1024.0  # per row: less says nothing, more is a table
MOST_VALUES = 16  # per row, where bytes are given and no larger number of values
IMAGE_VALUES = 2.0  # per byte, of images: many coarse values tell more than few fine ones (docs/hints.md)
SAMPLE = 20_000  # rows by which the length is sought
TRIES = 18
MOST_LEVELS = 255  # of a column: eight bits per value, as without a limit in bytes
COARSER = 1.05
ROOM = 1.02  # times what a sample takes: the same steps for all rows may take a little more
ENOUGH = 0.001  # share of the variance that may be lost: finer steps tell hardly more, and are not taken


def most_values(dim: int, bytes_per_row: float | None, pixels: int = 0) -> int:
    """Return how many values per row there may be: `dim`, which need not be thought of where bytes are given."""
    if bytes_per_row is None:
        return dim
    return max(dim, MOST_VALUES, min(pixels, round(IMAGE_VALUES * bytes_per_row)))


def within(values: NDArray[Any], bytes_per_row: float, enough: float = ENOUGH) -> Steps:
    """Return the finest steps by which rows take no more than so many bytes, on average, their tables included.

    Where even a few rows' tables take more, all values fall on one step.
    """
    sample, budget = values[:: max(1, len(values) // SAMPLE)], bytes_per_row * len(values)
    spread = _spread(values)
    if not spread:
        return _steps(values, 1.0)
    finest = _finest(values, enough)
    coarsest = max(4 * spread, finest)
    for _ in range(TRIES):
        step = float(np.sqrt(finest * coarsest))
        if _size(sample, step, len(values)) <= budget:
            coarsest = step
        else:
            finest = step
        if coarsest / finest < 1.01:
            break
    # All rows may take more than the sample promises. The coarsest steps have one integer alone, which takes nothing.
    factor = COARSER
    while (steps := _steps(values, coarsest)).levels.any() and _size(values, coarsest, len(values)) > budget:
        coarsest, factor = coarsest * factor, factor * COARSER
    return steps


def worth(values: NDArray[Any]) -> Steps:
    """Return the finest steps that are worth their bytes, eight bits per value at most: for values of one scale."""
    return _steps(values, _finest(values, ENOUGH) or 1.0)


def beside(first: NDArray[Any], rest: NDArray[Any], bytes_per_row: float, most: float) -> Steps:
    """Return steps for values of two kinds, side by side, that take no more than so many bytes together.

    The first kind gets the finest steps that are worth their bytes, as far as they take no more than a share `most` of them, or
    than the rest leaves; the rest gets what is left.
    """
    own = within(first, most * bytes_per_row)
    others = within(rest, max(0.0, bytes_per_row - _taken(first, own)))
    own = within(first, max(most * bytes_per_row, bytes_per_row - _taken(rest, others)))
    low, step, levels = ((own.low, others.low), (own.step, others.step), (own.levels, others.levels))
    kinds = np.repeat(np.arange(2, dtype=np.uint16), [len(own.low), len(others.low)])
    return Steps(np.concatenate(low), np.concatenate(step), np.concatenate(levels), kinds)


def shared_out(parts: Sequence[NDArray[Any]], rows: Sequence[int], bytes_total: float) -> list[float]:
    """Return the bytes per row of each part of a table, so that all together take no more than so many.

    `parts` are samples of the values of so many `rows`, of about the same scale. All get steps of one length, as if they were the
    columns of one table; but none finer steps than those that it would take alone. Each part gets `LEAST_BYTES` or more.
    """
    finest = [_finest(part, ENOUGH) for part in parts]

    def sizes(step: float) -> list[float]:
        each = zip(parts, finest, rows, strict=True)
        found = [ROOM * _size(part, max(step, own), n) / n if own else 0.0 for part, own, n in each]
        return [float(np.clip(size, LEAST_BYTES, MOST_BYTES)) for size in found]

    low = min(filter(None, finest), default=1.0)
    high = max(4 * max(map(_spread, parts), default=1.0), low)
    if sum(found := sizes(low)) <= bytes_total:
        return found
    for _ in range(TRIES):
        step = float(np.sqrt(low * high))
        low, high = (low, step) if sum(sizes(step)) <= bytes_total else (step, high)
    found = sizes(high)
    return found if sum(found) <= bytes_total else [LEAST_BYTES] * len(parts)


def _spread(values: NDArray[Any]) -> float:
    return float(np.sqrt(np.square(values - values.mean(axis=0), dtype=np.float64).mean(axis=0).sum()))


def _finest(values: NDArray[Any], enough: float) -> float:
    """Return the shortest step that is taken; 0: nothing varies.

    A step of length s loses s^2 / 12 per column: no finer than what loses enough, nor by which a column has too many.
    """
    widest = float((values.max(axis=0) - values.min(axis=0)).max())
    return max(_spread(values) * float(np.sqrt(12 * enough / values.shape[1])), widest / (MOST_LEVELS - 1))


def _steps(values: NDArray[Any], step: float) -> Steps:
    """Return steps of one length, of which one lies at zero: that is where most values are."""
    low = np.rint(values.min(axis=0) / step)
    levels = np.rint(values.max(axis=0) / step) - low
    return Steps((low * step).astype(np.float32), np.full(len(low), step, np.float32), levels.astype(np.uint16))


def _size(values: NDArray[Any], step: float, rows: int) -> float:
    return _estimated(values, _steps(values, step), rows)


def _taken(values: NDArray[Any], steps: Steps) -> float:
    """Return how many bytes a row takes; what is not told at all takes none."""
    return _estimated(values, steps, len(values)) / len(values) if steps.levels.any() else 0.0


def _estimated(values: NDArray[Any], steps: Steps, rows: int) -> float:
    return estimate(steps.encode(values), steps.levels.tolist(), rows)
