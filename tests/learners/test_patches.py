from __future__ import annotations

import numpy as np
import pytest
import torch

from fedonce import InputError
from fedonce.learners import Patches

CPU = torch.device("cpu")


def bars(n, seed):
    """Images of a horizontal or a vertical bar at a random place."""
    rng = np.random.default_rng(seed)
    images, upright = 0.1 * rng.standard_normal((n, 1, 12, 12)), rng.random(n) < 0.5
    for image, vertical in zip(images, upright, strict=True):
        at = rng.integers(2, 10)
        image[0, :, at] += 2 * vertical
        image[0, at, :] += 2 * (not vertical)
    return images.astype(np.float32), upright


def test_features_tell_horizontal_from_vertical_wherever_it_is(rng):
    images, upright = bars(400, 0)
    patches = Patches(centroids=30, sample=5000)
    patches.fit(images, 4, rng, CPU)
    values = np.column_stack([patches.transform(images, CPU), np.ones(400)])
    weights = np.linalg.lstsq(values[:200], 2.0 * upright[:200] - 1, rcond=None)[0]
    assert ((values[200:] @ weights > 0) == upright[200:]).mean() > 0.95


def test_tables_are_refused(rng):
    with pytest.raises(InputError, match="needs images"):
        Patches().fit(np.zeros((10, 4), np.float32), 2, rng, CPU)


def test_images_smaller_than_a_patch_and_fewer_patches_than_centroids(rng):
    images = np.zeros((6, 1, 3, 3), np.float32)
    images[3:] = 1
    patches = Patches(sample=50)
    patches.fit(images, 4, rng, CPU)
    assert np.isfinite(patches.transform(images, CPU)).all()
