"""Sums in whole numbers, so that the bits of a noisy number tell nothing that was not priced.

A float that is a sum plus noise shows in its last digits which sums can have made it (Mironov, 2012). So every released sum is a
whole number of public steps, exactly, and so is its noise, which can be any whole number:

1. Each row is clipped to a public norm and cut, toward zero, to multiples of norm / STEPS (`whole_rows`). The squared length of
   the result is a whole number, which is computed without rounding and compared with STEPS squared: the sensitivity is proven.
2. Rows, or the products of two of their numbers, are added in blocks of at most ROWS_AT_ONCE. No partial sum exceeds 2^52, up to
   which float64 has every whole number, so that sums and matrix products are exact in any order. Blocks are added in int64, which
   MOST_ROWS rows cannot overflow, noise included.
3. The noise is the discrete Gaussian (Canonne, Kamath and Steinke, 2020), on a grid so fine that its deviation is at least
   2^36 x the event's noise (`parts`).

The price is that of the Gaussian. For Rényi divergences that is exact: those of the discrete Gaussian are at most the Gaussian's
(their Theorem 14, for vectors). For privacy loss distributions: a Gaussian whose value is rounded to whole numbers costs what the
Gaussian costs. With s the deviation in steps, the probability that it gives a number k, over that of the discrete Gaussian, is
the integral of cosh(kt / s^2) exp(-t^2 / 2s^2) over t from -1/2 to 1/2 (times 1 + 2 exp(-2 pi^2 s^2) at most), which lies between
exp(-1 / 8s^2) and exp(k^2 / 8s^4). Up to 40 deviations the two differ by a factor of exp(200 / s^2) at most, and beyond is less
than 1e-340. So a release of m numbers costs at most 400 m / s^2 more epsilon: 1e-17 for the second moments of 50 columns with
noise 1, and 2e-9 at the very most (8,192 columns with the least noise that a plan may have).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

STEPS = 2**18  # to the norm of a row
ROWS_AT_ONCE = 2**16  # products up to 2^36 each, 2^52 together
MOST_ROWS = 2**25  # sums up to 2^61, in parts of a step
FINEST = 36  # the noise has 2^36 parts to one sensitivity


def whole_rows(rows: NDArray[np.float64], norm: float) -> NDArray[np.float64]:
    """Return rows clipped to a norm, as whole numbers of norm / STEPS; none is longer than STEPS, whatever rounding did."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    whole: NDArray[np.float64] = np.trunc(rows * (STEPS / np.maximum(lengths, norm)))
    too_long = ~(np.einsum("ij,ij->i", whole, whole) <= STEPS**2)  # and what is not a number
    whole[too_long] = 0
    return whole


def parts(sensitivity: int) -> int:
    """Return into how many parts one step is divided, for noise on a sum in whole steps: a power of two."""
    return int(2 ** max(0, FINEST + 1 - sensitivity.bit_length()))
