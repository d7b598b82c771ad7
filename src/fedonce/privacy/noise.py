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

from fedonce.errors import MissingPackageError

POOL = 2**16  # bytes asked for at a time
AT_ONCE = 2**16  # numbers of OpenDP's, which are Python's own until they are in an array
FEW_BITS = 2.0**-10  # a number from (0, 1) below it has fewer than 42 random bits


class SecretRandom:
    """Uniform and normal numbers, discrete Gaussians, and Poisson samples of rows, from the operating system's generator.

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

    def normals(self, count: int) -> NDArray[np.float64]:
        """Return standard normal numbers, by Box and Muller's method.

        Small numbers, from which long pairs come, get further bits, so that rounded noise has no gaps; tails reach 12 deviations.
        """
        half = (count + 1) // 2
        drawn = self.uniforms(half)
        small = np.flatnonzero(drawn < FEW_BITS)
        drawn[small] = (np.floor(drawn[small] * 2.0**52) + self.uniforms(len(small))) * 2.0**-52
        radius: NDArray[np.float64] = np.sqrt(-2 * np.log(drawn))
        angle = (2 * math.pi) * self.uniforms(half)
        return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]

    def whole_normals(self, count: int, scale: float) -> NDArray[np.int64]:
        """Return whole numbers from the discrete Gaussian of this scale, exactly: OpenDP draws them by rational arithmetic.

        OpenDP takes its bits from OpenSSL, which the operating system seeds, and cannot be given a seed: with one, for tests,
        normal numbers are rounded.
        """
        if self.insecure:
            return np.rint(self.normals(count) * scale).astype(np.int64)
        draw = _discrete_gaussian(scale)
        drawn = [draw([0] * min(AT_ONCE, count - start)) for start in range(0, count, AT_ONCE)]
        return np.concatenate([np.asarray(each, np.int64) for each in drawn]) if drawn else np.empty(0, np.int64)

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


def _discrete_gaussian(scale: float) -> Callable[[list[int]], list[int]]:
    """Return what adds noise from the discrete Gaussian to whole numbers."""
    try:
        from opendp.domains import atom_domain, vector_domain
        from opendp.measurements import make_gaussian
        from opendp.metrics import l2_distance
        from opendp.mod import enable_features
    except ImportError as error:
        raise MissingPackageError(
            f"A privacy budget needs {error.name}, which is not installed. Try: pip install 'fedonce[privacy]'"
        ) from None
    enable_features("contrib")  # the name under which OpenDP keeps all its measurements
    made: Callable[[list[int]], list[int]] = make_gaussian(
        vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale
    )
    return made


def normals_from(uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return as many standard normal numbers as there are numbers from (0, 1) in a row, an even number, by Box and Muller."""
    half = uniforms.shape[1] // 2
    radius, angle = np.sqrt(-2 * np.log(uniforms[:, :half])), (2 * math.pi) * uniforms[:, half : 2 * half]
    return np.hstack([radius * np.cos(angle), radius * np.sin(angle)])


def uniforms_from(raw: bytes) -> NDArray[np.float64]:
    """Turn random bytes into numbers evenly spread over the open interval (0, 1), eight bytes each."""
    return ((np.frombuffer(raw, dtype="<u8") >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
