"""Columns of a data set's rows, which are an array, a sparse array or an Arrow table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def select(rows: Any, positions: Sequence[int]) -> Any:
    """Return some of the columns; of an array without a copy where they lie side by side."""
    if isinstance(rows, pa.Table):
        return rows.select(list(positions))
    first = positions[0] if positions else 0
    contiguous = list(positions) == list(range(first, first + len(positions)))
    return rows[:, slice(first, first + len(positions))] if contiguous else rows[:, list(positions)]


def arrays(rows: pa.Table) -> list[NDArray[Any]]:
    """Return a table's columns: numbers with NaN, or objects with None, where something is missing."""
    return [np.asarray(column.to_numpy()) for column in rows.columns]
