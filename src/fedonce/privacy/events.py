"""The two things a party does with its rows under a budget, as facts that an accountant can price.

Both add Gaussian noise to a sum over rows to which each row adds a vector of bounded norm. `noise` is the noise's standard
deviation divided by that bound; 0 is no noise and no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gaussian:
    """A noisy sum over all rows, made `times` times."""

    noise: float
    times: int = 1


@dataclass(frozen=True)
class SampledGaussian:
    """`steps` noisy sums, each over rows that were drawn independently with probability `rate` (Poisson sampling)."""

    noise: float
    rate: float
    steps: int


Event = Gaussian | SampledGaussian
