"""Noise on representations: what the host receives of a row is blurred before it leaves the guest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

INSIDE = 0.95  # share of the training rows that lie within the unit ball before clipping


@dataclass
class LocalNoise:
    """Bring values to the unit ball, clip each row to it, and add Gaussian noise of one scale to every value.

    Centre and radius are taken from the guest's training rows and then frozen, so that learners whose values are large
    and learners whose values are small lose alike. The noise's generator is seeded by the operating system, anew for every
    message: whoever receives the same row many times can average it away.

    Parameters
    ----------
    scale : float
        sigma_r of the paper: the standard deviation of the noise on each value.
    """

    scale: float
    centre: NDArray[np.float32] | None = None
    radius: float = 1.0

    def fit(self, values: NDArray[np.float32]) -> None:
        """Choose centre and radius so that most rows lie within the ball."""
        self.centre = values.mean(axis=0, dtype=np.float64).astype(np.float32)
        radius = float(np.quantile(np.linalg.norm(values - self.centre, axis=1), INSIDE))
        self.radius = radius if radius > 0 else 1.0

    def clip(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return rows of norm 1 at most."""
        assert self.centre is not None
        inside = (values - self.centre) / np.float32(self.radius)
        norms = np.linalg.norm(inside, axis=1, keepdims=True)
        clipped: NDArray[np.float32] = inside / np.maximum(norms, 1.0)
        return clipped

    def blur(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Clip, and add noise."""
        noise = np.random.default_rng().normal(scale=self.scale, size=values.shape)
        blurred: NDArray[np.float32] = (self.clip(values) + noise).astype(np.float32)
        return blurred
