"""Principal components: the directions in which a guest's rows differ most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh
from torch import nn

from fedonce.errors import InputError
from fedonce.learners import orientations
from fedonce.learners.base import Learner, Tensors
from fedonce.learners.names import Facts
from fedonce.learners.orientations import Orientations
from fedonce.messages.codecs.budget import within
from fedonce.messages.codecs.steps import Steps
from fedonce.privacy import grid
from fedonce.privacy.budget import Purse, Task
from fedonce.training.loop import Rows, apply
from fedonce.training.settings import Epoch
from fedonce.training.stored import added_later
from fedonce.training.threads import product_work, threads_for

BLOCK = 2**21  # numbers at a time in float64

# With a privacy budget: what is released, in this order, and its part of the learner's share of the budget.
RELEASES = {"mean": 0.1, "radius": 0.05, "second moments": 0.85}
INSIDE = 0.9  # share of the rows that are not clipped
MOST_COLUMNS = 8192
RADII = 128  # steps in which the radius is sought
# Of the largest variance, added to each before whitening, so that noise is not blown up. Features of images are left as they are.
FLOOR, IMAGE_FLOOR = 0.01, 1.0


def principal(rows: Rows, dim: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]:
    """Return the mean, the leading variances and directions of rows, and the variance in all."""
    flat = rows.reshape(len(rows), prod(rows.shape[1:]))
    with threads_for(_moments_work(flat)):
        return _principal(flat, dim)


def _moments_work(flat: Rows) -> float:
    """Return the operations of the larger of the two: the second moments, or the directions found from them."""
    side = min(flat.shape)
    return max(product_work(side, max(flat.shape), side), float(9 * side**3))


def _principal(flat: Rows, dim: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]:
    if flat.shape[1] <= len(flat):
        mean, covariance = second_moments(flat)
        return mean, *components(covariance, min(dim, len(covariance))), float(np.trace(covariance))
    # More columns than rows: the directions are combinations of rows, found from the products of rows with each other.
    mean = flat.mean(axis=0, dtype=np.float64)
    centred = flat - mean
    gram = centred @ centred.T / len(flat)
    variances, weights = components(gram, min(dim, len(flat)))
    directions = weights @ centred
    directions /= np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-300)
    return mean, variances, directions, float(np.trace(gram))


def _blocks(flat: Rows) -> Iterator[NDArray[np.float64]]:
    """Yield the rows, block by block, in float64."""
    step = min(grid.ROWS_AT_ONCE, max(1, BLOCK // max(flat.shape[1], 1)))
    for start in range(0, len(flat), step):
        yield flat[start : start + step].astype(np.float64)


def second_moments(rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and the covariance of rows, reading them in blocks."""
    flat = rows.reshape(len(rows), prod(rows.shape[1:]))
    width = flat.shape[1]
    mean = flat.mean(axis=0, dtype=np.float64)
    covariance = np.zeros((width, width))
    for block in _blocks(flat):
        block -= mean
        covariance += block.T @ block
    return mean, covariance / len(flat)


