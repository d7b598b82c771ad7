"""Evenly spaced steps on which values lie, so that integers stand for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEVELS_LIMIT = 4095  # the largest integer of a column


@dataclass(frozen=True, eq=False)
class Steps:
    """Values of a column are `low`, `low + step`, ..., `low + levels * step`; an array each, an entry per column.

    A learner whose values lie on steps anyway (centres of cells, bins) says so: such values are written as they are.
    """

    low: NDArray[np.float32]
    step: NDArray[np.float32]
    levels: NDArray[np.uint16]

    def encode(self, values: NDArray[Any]) -> NDArray[np.uint16]:
        """Return the nearest step of each value, as an integer; what lies outside goes to the edge."""
        codes = (values - self.low) / np.where(self.step > 0, self.step, np.float32(1))
        return np.rint(np.clip(codes, 0, self.levels)).astype(np.uint16)

    def decode(self, codes: NDArray[np.uint16]) -> NDArray[np.float32]:
        """Return the values that integers stand for."""
        return (self.low + codes * self.step).astype(np.float32)
