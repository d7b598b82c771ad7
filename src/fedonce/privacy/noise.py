"""Where a guarantee's randomness comes from: the operating system, and nowhere else.

Noise that somebody can guess protects nobody, so neither the noise nor the choice of rows comes from `random_state`.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

POOL = 2**16  # bytes asked for at a time


class SecretRandom:
    """Uniform and normal numbers, and Poisson samples of rows, from the operating system's generator.

    Parameters
    ----------
    insecure_test_seed : int, optional
        Take the bytes from a seeded generator instead, so that tests repeat. Whoever knows the seed can take the noise away.
    """

    def __init__(self, insecure_test_seed: int | None = None) -> None:
        self.insecure = insecure_test_seed is not None
        seeded = np.random.default_rng(insecure_test_seed)
        self._bytes: Callable[[int], bytes] = seeded.bytes if self.insecure else secrets.token_bytes
        self._pool = np.empty(0)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was drawn and not used: noise to come is nobody's business."""
        return {**vars(self), "_pool": np.empty(0)}

    def seed(self) -> int:
        """Return a secret seed for a generator of somebody else's, such as torch's for dropout."""
        return int.from_bytes(self._bytes(7), "little")

    def uniforms(self, count: int) -> NDArray[np.float64]:
        """Return numbers evenly spread over the open interval (0, 1), with 52 random bits each; each is used once."""
        if count > len(self._pool):
            self._pool = uniforms_from(self._bytes(max(POOL, 8 * count)))
        taken, self._pool = self._pool[:count], self._pool[count:]
        return taken

    def normals(self, count: int, dtype: Any = np.float64) -> NDArray[Any]:
        """Return standard normal numbers, by Box and Muller's method.

        The length of a pair has 52 random bits also where float32 are asked for: the tails then reach 8.5 deviations, beyond
        which a normal number falls once in 10^17. Its direction has 32.
        """
        half = (count + 1) // 2
        radius: NDArray[Any] = np.sqrt(-2 * np.log(self.uniforms(half)))
        if dtype == np.float32:
            radius = radius.astype(np.float32)
            angle: NDArray[Any] = np.frombuffer(self._bytes(4 * half), dtype=np.uint32).astype(np.float32)
            angle *= np.float32(2 * math.pi * 2.0**-32)
        else:
            angle = (2 * math.pi) * self.uniforms(half)
        normals = np.concatenate([np.cos(angle), np.sin(angle)])
        normals[:half] *= radius
        normals[half:] *= radius
        return normals[:count]

    def poisson_sample(self, n_rows: int, rate: float) -> NDArray[np.intp]:
        """Choose each row independently with probability `rate`; return their positions.

        The gaps between chosen rows are geometric, so only as many numbers are drawn as rows are chosen.
        """
        if rate >= 1:
            return np.arange(n_rows)
        chosen: list[NDArray[np.float64]] = []
        last, expected = -1.0, n_rows * rate
        while last < n_rows:
            draws = self.uniforms(int(expected + 4 * math.sqrt(expected)) + 8)
            gaps = np.floor(np.log(draws) / math.log1p(-rate)) + 1
            chosen.append(last + np.cumsum(gaps))
            last = float(chosen[-1][-1])
        positions = np.concatenate(chosen)
        return positions[positions < n_rows].astype(np.intp)


def normals_from(uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return as many standard normal numbers as there are numbers from (0, 1) in a row, an even number, by Box and Muller."""
    half = uniforms.shape[1] // 2
    radius, angle = np.sqrt(-2 * np.log(uniforms[:, :half])), (2 * math.pi) * uniforms[:, half : 2 * half]
    return np.hstack([radius * np.cos(angle), radius * np.sin(angle)])


def uniforms_from(raw: bytes) -> NDArray[np.float64]:
    """Turn random bytes into numbers evenly spread over the open interval (0, 1), eight bytes each."""
    return ((np.frombuffer(raw, dtype="<u8") >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
