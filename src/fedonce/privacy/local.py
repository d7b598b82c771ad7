"""Noise on representations: what the host receives of a row is blurred before it leaves the guest."""

from __future__ import annotations

import hmac
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedonce.privacy import keyed

BLOCK = 2**15  # rows whose noise is made at a time
INSIDE = 0.95  # share of the training rows that lie within the unit ball before clipping


@dataclass
class LocalNoise:
    """Bring values to the unit ball, clip each row to it, and add Gaussian noise of one scale to every value.

    Centre and radius are taken from the guest's training rows and then frozen, so that learners whose values are large
    and learners whose values are small lose alike.

    Without a key the noise is new in every message, from a generator that the operating system seeds: whoever receives the same
    row many times can average it away. With a key, a secret of the guest, each row that has a name gets noise that depends on the
    key, the model, the name and the row's content, and on nothing else. So:

    - The same model gives the same row the same noise, however often and however it is asked: there is nothing to average.
    - Another model, scale, centre or radius gives independent noise. The same noise on other values would be worse than new
      noise: the difference of two messages would be free of it.
    - Half of the noise's variance belongs to the row's name alone, half to its content too. Where a row changes from one message
      to the next, the difference is blurred (by the second half), and what stays the same cannot be averaged over the changes
      (the first half stays). Together they are noise of `scale`.

    Parameters
    ----------
    scale : float
        sigma_r of the paper: the standard deviation of the noise on each value.
    key : bytes, optional
        The guest's secret. It is not kept with the model.
    """

    scale: float
    centre: NDArray[np.float32] | None = None
    radius: float = 1.0
    key: bytes | None = field(default=None, repr=False)

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

    def blur(
        self, values: NDArray[np.float32], names: Sequence[bytes] | None = None, contents: Sequence[bytes] = ()
    ) -> NDArray[np.float32]:
        """Clip, and add noise; with a key, that of each row's name (the model's is part of it) and content."""
        clipped = self.clip(values)
        if self.key is None or names is None:
            return (clipped + np.random.default_rng().normal(scale=self.scale, size=values.shape)).astype(np.float32)
        key = self._own_key(self.key)
        for start in range(0, len(values), BLOCK):
            part = slice(start, start + BLOCK)
            clipped[part] += self.scale * _fixed(key, names[part], contents[part], values.shape[1])
        return clipped

    def _own_key(self, key: bytes) -> bytes:
        """Return a key for this scale, centre and radius: another one for others."""
        assert self.centre is not None
        about = f"fedonce noise of a guest\n{self.scale!r} {self.radius!r} ".encode() + self.centre.tobytes()
        return hmac.digest(key, about, "sha256")


def _fixed(key: bytes, names: Sequence[bytes], contents: Sequence[bytes], dim: int) -> NDArray[np.float64]:
    """Return standard normal numbers: half of their variance is of the row's name, half of its name and content."""
    rows = [name.decode("utf-8", "surrogatepass") for name in names]
    of_row = keyed.normals(key, "row", rows, [b""] * len(rows), dim)
    return (of_row + keyed.normals(key, "row and content", rows, contents, dim)) / math.sqrt(2)
