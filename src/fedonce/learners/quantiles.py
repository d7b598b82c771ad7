"""Quantiles: columns as they are, each by the bin of its values; plain to read, for the host, too."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedonce.errors import InputError, parameter_error
from fedonce.learners.base import Learner, Tensors
from fedonce.learners.names import Facts
from fedonce.messages.codecs.packing import estimate
from fedonce.messages.codecs.steps import Codes, Steps
from fedonce.training.loop import Rows
from fedonce.training.settings import Epoch
from fedonce.training.stored import added_later

BINS, MOST_BINS = 16, 256
SAMPLE = 20_000  # rows by which bins are shared out
SHORTER = 0.99  # of the bytes of columns apart, below which they are written together

Edges = NDArray[np.float32]


@dataclass(eq=False)
class Quantiles(Learner):
    """Send columns as they are, in bins of about as many rows each: a value is the number of its bin.

    It is plain to read, and that is its honesty: the host learns in which sixteenth of the guest's rows each row lies, column by
    column. A column of few values has a bin for each of them. Sent are the columns whose ranks vary most: those of many values,
    then those whose values are about as common.

    Parameters
    ----------
    bins : int or None
        At most so many per column. None: 16; or, where `bytes_per_row` is given, as many as it allows, 256 at most.
    least : int
        Fewest training rows in a bin; a smaller one is merged with its neighbour.
    bytes_per_row : float, optional
        Bytes that a row's values may take in the message, on average. The bins of the column that gains most per byte (of the
        variance of ranks) are doubled, again and again; columns that are left with one bin are not sent.
    """

    name: ClassVar[str] = "quantiles"
    facts: ClassVar[Facts] = Facts(trains=False, exports=True, readable=True, on_steps=True)
    bins: int | None = None
    least: int = 20
    bytes_per_row: float | None = added_later()
    columns_: NDArray[np.int64] | None = field(default=None, init=False, repr=False)  # those that are sent
    edges_: Edges = field(default_factory=lambda: np.zeros((0, 0), np.float32), init=False, repr=False)
    groups_: NDArray[np.uint16] = field(default_factory=lambda: np.zeros(0, np.uint16), init=False, repr=False)

    def check(self) -> None:
        """Raise where a setting is out of its range."""
        for name, (least, most) in {"bins": (2, MOST_BINS), "least": (1, 10**9)}.items():
            value = getattr(self, name)
            if (type(value) is not int or not least <= value <= most) and (name, value) != ("bins", None):
                raise parameter_error("Quantiles", name, f"an integer from {least} to {most}", value)
        if self.bytes_per_row is not None and not self.bytes_per_row > 0:
            raise parameter_error("Quantiles", "bytes_per_row", "a number above 0", self.bytes_per_row)

    def fit(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device) -> list[Epoch]:
        """Cut columns into bins, and choose those to send."""
        self.check()
        if rows.ndim != 2:
            raise InputError(
                "The 'quantiles' learner needs a table of numbers and categories; for images take 'patches' or 'pca'."
            )
        if len(rows) < self.least:
            raise parameter_error("Quantiles", "least", f"at most the {len(rows)} rows that there are", self.least)
        if self.bytes_per_row is None:
            cuts = [ladder(column, self.least, [self.bins or BINS])[-1] for column in rows.T]
            order = sorted(range(len(cuts)), key=lambda column: -cuts[column].kept)[:dim]
            self._take({column: cuts[column].edges for column in order if len(cuts[column].edges)})
            self._group(rows[:: max(1, len(rows) // SAMPLE)], len(rows))
        else:
            self._share_out(rows, dim, self.bytes_per_row * len(rows))
        return []

    def _share_out(self, rows: Rows, dim: int, budget: float) -> None:
        """Give columns the most bins that the bytes allow."""
        many = [2**power for power in range(1, 9) if 2**power <= (self.bins or MOST_BINS)]
        ladders = [ladder(column, self.least, many) for column in rows.T]
        steps, sample = upward(ladders, dim), rows[:: max(1, len(rows) // SAMPLE)]

        def size(taken: int, of: Rows) -> float:
            heights = dict(steps[:taken])  # a column's last step is its highest
            self._take({column: ladders[column][height].edges for column, height in heights.items()})
            return self._group(of, len(rows))

        fits, beyond = 0, len(steps) + 1
        while beyond - fits > 1:
            middle = (fits + beyond) // 2
            fits, beyond = (middle, beyond) if size(middle, sample) <= budget else (fits, middle)
        while size(fits, rows) > budget and fits:  # a sample has fewer distinct rows
            fits -= max(1, fits // 20)

    def _take(self, edges: dict[int, Edges]) -> None:
        """Take these columns, by their place; the first one in one bin, where there are none."""
        edges = dict(sorted(edges.items())) or {0: np.zeros(0, np.float32)}
        self.columns_ = np.array(list(edges), np.int64)
        self.edges_ = np.full((len(edges), max(map(len, edges.values()))), np.inf, np.float32)
        for place, own in enumerate(edges.values()):
            self.edges_[place, : len(own)] = own

    def _group(self, rows: Rows, n_rows: int) -> float:
        """Say which columns are written together; return about how many bytes so many rows take, if they are like these."""
        codes = self.transform(rows, torch.device("cpu")).astype(np.uint16)
        self.groups_, size = groups(codes, self._levels(), n_rows)
        return size

    def _levels(self) -> NDArray[np.intp]:
        """Return the largest bin of each column that is sent."""
        return np.asarray(np.isfinite(self.edges_).sum(axis=1), np.intp)

    @property
    def steps(self) -> Steps | None:
        """The numbers of the bins."""
        if self.columns_ is None:
            return None
        many = len(self.columns_)
        levels = self._levels().astype(np.uint16)
        return Steps(np.zeros(many, np.float32), np.ones(many, np.float32), levels, self.groups_)

    def transform(self, rows: Rows, device: torch.device) -> Rows:
        """Return the bins of rows, column by column."""
        if self.columns_ is None:
            raise InputError("This Quantiles has not learnt yet; call fit first.")
        values = np.empty((len(rows), len(self.columns_)), np.float32)
        for place, (column, edges) in enumerate(zip(self.columns_, self.edges_, strict=True)):
            values[:, place] = np.searchsorted(edges, rows[:, column])  # how many edges a value is above
        return values

    def module(self) -> nn.Module:
        """Return the bins as a network that counts the edges below a value."""
        if self.columns_ is None:
            raise InputError("This Quantiles has not learnt yet; call fit first.")
        return _Above(self.columns_, self.edges_)

    def state(self) -> Tensors:
        """Return which columns are sent, their edges, and which are written together."""
        if self.columns_ is None:
            raise InputError("This Quantiles has not learnt yet; call fit first.")
        return {"columns": self.columns_, "edges": self.edges_, "groups": self.groups_}

    def restore(self, tensors: Tensors) -> None:
        """Take them back."""
        columns, edges, together = (tensors[name] for name in ("columns", "edges", "groups"))
        kinds = [array.dtype for array in (columns, edges, together)]
        shapes = kinds == [np.dtype(kind) for kind in (np.int64, np.float32, np.uint16)]
        shapes = shapes and columns.shape == together.shape == edges.shape[:1] and edges.ndim == 2
        if not shapes or not len(columns) or edges.shape[1] >= MOST_BINS:
            raise ValueError("its bins are not edges for each column")
        if (columns < 0).any() or (together >= len(columns)).any():
            raise ValueError("its bins are of columns or groups that there are not")
        if (edges == -np.inf).any() or not (edges[:, :-1] <= edges[:, 1:]).all() or np.isnan(edges).any():
            raise ValueError("the edges of its bins do not rise")
        self.columns_, self.edges_, self.groups_ = columns, edges, together


class _Above(nn.Module):
    """How many edges a value is above, column by column."""

    columns: Tensor
    edges: Tensor

    def __init__(self, columns: NDArray[np.int64], edges: Edges) -> None:
        super().__init__()
        self.register_buffer("columns", torch.from_numpy(columns))
        self.register_buffer("edges", torch.from_numpy(edges))

    def forward(self, rows: Tensor) -> Tensor:
        above: Tensor = (rows[:, self.columns].unsqueeze(2) > self.edges).sum(dim=2)
        return above.to(rows.dtype)


@dataclass(frozen=True)
class Cut:
    """A column in bins: how much of the variance of its ranks they keep, and about how many bytes it takes for all rows."""

    edges: Edges
    kept: float
    size: float


def ladder(column: Rows, least: int, many: list[int]) -> list[Cut]:
    """Return a column in one bin, then in at most so many each; what is no finer than the one before is left out."""
    values, counts = np.unique(column, return_counts=True)
    below = np.cumsum(counts)
    # Ranks, as trees see a column: rare flags, which preparation scales up, would else be taken first, and tell little.
    ranks = (below - counts / 2) / below[-1]
    total = np.cumsum(counts * ranks)
    found: list[Cut] = []
    for most in [1, *many]:
        ends = _ends(below, most, least)
        if found and len(ends) <= len(found[-1].edges):
            continue
        middle = values[ends] / 2 + values[ends + 1] / 2
        edges = np.where(middle < values[ends + 1], middle, values[ends])  # rounded, it may be the value above
        n = np.diff(below[ends], prepend=0, append=below[-1])
        sums = np.diff(total[ends], prepend=0, append=total[-1])
        kept = np.square(sums / n) @ n / below[-1] - (total[-1] / below[-1]) ** 2
        found.append(Cut(edges.astype(np.float32), float(kept), float(-(n * np.log2(n / below[-1])).sum() / 8)))
    return found


def _ends(below: NDArray[np.intp], most: int, least: int) -> NDArray[np.intp]:
    """Return the last value of each bin but the last; `below` says how many rows have a value or a smaller one."""
    n = below[-1]
    ends = np.arange(len(below) - 1)  # a bin for each value
    if len(ends) >= most:
        ends = np.unique(np.searchsorted(below, np.arange(1, most) * (n / most)))
    kept, start = [], 0
    for end in ends:
        if below[end] - start >= least and n - below[end] >= least:
            kept.append(int(end))
            start = below[end]
    return np.array(kept, np.intp)


def upward(ladders: list[list[Cut]], dim: int) -> list[tuple[int, int]]:
    """Return (column, height) step by step: the next step is the one that gains most variance per byte; of `dim` columns."""
    waiting: list[tuple[float, int, int]] = []

    def wait_for(column: int, height: int) -> None:
        if height < len(ladders[column]):
            lower, higher = ladders[column][height - 1 : height + 1]
            heappush(waiting, ((lower.kept - higher.kept) / max(higher.size - lower.size, 1e-9), column, height))

    for column in range(len(ladders)):
        wait_for(column, 1)
    taken, columns = [], 0
    while waiting:
        _, column, height = heappop(waiting)
        if height > 1 or columns < dim:
            columns += height == 1
            taken.append((column, height))
            wait_for(column, height + 1)
    return taken


def groups(codes: Codes, levels: NDArray[np.intp], n_rows: int) -> tuple[NDArray[np.uint16], float]:
    """Return which columns are better written together, such as those of a category, and about how many bytes all take."""
    found, sizes, start = np.zeros(codes.shape[1], np.uint16), list[float](), 0
    for column in range(codes.shape[1]):
        alone = estimate(codes[:, [column]], levels[[column]].tolist(), n_rows)
        own = slice(start, column + 1)
        joined = estimate(codes[:, own], levels[own].tolist(), n_rows) if sizes else np.inf
        if sizes and joined < SHORTER * (sizes[-1] + alone):
            sizes[-1] = joined
        else:
            sizes.append(alone)
            start = column
        found[column] = len(sizes) - 1
    together = estimate(codes, levels.tolist(), n_rows)
    return (found, sum(sizes)) if sum(sizes) <= together else (np.zeros_like(found), together)
