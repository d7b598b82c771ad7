"""The things a party does with its rows, as facts that an accountant can price.

Two of them are done under a budget: both add Gaussian noise to a sum over rows to which each row adds a vector of bounded norm.
`noise` is the noise's standard deviation divided by that bound; 0 is no noise and no privacy.
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


@dataclass(frozen=True)
class Local:
    """Each row told by an answer of pure epsilon, whatever the row is; no budget: the row itself is what is told."""

    epsilon: float


Noisy = Gaussian | SampledGaussian  # under a budget
Event = Noisy | Local
