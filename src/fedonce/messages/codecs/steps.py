"""Evenly spaced steps on which values lie, so that integers stand for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.messages.codecs.scale import Scale

MOST_LAYERS = 4

Codes = NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class Steps:
    """Values of a column are `low`, `low + step`, ..., `low + levels * step`; an array each, an entry per column.

    A learner whose values lie on steps anyway (centres of cells, bins) says so: such values are written as they are. Columns
    of one number in `groups` belong together, such as the coordinates of one cell; None: all do. One entry may serve all columns.
    With several `layers`, the columns are those of the first layer, then those of the next, and values are their sums.
    """

    low: NDArray[np.float32]
    step: NDArray[np.float32]
    levels: NDArray[np.uint16]
    groups: NDArray[np.uint16] | None = None
    layers: int = 1

    @classmethod
    def of(cls, scale: Scale, levels: int) -> Steps:
        """Return the steps of a scale, to the bit."""
        return cls(scale.low, scale.step(levels), np.full(len(scale.low), levels, np.uint16))

    @classmethod
    def between(cls, low: NDArray[Any], high: NDArray[Any], levels: int) -> Steps:
        """Return `levels` steps of the same length from `low` to `high`, column by column."""
        width = np.asarray(high - low, np.float32)
        return cls(
            np.asarray(low, np.float32),
            (np.where(width > 0, width, np.float32(1)) / np.float32(levels)).astype(np.float32),
            np.where(width > 0, levels, 0).astype(np.uint16),
        )

    def encode(self, values: NDArray[Any]) -> Codes:
        """Return the nearest step of each value, as an integer; what lies outside goes to the edge."""
        codes: Codes = np.rint(np.clip((values - self.low) / self.step, 0, self.levels)).astype(np.uint16)
        return codes

    def decode(self, codes: Codes, column: int) -> NDArray[np.float32]:
        """Return the values that the integers of a column stand for."""
        entry = column if len(self.low) > 1 else 0
        values = codes.astype(np.float32)
        values *= self.step[entry]
        values += self.low[entry]
        return values

    def rounded(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Return what is read of values that were written: the nearest step of each."""
        codes = self.encode(values)
        return np.column_stack([self.decode(codes[:, column], column) for column in range(codes.shape[1])])

    def columns(self, dim: int) -> tuple[list[int], list[list[int]]]:
        """Return the largest integer of each of `dim` columns, and which columns belong together."""
        levels = np.broadcast_to(self.levels, dim).tolist()
        groups = np.zeros(dim, np.uint16) if self.groups is None else np.broadcast_to(self.groups, dim)
        order = np.argsort(groups, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
        return levels, [part.tolist() for part in parts]


def added_up(parts: Sequence[Steps]) -> Steps:
    """Return the steps of values that are sums of parts; each part is a group of its own."""
    groups = [np.full(len(part.low), number, np.uint16) for number, part in enumerate(parts)]
    low, step, levels = (np.concatenate([getattr(each, name) for each in parts]) for name in ("low", "step", "levels"))
    return Steps(low, step, levels, np.concatenate(groups), len(parts))
