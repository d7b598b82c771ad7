"""Noise on representations: Gaussian noise on every value that leaves a guest, with no epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.privacy import keyed

BLOCK = 2**15  # rows whose noise is made at a time
INSIDE = 0.95  # share of the training rows that lie within the unit ball before clipping
FINE, COARSE = 32, 8  # steps of the grid per scale of the noise: of what is sent, and of what the noise is drawn for

Values = NDArray[np.float32]


@dataclass
class LocalNoise:
    """Bring values to the unit ball, clip each row to it, and add Gaussian noise of one scale to every value.

    Centre and radius are taken from the guest's training rows and then frozen, so that learners whose values are large and
    learners whose values are small lose equally. Values are rounded to a grid of an eighth of the noise's scale before noise
    is drawn for them, and what is sent lies on a grid of a thirty-second, so that its last digits disclose nothing.

    With a key, a secret of the guest, the noise of a row that has an id follows from the key, the model, the id and the
    rounded values, and from nothing else (`fedonce.privacy.keyed`). As long as these stay, there is nothing to average. Half
    of the variance follows from the id alone: where the values change, the difference is blurred by the other half, and an
    average over many changes keeps the first half. Without a key or ids the noise is new in every message, and anyone who
    receives the same row many times can average it away. No epsilon is claimed.

    Parameters
    ----------
    scale : float
        sigma_r of the paper: the standard deviation of the noise on each value.
    key : bytes, optional
        The guest's secret. It is not kept with the model.
    """

    scale: float
    centre: Values | None = None
    radius: float = 1.0
    key: bytes | None = field(default=None, repr=False)

    def fit(self, values: Values) -> None:
        """Choose centre and radius so that most rows lie within the ball."""
        self.centre = values.mean(axis=0, dtype=np.float64).astype(np.float32)
        radius = float(np.quantile(np.linalg.norm(values - self.centre, axis=1), INSIDE))
        self.radius = radius if radius > 0 else 1.0

    def clip(self, values: Values) -> Values:
        """Return rows of norm 1 at most."""
        assert self.centre is not None
        inside = (values - self.centre) / np.float32(self.radius)
        norms = np.linalg.norm(inside, axis=1, keepdims=True)
        clipped: Values = inside / np.maximum(norms, 1.0)
        return clipped

    def noisy(self, values: Values, rows: Sequence[str] | None, encoder: str) -> Values:
        """Clip, and add noise; with a key and ids, always the same to the same values of a row.

        Parameters
        ----------
        values : array
            Of the learner, a row each.
        rows : sequence of str, optional
            The rows' ids; None: they have none.
        encoder : str
            Digest of how columns become values.
        """
        assert self.centre is not None
        steps = np.rint(self.clip(values) * (COARSE / self.scale)) + 0.0  # no minus zeros
        about = f"noise\n{self.scale!r} {self.radius!r} {self.centre.tobytes().hex()} {encoder}"
        fine = np.empty(values.shape, np.float64)
        for start in range(0, len(values), BLOCK):
            part = slice(start, start + BLOCK)
            if self.key is None or rows is None:
                noise = np.random.default_rng().normal(size=steps[part].shape)
            else:
                noise = self._fixed(self.key, about, rows[part], steps[part])
            fine[part] = steps[part] * (FINE / COARSE) + np.rint(FINE * noise)
        sent: Values = (fine * (self.scale / FINE)).astype(np.float32)
        return sent

    @staticmethod
    def _fixed(key: bytes, about: str, rows: Sequence[str], steps: NDArray[Any]) -> NDArray[np.float64]:
        """Return standard normal numbers: half of their variance follows from the id alone, half from the values too."""
        of_row = keyed.normals(key, f"{about}\nrow", rows, [b""] * len(rows), steps.shape[1])
        of_both = keyed.normals(key, about, rows, [row.tobytes() for row in steps], steps.shape[1])
        return np.asarray((of_row + of_both) / np.sqrt(2))
