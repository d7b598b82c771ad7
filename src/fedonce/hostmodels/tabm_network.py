"""Many networks that share their layers (Gorishniy et al., TabM, 2025), on piecewise-linear encodings of every column.

Each of the k heads sees the sums of the first layer through a scaling and a shift of its own, random signs at first, and has an
output layer of its own; all else is shared. TabM's mini variant scales the inputs instead: then the first and widest layer is
gone through k times. Behind it, once is enough, and on validation rows no worse (`benchmarks/tabm_settings.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from fedonce.hostmodels.base import Examples
from fedonce.training.piecewise import Piecewise


@dataclass(frozen=True)
class Shape:
    """How a network is to be made: heads, width and number of layers, bins per column, and dropout."""

    heads: int
    width: int
    layers: int
    bins: int
    dropout: float


@dataclass(frozen=True)
class Size:
    """How large a network is: all that the shapes of its weights depend on."""

    heads: int
    width: int
    layers: int
    bins: int  # of all columns together
    guests: int
    n_outputs: int

    def work(self, rows: int) -> float:
        """Return the operations of so many rows through it; a training step takes three times as many."""
        shared = (self.bins + self.guests) * self.width
        each = self.width * (self.width * (self.layers - 1) + self.n_outputs)
        return 2.0 * rows * (shared + self.heads * each)


class TabM(nn.Module):
    """Own columns, guests' values and who is present to outputs: log-probabilities of classes, or one number."""

    guest: Tensor

    def __init__(self, size: Size, dropout: float = 0.0) -> None:
        super().__init__()
        heads, width = size.heads, size.width
        self.size, self.dropout = size, dropout
        self.encoding = Piecewise(size.bins)
        self.register_buffer("guest", torch.zeros(size.bins, dtype=torch.int64))  # of each bin: 0 the host, 1 the first
        self.first = nn.Parameter(torch.zeros(size.bins + size.guests, width))
        self.scale = nn.Parameter(torch.randint(0, 2, (heads, 1, width)) * 2.0 - 1.0)
        self.shift = nn.Parameter(_uniform(0.1, heads, 1, width))
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(size.layers - 1))
        self.last = nn.Parameter(_uniform(width**-0.5, heads, width, size.n_outputs))
        self.bias = nn.Parameter(_uniform(width**-0.5, heads, 1, size.n_outputs))

    @classmethod
    def of(cls, examples: Examples, dims: Sequence[int], n_outputs: int, shape: Shape) -> TabM:
        """Make a network for the columns of examples; weights are drawn from torch's generator."""
        holder = np.repeat(np.arange(len(dims) + 1), [examples.own.shape[1], *dims])  # of each column: 0 is the host
        columns = np.hstack([examples.own, examples.values])
        has = np.hstack([np.ones((len(columns), 1)), examples.present])[:, holder] > 0
        encoding = Piecewise.of(columns, has, shape.bins)
        made = cls(Size(shape.heads, shape.width, shape.layers, len(encoding.low), len(dims), n_outputs), shape.dropout)
        made.encoding, made.guest = encoding, torch.from_numpy(holder)[encoding.column]
        made._begin()
        return made

    def _begin(self) -> None:
        """Draw the first layer: each column counts alike, however many bins it has."""
        bins_of_column = torch.bincount(self.encoding.column)
        counts = torch.cat([bins_of_column[self.encoding.column].float(), torch.ones(self.size.guests)])
        spread = (3 / (counts * max(1, int((bins_of_column > 0).sum())))).sqrt()
        self.first.data = _uniform(1.0, *self.first.shape) * spread[:, None]

    def inputs(self, own: Tensor, values: Tensor, present: Tensor) -> Tensor:
        """Return what the first layer sees: nothing of absent guests but the mark that they are."""
        encoded: Tensor = self.encoding(torch.cat([own, values], dim=1))
        if not self.size.guests:
            return encoded
        has = torch.cat([torch.ones_like(present[:, :1]), present], dim=1)
        return torch.cat([encoded * has.index_select(1, self.guest), 1 - present], dim=1)

    def each(self, inputs: Tensor) -> Tensor:
        """Return the outputs of each head, (heads, rows, outputs)."""
        sums = self._dropped(inputs @ self.first)
        seen = torch.addcmul(self.shift, sums, self.scale).relu()
        for layer in self.hidden:
            seen = layer(seen).relu()
        return torch.baddbmm(self.bias, seen, self.last)

    def _dropped(self, sums: Tensor) -> Tensor:
        return F.dropout(sums, self.dropout, self.training)

    def forward(self, own: Tensor, values: Tensor, present: Tensor) -> Tensor:
        """Average what the heads give: probabilities of classes, as logarithms, or numbers."""
        each = self.each(self.inputs(own, values, present))
        if self.size.n_outputs == 1:
            return each.mean(dim=0)
        return each.log_softmax(dim=2).logsumexp(dim=0) - math.log(self.size.heads)


def row_losses(each: Tensor, target: Tensor) -> Tensor:
    """Return the mean over heads of a row's loss."""
    if target.is_floating_point():
        return (each[:, :, 0] - target).square().mean(dim=0)
    heads = len(each)
    return F.cross_entropy(each.flatten(0, 1), target.repeat(heads), reduction="none").view(heads, -1).mean(dim=0)


def _uniform(bound: float, *shape: int) -> Tensor:
    return torch.empty(*shape).uniform_(-bound, bound)
