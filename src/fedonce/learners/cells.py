"""Cells: rows that are alike share one message, and no fewer rows than the guest says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from fedonce.errors import InputError, parameter_error
from fedonce.learners.base import Learner, Tensors
from fedonce.learners.names import Facts
from fedonce.learners.patches import Patches
from fedonce.learners.pca import PCA, projection
from fedonce.messages.codecs.packing import estimate
from fedonce.messages.codecs.steps import MOST_LAYERS, Steps, in_layers
from fedonce.training.loop import Rows, apply
from fedonce.training.settings import Epoch
from fedonce.training.threads import threads_for

MANY = 100_000  # distinct rows from which on k-means looks at batches
MOST_ITERATIONS = 50
BASE_DIM = 32  # principal coordinates in which rows are compared
SMALLEST_PATCH_IMAGE = 10  # pixels per side
DISTANCES = 2**24  # at a time
LEVELS = 255  # of a coordinate of a centre
ENOUGH = 0.98  # share of the centres' spread that the coordinates that are sent must keep
WORTH = 0.15  # bytes per row that another layer of cells needs at least, to be worth its centres
MOST_CELLS = 4096

Centres = NDArray[np.float32]


@dataclass(eq=False)
class Cells(Learner):
    """Cluster the rows (k-means); a row's values are the coordinates of its cell's centre.

    A cell with few rows is merged into its neighbours, so that every training row shares its message with `least` rows or
    more. The message says which cell each row is in, in a fraction of a byte, and once where the cells are.

    Parameters
    ----------
    cells : int
        At most so many in a layer.
    least : int
        Fewest training rows in a cell.
    layers : int or None
        A second layer has cells of what the first leaves over, and so on; values are the sums. None: 1; or, where
        `bytes_per_row` is given, as many as it allows, 4 at most.
    together : bool
        Whether `least` rows share all layers, not only each of them: finer cells that would part fewer rows are not used.
    centres : bool
        Whether to send where cells are. If not, the message has their numbers alone, in their order along the first principal
        direction, in one layer.
    bytes_per_row : float, optional
        How long the message may be, for each row.
    """

    name: ClassVar[str] = "cells"
    facts: ClassVar[Facts] = Facts(trains=False)
    cells: int = 256
    least: int = 20
    layers: int | None = None
    together: bool = False
    centres: bool = True
    bytes_per_row: float | None = None
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

    def fit(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device) -> list[Epoch]:
        """Find cells, layer by layer, as long as the bytes allow one more."""
        self.check()
        if len(rows) < self.least:
            raise parameter_error("Cells", "least", f"at most the {len(rows)} rows that there are", self.least)
        images = rows.ndim == 4 and min(rows.shape[2:]) >= SMALLEST_PATCH_IMAGE
        self.base_ = Patches() if images else PCA()
        self.base_.fit(rows, BASE_DIM, rng, device)
        left, seed = self._base_values(rows, device), int(rng.integers(2**31))
        most = 1 if not self.centres else self.layers or (MOST_LAYERS if self.bytes_per_row is not None else 1)
        budget = np.inf if self.bytes_per_row is None else self.bytes_per_row * len(left)
        self.layers_, before = (), np.zeros(len(left), np.int64)
        while len(self.layers_) < most and (not self.layers_ or budget >= WORTH * len(left)):
            layer = self._fit_layer(left, before, budget, dim, seed)
            if layer is None:
                break
            which = layer.which(left, before)
            budget -= self._size(layer.centres, which, dim)
            self.layers_ += (layer,)
            left, before = left - layer.centres[which], layer.path(before, which)
        self.dim_ = self._coordinates(dim)
        return []

    def _fit_layer(self, left: Rows, before: NDArray[np.int64], budget: float, dim: int, seed: int) -> Layer | None:
        """Find the most cells that the bytes allow; None: no finer ones are worth it."""
        many = self.cells
        while many >= 2:
            centres = find_cells(left, many, self.least, seed)
            layer = Layer(centres)
            if self.layers_ and self.together:
                layer = layer.kept_together(left, before, self.least)
            if self._size(layer.centres, layer.which(left, before), dim) <= budget:
                return layer if len(layer.centres) > 1 or not self.layers_ else None
            many = min(many, len(centres)) // 2
        return None if self.layers_ else Layer(left.mean(axis=0, keepdims=True))

    def _size(self, centres: Centres, which: NDArray[np.intp], dim: int) -> float:
        """Return about how many bytes cells take in the message: which one each row is in, and where they are."""
        steps = self._steps_of(centres[:, : coordinates(centres, dim)])
        return estimate(steps.encode(centres[:, : len(steps.low)])[which], steps.levels.tolist(), len(which))

    def _coordinates(self, dim: int) -> int:
        if not self.centres:
            return 1
        if self.bytes_per_row is None:
            return min(dim, int(self.layers_[0].centres.shape[1]))
        return max(coordinates(layer.centres, dim) for layer in self.layers_)

    @property
    def steps(self) -> Steps | None:
        """The steps of the centres' coordinates; or, where cells are sent by number, their numbers."""
        if not self.layers_:
            return None
        if not self.centres:
            most = len(self.layers_[0].centres) - 1
            return Steps(np.zeros(1, np.float32), np.ones(1, np.float32), np.array([most], np.uint16))
        return in_layers([self._steps_of(layer.centres[:, : self.dim_]) for layer in self.layers_])

    def _steps_of(self, columns: Centres) -> Steps:
        return Steps.between(columns.min(axis=0), columns.max(axis=0), LEVELS)

    def transform(self, rows: Rows, device: torch.device) -> Rows:
        """Return the centres of the cells that rows are in, or the cells' numbers."""
        layers = self.in_layers(rows, device).reshape(len(rows), -1, self.dim_)
        return np.asarray(layers.sum(axis=1), np.float32)

    def in_layers(self, rows: Rows, device: torch.device) -> Rows:
        """Return the coordinates of each layer's cell, side by side."""
        left = self._base_values(rows, device)
        before, found = np.zeros(len(left), np.int64), []
        for layer in self.layers_:
            which = layer.which(left, before)
            if not self.centres:
                return np.argsort(np.argsort(layer.centres[:, 0], kind="stable"))[which, None].astype(np.float32)
            found.append(layer.centres[which, : self.dim_])
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
        self.base_ = Patches() if bool(tensors["images"]) else PCA()
        self.base_.restore({name[5:]: value for name, value in tensors.items() if name.startswith("base.")})
        many = sum(name.startswith("centres.") for name in tensors)
        self.layers_ = tuple(Layer(tensors[f"centres.{i}"], tensors.get(f"paths.{i}")) for i in range(many))
        self.dim_ = int(tensors["dim"])
        widths = {layer.centres.shape[1:] for layer in self.layers_}
        whole = all(np.isfinite(layer.centres).all() and len(layer.centres) for layer in self.layers_)
        if not 1 <= many <= MOST_LAYERS or len(widths) != 1 or not whole or not 1 <= self.dim_ <= min(widths)[0]:
            raise ValueError("its cells are not numbers of the same coordinates")


