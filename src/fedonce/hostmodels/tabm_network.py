"""Many networks that share their layers (Gorishniy et al., TabM, 2025, the mini variant), on encodings of every column.

A column of many values is encoded by bins, and those become a few values by a linear layer of its own; one of two values stays
as it is. Each of the k heads sees all these inputs through a scaling of its own, random signs at first, and has shifts and an
output layer of its own; all else is shared. A scaling of inputs is one of the first layer's weights: k such layers side by side
are one product of matrices, and no input is copied.
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
from fedonce.training.losses import Loss
from fedonce.training.piecewise import Bins, find_edges, thinned


@dataclass(frozen=True)
class Shape:
    """How a network is to be made: heads, width and number of layers, bins and values per column, and dropout."""

    heads: int
    width: int
    layers: int
    bins: int
    embedding: int
    dropout: float


@dataclass(frozen=True)
class Size:
    """How large a network is: all that the shapes of its weights depend on."""

    heads: int
    width: int
    layers: int
    columns: int  # of many values
    bins: int  # of each of them
    embedding: int
    pairs: int  # columns of two values
    guests: int
    n_outputs: int

    @property
    def inputs(self) -> int:
        """Return how many numbers a row is for the first layer."""
        return self.columns * self.embedding + self.pairs + self.guests

    def work(self, rows: int) -> float:
        """Return the operations of so many rows through it; a training step takes three times as many."""
        each = self.width * (self.inputs + self.width * (self.layers - 1) + self.n_outputs)
        return 2.0 * rows * (self.heads * each + self.columns * self.bins * self.embedding)


class TabM(nn.Module):
    """Own columns, guests' values and who is present to outputs: log-probabilities of classes, or one number."""

    holder: Tensor

    def __init__(self, size: Size, dropout: float = 0.0) -> None:
        super().__init__()
        heads, width = size.heads, size.width
        self.size, self.dropout = size, dropout
        self.many, self.two = Bins(size.columns, size.bins), Bins(size.pairs, 1)
        self.register_buffer("holder", torch.zeros(size.columns + size.pairs, dtype=torch.int64))  # 0: the host
        self.embedding = nn.Parameter(torch.zeros(size.columns, size.bins, size.embedding))
        self.offset = nn.Parameter(_uniform(0.2, size.columns, 1, size.embedding))
        self.scale = nn.Parameter(torch.randint(0, 2, (size.inputs, heads, 1)) * 2.0 - 1.0)
        bound = max(size.inputs, 1) ** -0.5
        self.first = nn.Parameter(_uniform(bound, size.inputs, 1, width))
        self.shift = nn.Parameter(_uniform(bound, heads * width))
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(size.layers - 1))
        self.last = nn.Parameter(_uniform(width**-0.5, heads, width, size.n_outputs))
        self.bias = nn.Parameter(_uniform(width**-0.5, heads, 1, size.n_outputs))

    @classmethod
    def of(cls, examples: Examples, dims: Sequence[int], n_outputs: int, shape: Shape) -> TabM:
        """Make a network for the columns of examples; weights are drawn from torch's generator."""
        own, values, present = thinned([examples.own, examples.values, examples.present])
        holder = holders(own.shape[1], dims)
        columns = np.hstack([own, values])
        has = np.hstack([np.ones((len(columns), 1)), present])[:, holder] > 0
        edges = find_edges(columns, has, shape.bins)
        many, two = (
            Bins.of(columns, has, {j: each for j, each in edges.items() if (len(each) == 2) == pair})
            for pair in (False, True)
        )
        (n_many, n_bins), n_two = many.low.shape, len(two.low)
        shapes = (shape.heads, shape.width, shape.layers, n_many, n_bins, shape.embedding, n_two, len(dims), n_outputs)
        made = cls(Size(*shapes), shape.dropout)
        made.many, made.two = many, two
        made.holder = torch.from_numpy(holder)[torch.cat([many.column, two.column])]
        spread = many.counts.clamp(min=1).rsqrt()[:, None, None]
        made.embedding.data = _uniform(1.0, *made.embedding.shape) * spread
        return made

    def inputs(self, own: Tensor, values: Tensor, present: Tensor) -> Tensor:
        """Return what the first layer sees: of absent guests nothing but the mark that they are."""
        rows = torch.cat([own, values], dim=1)
        has = torch.cat([torch.ones_like(present[:, :1]), present], dim=1) if present.shape[1] else None
        parts = []
        if self.size.columns:
            offset = torch.baddbmm(self.offset, self.many.mean[:, None], self.embedding, alpha=-1)
            embedded = torch.baddbmm(offset, self.many(rows).transpose(0, 1), self.embedding)
            if has is not None:
                embedded = embedded * has.index_select(1, self.holder[: self.size.columns]).T[:, :, None]
            parts.append(embedded.transpose(0, 1).flatten(1))
        if self.size.pairs:
            plain = (self.two(rows) - self.two.mean).flatten(1)
            parts.append(plain if has is None else plain * has.index_select(1, self.holder[self.size.columns :]))
        return torch.cat([*parts, 1 - present], dim=1)

    def each(self, inputs: Tensor) -> Tensor:
        """Return the outputs of each head, (heads, rows, outputs)."""
        size = self.size
        seen = torch.addmm(self.shift, inputs, (self.scale * self.first).flatten(1)).relu()
        seen = self._dropped(seen.view(-1, size.width))
        for layer in self.hidden:
            seen = self._dropped(layer(seen).relu())
        return torch.baddbmm(self.bias, seen.view(-1, size.heads, size.width).transpose(0, 1), self.last)

    def _dropped(self, seen: Tensor) -> Tensor:
        return F.dropout(seen, self.dropout, self.training) if self.dropout else seen

    def forward(self, own: Tensor, values: Tensor, present: Tensor) -> Tensor:
        """Average what the heads give: probabilities of classes, as logarithms, or numbers."""
        each = self.each(self.inputs(own, values, present))
        if self.size.n_outputs == 1:
            return each.mean(dim=0)
        return each.log_softmax(dim=2).logsumexp(dim=0) - math.log(self.size.heads)


def holders(n_own: int, dims: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return who holds each column: 0 is the host, 1 the first guest."""
    return np.repeat(np.arange(len(dims) + 1), [n_own, *dims])


class Heads(nn.Module):
    """A network as it is trained: the outputs of each head, (rows, heads, outputs)."""

    def __init__(self, network: TabM) -> None:
        super().__init__()
        self.network = network

    def forward(self, own: Tensor, values: Tensor, present: Tensor) -> Tensor:
        """Return the outputs of each head."""
        return self.network.each(self.network.inputs(own, values, present)).transpose(0, 1)


class HeadsLoss(Loss):
    """The mean over heads of a row's loss: cross-entropy of classes, squared error of numbers."""

    def rows(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row."""
        if targets.is_floating_point():
            return (outputs[:, :, 0] - targets[:, None]).square().mean(dim=1)
        heads = outputs.shape[1]
        each = F.cross_entropy(outputs.flatten(0, 1), targets.repeat_interleave(heads), reduction="none")
        return each.view(-1, heads).mean(dim=1)


def _uniform(bound: float, *shape: int) -> Tensor:
    return torch.empty(*shape).uniform_(-bound, bound)
