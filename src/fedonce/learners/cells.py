"""Cells: similar rows share one message, and no fewer of the rows that are sent than the guest says."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from fedonce.errors import InputError, parameter_error
from fedonce.learners.base import Learner, Tensors
from fedonce.learners.clusters import Centres, find_cells, nearest
from fedonce.learners.names import Facts
from fedonce.learners.patches import Patches
from fedonce.learners.pca import PCA
from fedonce.messages.codecs.packing import estimate
from fedonce.messages.codecs.steps import MOST_LAYERS, Steps, added_up
from fedonce.training.loop import Rows
from fedonce.training.settings import Epoch
from fedonce.training.stored import added_later

BASE_DIM = 32  # principal coordinates in which rows are compared
SMALLEST_PATCH_IMAGE = 10  # pixels per side
LEVELS = 255  # of a coordinate of a centre
ENOUGH = 0.98  # share of the centres' spread that the coordinates that are sent must keep
WORTH = 0.15  # bytes per row that another layer of cells needs at least, to be worth its centres
CLOSE = 0.995  # of the bytes allowed, as sizes are estimates
FEWER = 2 / 3  # cells, where the bytes do not allow as many
MOST_CELLS = 4096


@dataclass(eq=False)
class Cells(Learner):
    """Cluster the rows (k-means); a row's values are the coordinates of its cell's centre.

    A cell with few rows is merged into its neighbours, so that `least` rows or more of the training message share each value;
    with several layers, which `bytes_per_row` may take, each layer of it, unless they are kept `together`. The message says which
    cell each row is in, in a fraction of a byte, and once where the cells are. Rows that are predicted later go to the nearest
    cell, where they may be the only ones of their message.

    Parameters
    ----------
    cells : int
        At most so many in a layer.
    least : int
        Fewest rows of the training message in a cell.
    layers : int or None
        A second layer has cells of what the first leaves over, and so on; values are the sums. None: 1; or, where
        `bytes_per_row` is given, as many as it allows, 4 at most.
    together : bool
        Whether `least` rows share all layers, not only each of them: finer cells that would part fewer rows are not used.
    centres : bool
        Whether to send where cells are. If not, the message has their numbers alone, in their order along the first principal
        direction, in one layer.
    shuffled : bool
        Where numbers are sent: whether in a random order, so that they say nothing of where cells are. `random_state` does not
        fix it.
    bytes_per_row : float, optional
        Bytes that a row's values may take in the message, on average.
    """

    name: ClassVar[str] = "cells"
    facts: ClassVar[Facts] = Facts(trains=False, on_steps=True)
    cells: int = 256
    least: int = 20
    layers: int | None = None
    together: bool = False
    centres: bool = True
    bytes_per_row: float | None = added_later()
    shuffled: bool | None = added_later()
    base_: Learner | None = field(default=None, init=False, repr=False)
    layers_: tuple[Layer, ...] = field(default=(), init=False, repr=False)
    dim_: int = field(default=0, init=False, repr=False)  # coordinates that are sent

    def check(self) -> None:
        """Raise where a setting is out of its range."""
        most = {"cells": (2, MOST_CELLS), "least": (1, 10**9), "layers": (1, MOST_LAYERS)}
        for name, (least, largest) in most.items():
            value = getattr(self, name)
            if (type(value) is not int or not least <= value <= largest) and (name, value) != ("layers", None):
                raise parameter_error("Cells", name, f"an integer from {least} to {largest}", value)
        if not self.centres and self.layers not in (None, 1):
            raise parameter_error(
                "Cells", "layers", "1 where cells are sent by number alone (centres=False)", self.layers
            )
        if self.shuffled and self.centres:
            raise parameter_error("Cells", "shuffled", "false where it is sent where cells are (centres=True)", True)
        if self.bytes_per_row is not None and not self.bytes_per_row > 0:
            raise parameter_error("Cells", "bytes_per_row", "a number above 0", self.bytes_per_row)

    def fit(
        self,
        rows: Rows,
        dim: int,
        rng: np.random.Generator,
        device: torch.device,
        sent: NDArray[np.intp] | None = None,
    ) -> list[Epoch]:
        """Find cells, layer by layer, as long as the bytes allow one more; `sent` are the rows of the message. None: all."""
        self.check()
        sent = np.arange(len(rows)) if sent is None else sent
        if len(sent) < self.least:
            raise parameter_error("Cells", "least", f"at most the {len(sent)} rows that are sent", self.least)
        images = rows.ndim == 4 and min(rows.shape[2:]) >= SMALLEST_PATCH_IMAGE
        self.base_ = Patches() if images else PCA()
        self.base_.fit(rows, BASE_DIM, rng, device)
        left, seed = self._base_values(rows, device), int(rng.integers(2**31))
        most = 1 if not self.centres else self.layers or (MOST_LAYERS if self.bytes_per_row is not None else 1)
        budget = np.inf if self.bytes_per_row is None else CLOSE * self.bytes_per_row * len(sent)
        self.layers_, self.dim_ = (), 0
        inside, before = list[NDArray[np.intp]](), np.zeros(len(left), np.int64)
        while len(self.layers_) < most:
            found = self._fit_layer(left, sent, inside, before, budget, dim, seed)
            if found is None:
                break
            layer, which = found
            inside.append(which[sent])
            self.layers_, self.dim_ = (*self.layers_, layer), self._coordinates(layer.centres, dim)
            left, before = left - layer.centres[which], layer.path(before, which)
        return []

    def _fit_layer(
        self,
        left: Rows,
        sent: NDArray[np.intp],
        inside: list[NDArray[np.intp]],
        before: NDArray[np.int64],
        budget: float,
        dim: int,
        seed: int,
    ) -> tuple[Layer, NDArray[np.intp]] | None:
        """Find the most cells that the bytes allow, and the one of each row. None: no finer ones are worth it.

        `inside` are the cells of the rows that are sent, in the layers before.
        """
        free = (budget - self._size(self.layers_, inside, self.dim_)) / len(sent)
        if inside and free < WORTH:
            return None
        # Cells of different sizes may be more than the bits of their numbers could tell apart, hardly four times as many.
        many = min(self.cells, int(4 * 2 ** min(8 * free, 12)))
        while many >= 2:
            centres, which = find_cells(left, sent, many, self.least, seed, bool(self.shuffled))
            layer = Layer(centres)
            if self.layers_ and self.together:
                layer = layer.kept_together(left, sent, before, self.least)
                which = layer.which(left, before)
            if inside and not np.ptp(which[sent]):
                return None
            coordinates = self._coordinates(layer.centres, dim)
            if self._size((*self.layers_, layer), [*inside, which[sent]], coordinates) <= budget:
                return layer, which
            many = min(many - 1, ceil(min(many, len(centres)) * FEWER))
        one = Layer(left[sent].mean(axis=0, keepdims=True))
        return None if self.layers_ else (one, one.which(left, before))

    def _size(self, layers: tuple[Layer, ...], inside: list[NDArray[np.intp]], sent: int) -> float:
        """Return about how many bytes cells take in the message: which one each row is in, and where they are."""
        size = 0.0
        for layer, which in zip(layers, inside, strict=True):
            values, steps = self._values_of(layer, sent)
            size += estimate(steps.encode(values)[which], steps.levels.tolist(), len(which))
        return size

    def _coordinates(self, centres: Centres, dim: int) -> int:
        """Return how many coordinates are sent, once these centres are added."""
        if not self.centres:
            return 1
        return max(self.dim_, min(dim, centres.shape[1]) if self.bytes_per_row is None else coordinates(centres, dim))

    def _values_of(self, layer: Layer, sent: int) -> tuple[Rows, Steps]:
        """Return what is sent of each cell of a layer, and the steps on which that lies."""
        if self.centres:
            values = layer.centres[:, :sent]
            return values, Steps.between(values.min(axis=0), values.max(axis=0), LEVELS)
        along = np.arange(len(layer.centres)) if self.shuffled else layer.centres[:, 0]
        numbers = np.argsort(np.argsort(along, kind="stable"))[:, None]
        most = np.array([len(numbers) - 1], np.uint16)
        return numbers.astype(np.float32), Steps(np.zeros(1, np.float32), np.ones(1, np.float32), most)

    @property
    def shared(self) -> int:
        """How many rows of the training message share each of its values, at least; 0 where layers are shared one by one."""
        return self.least if self.together or len(self.layers_) <= 1 else 0

    @property
    def steps(self) -> Steps | None:
        """The steps of the centres' coordinates; or, where cells are sent by number, their numbers."""
        if not self.layers_:
            return None
        return added_up([self._values_of(layer, self.dim_)[1] for layer in self.layers_])

    def transform(self, rows: Rows, device: torch.device) -> Rows:
        """Return the centres of the cells that rows are in, or the cells' numbers."""
        layers = self.transform_in_layers(rows, device).reshape(len(rows), len(self.layers_), self.dim_)
        return np.asarray(layers.sum(axis=1), np.float32)

    def transform_in_layers(self, rows: Rows, device: torch.device) -> Rows:
        """Return the coordinates of each layer's cell, side by side."""
        left = self._base_values(rows, device)
        before, found = np.zeros(len(left), np.int64), []
        for layer in self.layers_:
            which = layer.which(left, before)
            found.append(self._values_of(layer, self.dim_)[0][which])
            left, before = left - layer.centres[which], layer.path(before, which)
        return np.hstack(found)

    def _base_values(self, rows: Rows, device: torch.device) -> Rows:
        if self.base_ is None:
            raise InputError("This Cells has not learnt yet; call fit first.")
        return np.ascontiguousarray(self.base_.transform(rows, device), dtype=np.float32)

    def state(self) -> Tensors:
        """Return the base learner's state, and each layer."""
        if self.base_ is None:
            raise InputError("This Cells has not learnt yet; call fit first.")
        kept = {"dim": np.array(self.dim_), "images": np.array(isinstance(self.base_, Patches))}
        kept |= {f"base.{name}": value for name, value in self.base_.state().items()}
        for number, layer in enumerate(self.layers_):
            kept[f"centres.{number}"] = layer.centres
            if layer.paths is not None:
                kept[f"paths.{number}"] = layer.paths
        return kept

    def restore(self, tensors: Tensors) -> None:
        """Take them back."""
        images = bool(tensors["images"])
        self.base_ = Patches() if images else PCA()
        self.base_.restore({name[5:]: value for name, value in tensors.items() if name.startswith("base.")})
        width = len(tensors["base.1.weight" if images else "base.directions"])
        many = sum(name.startswith("centres.") for name in tensors)
        if not 1 <= many <= MOST_LAYERS:
            raise ValueError(f"it has {many} layers of cells")
        self.layers_ = tuple(Layer(tensors[f"centres.{i}"], tensors.get(f"paths.{i}")) for i in range(many))
        paths = 1
        for layer in self.layers_:
            paths *= layer.check(width, paths)
        self.dim_ = int(tensors["dim"])
        if not 1 <= self.dim_ <= (width if self.centres else 1):
            raise ValueError(f"it sends {self.dim_} coordinates of cells that have {width}")