def components(covariance: NDArray[np.float64], dim: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the leading variances and directions, each direction with its largest entry positive."""
    width = len(covariance)
    variances, vectors = eigh(covariance, subset_by_index=[max(width - dim, 0), width - 1])
    vectors = vectors[:, ::-1].T
    signs = np.sign(vectors[np.arange(len(vectors)), np.abs(vectors).argmax(axis=1)])
    return variances[::-1], vectors * signs[:, None]


@dataclass(eq=False)
class PCA(Learner):
    """Project rows on their leading directions; gives at most as many values as there are columns that vary.

    Parameters
    ----------
    bytes_per_row : float, optional
        Bytes that a row's values may take in the message, on average: directions in which rows differ by less than a step are
        left out.
    """

    name: ClassVar[str] = "pca"
    facts: ClassVar[Facts] = Facts(trains=False, private=True, exports=True)
    bound: ClassVar[float] = 3.0
    bytes_per_row: float | None = added_later()
    steps_: Steps | None = field(default=None, init=False, repr=False)
    mean_: NDArray[np.float64] | None = field(default=None, init=False, repr=False)
    directions_: NDArray[np.float64] | None = field(default=None, init=False, repr=False)
    oriented_: bool = field(default=False, init=False, repr=False)  # whether images go through fixed features first

    def fit(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device) -> list[Epoch]:
        """Find mean and directions; at least one direction, even where nothing varies."""
        self.oriented_ = False
        self.mean_, variances, directions, _ = principal(rows, dim)
        varying = int((variances > 1e-9 * max(variances[0], 1e-300)).sum())
        self.directions_, self.steps_ = directions[: max(1, varying)], None
        if self.bytes_per_row is not None:
            steps = within(self.transform(rows, device), self.bytes_per_row)
            tells = steps.levels > 0
            tells[0] |= not tells.any()
            self.directions_ = self.directions_[tells]
            self.steps_ = Steps(steps.low[tells], steps.step[tells], steps.levels[tells])
        return []

    @property
    def steps(self) -> Steps | None:
        """Steps of one length for all values, by `bytes_per_row`."""
        return self.steps_

    @property
    def one_scale(self) -> bool:
        """True: directions keep the lengths of rows."""
        return True

    def private_tasks(self, n_rows: int, share: float, exact: bool = False, unsound: bool = False) -> list[Task]:
        """Return its three releases."""
        return [Task("", f"PCA: {what}", share * part) for what, part in RELEASES.items()]

    def fit_private(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device, purse: Purse) -> None:
        """Find mean and directions from noisy sums alone; values are whitened and lie mostly within three deviations.

        Rows come scaled between -1 and 1 by public bounds, so a row is at most sqrt(columns) long (features of images: 1). The
        mean is released first; then a histogram of distances from it, from which the radius is taken that most rows are within;
        then the second moments of rows clipped to that radius (Dwork et al., 2014, "Analyze Gauss"). The rest looks at no row.
        All three are sums of whole numbers; see `privacy.grid`.
        """
        self.oriented_ = orientations.fits(rows.shape[1:])
        flat = self._flat(rows, device)
        with threads_for(_moments_work(flat)):
            self._fit_private(flat, dim, purse)

    def _fit_private(self, flat: Rows, dim: int, purse: Purse) -> None:
        n, width = purse.count(flat), flat.shape[1]
        if width > MOST_COLUMNS:
            raise InputError(
                f"Private PCA needs a matrix of columns by columns, and there are {width}; the most is {MOST_COLUMNS}. Let this "
                "guest learn by 'random', or leave columns out."
            )
        if n > grid.MOST_ROWS:
            raise InputError(
                f"Private PCA adds up at most {grid.MOST_ROWS:,} rows exactly, and there are {n:,}. Let this guest learn by "
                "'random', or from fewer rows."
            )
        longest = 1.0 if self.oriented_ else float(np.sqrt(width))
        total = np.zeros(width, np.int64)
        for block in _blocks(flat):
            total += grid.whole_rows(block, longest).sum(axis=0).astype(np.int64)
        mean = np.clip(purse.release("PCA: mean", total, grid.STEPS) * (longest / grid.STEPS / n), -1, 1)
        distances = np.concatenate([np.linalg.norm(block - mean, axis=1) for block in _blocks(flat)])
        # No row is further from the mean than twice the longest row.
        counts = np.bincount(np.minimum(distances / (2 * longest) * RADII, RADII - 1).astype(int), minlength=RADII)
        inside = np.cumsum(purse.release("PCA: radius", counts, 1)) >= INSIDE * n
        radius = 2 * longest * ((int(inside.argmax()) if inside.any() else RADII - 1) + 1) / RADII
        moments = np.zeros((width, width), np.int64)
        for block in _blocks(flat):
            whole = grid.whole_rows(block - mean, radius)
            moments += (whole.T @ whole).astype(np.int64)
        # A row adds a matrix of norm radius^2; the noisy upper triangle is mirrored.
        upper = np.triu_indices(width)
        noisy = np.zeros((width, width))
        noisy[upper] = purse.release("PCA: second moments", moments[upper], grid.STEPS**2) * (radius / grid.STEPS) ** 2
        noisy = noisy + np.triu(noisy, 1).T
        variances, directions = components(noisy / n, min(dim, width))
        floor = IMAGE_FLOOR if self.oriented_ else FLOOR
        spread = np.sqrt(np.maximum(variances, 0) + floor * max(variances[0], 1e-12))
        self.mean_, self.directions_ = mean, directions / spread[:, None]

    def transform(self, rows: Rows, device: torch.device) -> Rows:
        """Project rows."""
        return apply(self._projection(), self._flat(rows, device), device)

    def network(self) -> nn.Sequential:
        """Return what was learnt as a network."""
        return nn.Sequential(*([Orientations()] if self.oriented_ else []), self._projection())

    def module(self) -> nn.Module:
        """Return what was learnt as a network that takes images, too."""
        return self.network() if self.oriented_ else nn.Sequential(nn.Flatten(), self._projection())

    def _flat(self, rows: Rows, device: torch.device) -> Rows:
        """Return what is projected: rows as they are, or the features of images."""
        return apply(Orientations(), rows, device) if self.oriented_ else rows.reshape(len(rows), prod(rows.shape[1:]))

    def _projection(self) -> nn.Linear:
        if self.directions_ is None or self.mean_ is None:
            raise InputError("This PCA has not learnt yet; call fit first.")
        return projection(self.mean_, self.directions_)

    def state(self) -> Tensors:
        """Return mean and directions."""
        self._projection()
        oriented = np.array(self.oriented_)
        return {"mean": np.asarray(self.mean_), "directions": np.asarray(self.directions_), "oriented": oriented}

    def restore(self, tensors: Tensors) -> None:
        """Take mean and directions back."""
        self.mean_, self.directions_ = tensors["mean"], tensors["directions"]
        self.oriented_ = bool(tensors["oriented"])


def projection(mean: NDArray[Any], directions: NDArray[Any]) -> nn.Linear:
    """Return centring and projecting as one linear layer."""
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced at once
        linear = nn.Linear(directions.shape[1], directions.shape[0], dtype=torch.float64)
    linear.weight.data = torch.from_numpy(np.array(directions))
    linear.bias.data = torch.from_numpy(-directions @ mean)
    return linear