@dataclass(frozen=True, eq=False)
class Layer:
    """Centres of cells; with `paths`, which cells may follow which of the layers before, all others go to cell 0."""

    centres: Centres
    paths: NDArray[np.int64] | None = None

    def which(self, left: Rows, before: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the cell of each row."""
        found = nearest(left, self.centres)
        return found if self.paths is None else np.where(np.isin(self.path(before, found), self.paths), found, 0)

    def path(self, before: NDArray[np.int64], which: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return one number for the cells of a row in this layer and those before."""
        return before * len(self.centres) + which

    def kept_together(self, left: Rows, before: NDArray[np.int64], least: int) -> Layer:
        """Return cells of which, together with those before, none has fewer rows; cell 0 has its centre at zero."""
        made = Layer(np.vstack([np.zeros((1, self.centres.shape[1]), np.float32), self.centres]))
        path = made.path(before, made.which(left, before))
        paths, counts = np.unique(path, return_counts=True)
        good = paths[(counts >= least) & (paths % len(made.centres) > 0)]
        rest = ~np.isin(path, good)
        # Where fewer are left over than may stand alone, none of their cell is parted.
        parents, left_over = np.unique(before[rest], return_counts=True)
        lonely = parents[left_over < least]
        return Layer(made.centres, good[~np.isin(good // len(made.centres), lonely)])


def find_cells(rows: Rows, many: int, least: int, seed: int) -> Centres:
    """Return the centres of at most so many cells, each the nearest of at least `least` rows."""
    from sklearn.cluster import KMeans, MiniBatchKMeans

    points, weight = _distinct(rows)
    if len(points) <= many:
        centres = points
    else:
        kind = KMeans if len(points) <= MANY else MiniBatchKMeans
        batches = {} if kind is KMeans else {"batch_size": 8192}
        model = kind(many, n_init=1, max_iter=MOST_ITERATIONS, random_state=seed, **batches)
        with threads_for(float(len(points)) * many * rows.shape[1]):
            centres = model.fit(points, sample_weight=weight).cluster_centers_.astype(np.float32)
    while True:
        which = nearest(rows, centres)
        counts = np.bincount(which, minlength=len(centres))
        small = np.flatnonzero(counts < least)
        if not len(small) or len(centres) == 1:
            break
        # The smaller half of those that are too small: their rows may make the others large enough.
        gone = small[np.argsort(counts[small], kind="stable")][: max(1, len(small) // 2)]
        centres = np.delete(centres, gone[: len(centres) - 1], axis=0)
    return centres


def _distinct(rows: Rows) -> tuple[Rows, NDArray[np.intp] | None]:
    """Return distinct rows and how often each occurs, where many repeat; else the rows."""
    start = rows[:10_000]
    if len(np.unique(start, axis=0)) > len(start) // 2:
        return rows, None
    points, counts = np.unique(rows, axis=0, return_counts=True)
    return points, counts


def nearest(rows: Rows, centres: Centres) -> NDArray[np.intp]:
    """Return the nearest centre of each row, which does not depend on the other rows."""
    half, step = np.square(centres, dtype=np.float64).sum(axis=1) / 2, max(1, DISTANCES // len(centres))
    nearness = projection(np.zeros(centres.shape[1]), centres.astype(np.float64))
    nearness.bias.data = torch.from_numpy(-half)
    cpu, starts = torch.device("cpu"), range(0, max(len(rows), 1), step)
    return np.concatenate([apply(nearness, rows[start : start + step], cpu).argmax(axis=1) for start in starts])


def coordinates(centres: Centres, most: int) -> int:
    """Return how many leading coordinates keep nearly all that tells centres apart, at most so many."""
    spread = np.square(centres - centres.mean(axis=0)).sum(axis=0)
    enough = np.cumsum(spread) >= ENOUGH * max(spread.sum(), 1e-30)
    return min(most, int(enough.argmax()) + 1)