@dataclass(frozen=True, eq=False)
class Layer:
    """Centres of cells; with `paths`, which cells may follow which of the layers before, all others go to cell 0."""

    centres: Centres
    paths: NDArray[np.int64] | None = None

    def check(self, width: int, before: int) -> int:
        """Raise where it cannot be a layer on so many coordinates and paths before it; return how many cells it has."""
        kind, shape = self.centres.dtype, self.centres.shape
        if kind != np.float32 or len(shape) != 2 or not 1 <= shape[0] <= MOST_CELLS + 1 or shape[1] != width:
            raise ValueError("its cells are not numbers of the same coordinates")
        if not np.isfinite(self.centres).all():
            raise ValueError("its cells are not numbers")
        if self.paths is not None and (
            self.paths.dtype != np.int64
            or self.paths.ndim != 1
            or not ((self.paths >= 0) & (self.paths < before * shape[0])).all()
        ):
            raise ValueError("its cells follow others that there are not")
        return int(shape[0])

    def which(self, left: Rows, before: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the cell of each row."""
        found = nearest(left, self.centres)
        return found if self.paths is None else np.where(np.isin(self.path(before, found), self.paths), found, 0)

    def path(self, before: NDArray[np.int64], which: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return one number for the cells of a row in this layer and those before."""
        return before * len(self.centres) + which

    def kept_together(self, left: Rows, sent: NDArray[np.intp], before: NDArray[np.int64], least: int) -> Layer:
        """Return cells of which, together with those before, none has fewer rows sent; cell 0 has its centre at zero."""
        made = Layer(np.vstack([np.zeros((1, self.centres.shape[1]), np.float32), self.centres]))
        path = made.path(before, made.which(left, before))[sent]
        paths, counts = np.unique(path, return_counts=True)
        good = paths[(counts >= least) & (paths % len(made.centres) > 0)]
        rest = ~np.isin(path, good)
        # Where fewer are left over than may stand alone, none of their cell is parted.
        parents, left_over = np.unique(before[sent][rest], return_counts=True)
        lonely = parents[left_over < least]
        return Layer(made.centres, good[~np.isin(good // len(made.centres), lonely)])


def coordinates(centres: Centres, most: int) -> int:
    """Return how many leading coordinates keep nearly all that tells centres apart, at most so many."""
    spread = np.square(centres - centres.mean(axis=0)).sum(axis=0)
    enough = np.cumsum(spread) >= ENOUGH * max(spread.sum(), 1e-30)
    return min(most, int(enough.argmax()) + 1)
