"""Patch k-means features for images (Coates, Ng and Lee, 2011): no gradients, and good at few bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from fedonce.errors import InputError
from fedonce.learners.base import Learner, Tensors
from fedonce.learners.names import Facts
from fedonce.learners.pca import principal, projection, second_moments
from fedonce.training.loop import Rows, apply
from fedonce.training.settings import Epoch
from fedonce.training.threads import product_work, threads_for

CONTRAST = 0.1  # added to a patch's variance before it is divided by, so that flat patches stay flat
PATCHES_AT_ONCE = 2**14
WHITENING = 0.1  # added to the variances before whitening, so that rare directions are not blown up


@dataclass(eq=False)
class Patches(Learner):
    """Describe an image by how near its patches are to typical patches, pooled over regions, then PCA.

    Parameters
    ----------
    size : int
        Side of a patch in pixels; smaller where the image is.
    centroids : int
        Number of typical patches (k-means on whitened patches).
    grid : int
        Features are averaged over grid x grid regions of the image.
    sample : int
        Number of patches k-means looks at.
    """

    name: ClassVar[str] = "patches"
    facts: ClassVar[Facts] = Facts(trains=False, exports=True, images_only=True)
    size: int = 5
    centroids: int = 400
    grid: int = 2
    sample: int = 100_000
    network_: nn.Module | None = field(default=None, init=False, repr=False)

    def fit(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device) -> list[Epoch]:
        """Find typical patches, then the directions in which the pooled features of the rows differ most."""
        if rows.ndim != 4:
            raise InputError(
                "The 'patches' learner needs images: say which columns are pixels with fedonce.Pixels or fedonce.tiles."
            )
        size = min(self.size, *rows.shape[2:])
        patches = _sample_patches(rows, size, self.sample, rng)
        with threads_for(product_work(len(patches), patches.shape[1], self.centroids)):
            features = self._typical_patches(patches, size, rng)
        mean, _, directions, _ = principal(apply(features, rows, device), dim)
        self.network_ = nn.Sequential(features, projection(mean, directions))
        return []

    def _typical_patches(self, patches: Rows, size: int, rng: np.random.Generator) -> _PatchFeatures:
        """Whiten patches, and cluster them."""
        from sklearn.cluster import MiniBatchKMeans  # for images alone, and slow to import

        mean, covariance = second_moments(patches)
        variances, vectors = np.linalg.eigh(covariance)
        whiten = vectors / np.sqrt(variances + WHITENING) @ vectors.T
        white = ((patches - mean) @ whiten).astype(np.float32)
        k = min(self.centroids, len(np.unique(white, axis=0)))
        seed = int(rng.integers(2**31))
        means = MiniBatchKMeans(k, n_init=1, batch_size=4096, max_iter=20, random_state=seed).fit(white)
        return _PatchFeatures(size, self.grid, mean, whiten, means.cluster_centers_)

    def transform(self, rows: Rows, device: torch.device) -> Rows:
        """Return the projected features of images."""
        return apply(self._fitted(), rows, device)

    def module(self) -> nn.Module:
        """Return features and projection as a network."""
        features, linear = self._fitted().children()
        assert isinstance(features, _PatchFeatures)
        return nn.Sequential(_AtOnce(features), linear)

    def _fitted(self) -> nn.Module:
        if self.network_ is None:
            raise InputError("This Patches has not learnt yet; call fit first.")
        return self.network_

    def state(self) -> Tensors:
        """Return patch size, whitening, centroids and projection."""
        weights = {name: value.numpy() for name, value in self._fitted().state_dict().items()}
        return {"size": np.array(self._fitted()[0].size), "grid": np.array(self.grid), **weights}  # type: ignore[index]

    def restore(self, tensors: Tensors) -> None:
        """Take them back."""
        features = _PatchFeatures(
            int(tensors["size"]),
            int(tensors["grid"]),
            tensors["0.mean"],
            tensors["0.whiten"],
            tensors["0.centres"],
        )
        self.grid = int(tensors["grid"])
        linear = projection(np.zeros(tensors["1.weight"].shape[1]), tensors["1.weight"])
        linear.bias.data = torch.from_numpy(tensors["1.bias"])
        self.network_ = nn.Sequential(features, linear)


class _PatchFeatures(nn.Module):
    """Triangle activation of every patch, averaged over regions."""

    def __init__(self, size: int, grid: int, mean: NDArray[Any], whiten: NDArray[Any], centres: NDArray[Any]) -> None:
        super().__init__()
        self.size, self.grid = size, grid
        self.mean: Tensor
        self.whiten: Tensor
        self.centres: Tensor
        for name, value in (("mean", mean), ("whiten", whiten), ("centres", centres)):
            self.register_buffer(name, torch.from_numpy(np.array(value, dtype=np.float64)))

    def forward(self, images: Tensor) -> Tensor:
        """Describe images, a few at a time: as many as bound the memory, by their size alone."""
        positions = (images.shape[2] - self.size + 1) * (images.shape[3] - self.size + 1)
        return torch.cat([self.describe(part) for part in torch.split(images, max(1, PATCHES_AT_ONCE // positions))])

    def describe(self, images: Tensor) -> Tensor:
        """Describe images, all at once."""
        columns = _normalise(F.unfold(images, self.size).transpose(1, 2))
        distances = torch.cdist((columns - self.mean) @ self.whiten, self.centres)
        triangle = F.relu(distances.mean(dim=2, keepdim=True) - distances)
        height, width = (side - self.size + 1 for side in images.shape[2:])
        maps = triangle.transpose(1, 2).reshape(images.shape[0], -1, height, width)
        return F.adaptive_avg_pool2d(maps, (min(self.grid, height), min(self.grid, width))).flatten(1)


class _AtOnce(nn.Module):
    """The features of all images at once: how many parts they are split into cannot be written into a file."""

    def __init__(self, features: _PatchFeatures) -> None:
        super().__init__()
        self.features = features

    def forward(self, images: Tensor) -> Tensor:
        """Describe images."""
        return self.features.describe(images)


def _normalise(patches: Tensor) -> Tensor:
    """Give each patch mean 0 and a contrast of about 1."""
    centred = patches - patches.mean(dim=-1, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(dim=-1, keepdim=True) + CONTRAST)


def _sample_patches(rows: Rows, size: int, n_patches: int, rng: np.random.Generator) -> Rows:
    """Cut patches at random places of random images."""
    image = rng.integers(len(rows), size=n_patches)
    top, left = (rng.integers(side - size + 1, size=n_patches) for side in rows.shape[2:])
    window = np.arange(size)
    cut = rows[image[:, None, None], :, (top[:, None] + window)[:, :, None], (left[:, None] + window)[:, None, :]]
    patches = torch.from_numpy(cut.transpose(0, 3, 1, 2).reshape(n_patches, -1))
    normalised: Rows = _normalise(patches).numpy()
    return normalised
