"""Piecewise-linear encodings of numbers (Gorishniy et al., 2022): a column becomes one input per bin, between its quantiles.

A value fills the bins below it, and a part of its own: from there a linear layer makes any function that bends at the edges. A
column of few values has an edge at each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

EDGES_FROM = 100_000  # rows at most: edges hardly move with more
NEVER = float(np.finfo(np.float32).max)  # where a bin begins that a column does not have: no value reaches it


class Bins(nn.Module):
    """Encodes columns, each by as many bins: how far a value is through a bin, 0 to 1; `mean` is that of the training rows."""

    column: Tensor
    low: Tensor
    width: Tensor
    mean: Tensor

    def __init__(self, n_columns: int, n_bins: int) -> None:
        super().__init__()
        self.register_buffer("column", torch.zeros(n_columns, dtype=torch.int64))
        self.register_buffer("low", torch.full((n_columns, n_bins), NEVER))
        self.register_buffer("width", torch.ones(n_columns, n_bins))
        self.register_buffer("mean", torch.zeros(n_columns, n_bins))

    def forward(self, rows: Tensor) -> Tensor:
        """Encode rows, to (rows, columns, bins)."""
        chosen = rows.index_select(1, self.column)
        return (chosen[:, :, None] - self.low).div_(self.width).clamp_(0, 1)  # in place: most of a small step's memory

    @classmethod
    def of(cls, columns: NDArray[Any], has: NDArray[np.bool_], edges: dict[int, NDArray[np.float32]]) -> Bins:
        """Make the bins of some columns, by their edges; means are of the rows that have a value."""
        made = cls(len(edges), max((len(each) - 1 for each in edges.values()), default=1))
        made.column = torch.tensor(list(edges), dtype=torch.int64)
        for place, each in enumerate(edges.values()):
            made.low[place, : len(each) - 1] = torch.from_numpy(each[:-1])
            made.width[place, : len(each) - 1] = torch.from_numpy(np.diff(each))
        for place, j in enumerate(edges):
            values = torch.from_numpy(columns[has[:, j], j])[:, None]
            made.mean[place] = ((values - made.low[place]) / made.width[place]).clamp(0, 1).mean(dim=0)
        return made

    @property
    def counts(self) -> Tensor:
        """How many bins each column has."""
        return (self.low < NEVER).sum(dim=1)


def find_edges(columns: NDArray[Any], has: NDArray[np.bool_], bins: int) -> dict[int, NDArray[np.float32]]:
    """Return the edges of each column that is not constant, by the rows that have a value."""
    found = {j: edges_of(columns[has[:, j], j], bins) for j in range(columns.shape[1])}
    return {j: edges for j, edges in found.items() if len(edges) > 1}


def thinned(arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return as many rows as edges are found from."""
    return [array[:: max(1, len(array) // EDGES_FROM)] for array in arrays]


def edges_of(values: NDArray[Any], bins: int) -> NDArray[np.float32]:
    """Return where a column's bins meet: at its distinct values where they are few, else at quantiles; one edge: no bin."""
    distinct = np.unique(values)
    if len(distinct) > bins + 1:
        distinct = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1), method="nearest"))
    edges = np.asarray(distinct, dtype=np.float32)
    return edges[np.concatenate([[True], np.diff(edges) > 0])] if len(edges) else np.zeros(1, np.float32)
