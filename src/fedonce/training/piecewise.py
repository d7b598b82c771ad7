"""Piecewise-linear encodings of numbers (Gorishniy et al., 2022): a column becomes one input per bin, between its quantiles.

A value fills the bins below it, and a part of its own: from there a linear layer makes any function that bends at the edges. A
column of few values has an edge at each; one of two values stays as it is, scaled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

EDGES_FROM = 100_000  # rows at most: edges hardly move with more


class Piecewise(nn.Module):
    """Encodes columns: an input is how far a column's value is through one bin, 0 to 1, less its mean over training rows."""

    column: Tensor
    low: Tensor
    width: Tensor
    mean: Tensor

    def __init__(self, n_bins: int) -> None:
        super().__init__()
        self.register_buffer("column", torch.zeros(n_bins, dtype=torch.int64))
        self.register_buffer("low", torch.zeros(n_bins))
        self.register_buffer("width", torch.ones(n_bins))
        self.register_buffer("mean", torch.zeros(n_bins))

    def forward(self, rows: Tensor) -> Tensor:
        """Encode rows."""
        part: Tensor = (rows.index_select(1, self.column) - self.low) / self.width
        return part.clamp(0, 1) - self.mean

    @classmethod
    def of(cls, columns: NDArray[Any], has: NDArray[np.bool_], bins: int) -> Piecewise:
        """Find the bins of columns by the rows that have a value, up to `bins` per column; a constant column has none."""
        step = max(1, len(columns) // EDGES_FROM)
        columns, has = columns[::step], has[::step]
        edges = [edges_of(columns[has[:, j], j], bins) for j in range(columns.shape[1])]
        made = cls(sum(len(each) - 1 for each in edges))
        if len(made.low):
            made.column = torch.from_numpy(np.repeat(np.arange(len(edges)), [len(each) - 1 for each in edges]))
            made.low = torch.from_numpy(np.concatenate([each[:-1] for each in edges]))
            made.width = torch.from_numpy(np.concatenate([np.diff(each) for each in edges]))
            made.mean = made._means(columns, has)
        return made

    def _means(self, columns: NDArray[Any], has: NDArray[np.bool_]) -> Tensor:
        means = torch.zeros(len(self.low))
        for j in range(columns.shape[1]):
            bins = self.column == j
            values = torch.from_numpy(columns[has[:, j], j])[:, None]
            means[bins] = ((values - self.low[bins]) / self.width[bins]).clamp(0, 1).mean(dim=0)
        return means


def edges_of(values: NDArray[Any], bins: int) -> NDArray[np.float32]:
    """Return where a column's bins meet: at its distinct values where they are few, else at quantiles; one edge: no bin."""
    distinct = np.unique(values)
    if len(distinct) > bins + 1:
        distinct = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1), method="nearest"))
    edges = np.asarray(distinct, dtype=np.float32)
    return edges[np.concatenate([[True], np.diff(edges) > 0])] if len(edges) else np.zeros(1, np.float32)
