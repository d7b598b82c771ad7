"""PrivUnit: unit vectors told with pure epsilon (Bhowmick, Duchi, Freudiger, Kapoor and Rogers, 2018).

A unit vector u is answered by a unit vector of another direction, drawn evenly from the cap around u (all of the sphere whose
inner product with u is at least `gamma`) with probability `inside`, and evenly from the rest of the sphere otherwise. The density
of an answer has two levels, so the ratio between any two inputs is the ratio of these levels: exactly exp(epsilon). Among all
caps the one with the least error is taken; Asi, Feldman and Talwar (2022) show that it is the best of a large family.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import betainc, betaincinv, betaln

CAPS = 64  # caps that are tried before the best is sought around the best of them
Vectors = NDArray[np.float64]


@dataclass(frozen=True)
class PrivUnit:
    """The mechanism for unit vectors of `dim` coordinates, two or more, with the cap that begins at `gamma`."""

    dim: int
    epsilon: float
    gamma: float

    @cached_property
    def cap(self) -> float:
        """Share of the sphere that is the cap."""
        half = (self.dim - 1) / 2
        return float(betainc(half, half, (1 - self.gamma) / 2))

    @cached_property
    def inside(self) -> float:
        """Probability of an answer from the cap: the level there is exp(epsilon) times that of the rest."""
        return self.cap / (self.cap + math.exp(-self.epsilon) * (1 - self.cap))

    @property
    def levels(self) -> tuple[float, float]:
        """Density of an answer in the cap and in the rest, where 1 is that of an even draw."""
        return self.inside / self.cap, (1 - self.inside) / (1 - self.cap)

    @cached_property
    def length(self) -> float:
        """Length of the mean answer, which points where the input does: answers divided by it are right on average."""
        half = (self.dim - 1) / 2
        # The mean of the inner product over the cap, times the cap's share; over the rest it is the same with a minus.
        moment = math.exp(half * math.log1p(-(self.gamma**2)) - betaln(0.5, half)) / (self.dim - 1)
        high, low = self.levels
        return moment * (high - low)

    @property
    def error(self) -> float:
        """Mean squared distance between a unit vector and its answer divided by `length`."""
        return 1 / self.length**2 - 1

    def answers(self, units: Vectors, uniforms: Vectors, normals: Vectors) -> Vectors:
        """Return an answer per row of unit vectors, by a number from (0, 1) and `dim` standard normal numbers each."""
        half = (self.dim - 1) / 2
        within = uniforms < self.inside
        # Of the even distribution's inner products, by the share of the sphere that lies nearer to the input.
        share = np.where(
            within,
            self.cap * uniforms / self.inside,
            self.cap + (1 - self.cap) * (uniforms - self.inside) / (1 - self.inside),
        )
        along = 1 - 2 * betaincinv(half, half, np.clip(share, 0, 1))
        # The rounding of the inverse must not carry an answer over the cap's edge.
        along = np.where(within, np.maximum(along, self.gamma), np.minimum(along, np.nextafter(self.gamma, -1)))
        across = normals - np.sum(normals * units, axis=1, keepdims=True) * units
        across /= np.linalg.norm(across, axis=1, keepdims=True)
        answers: Vectors = along[:, None] * units + np.sqrt(np.maximum(1 - along**2, 0))[:, None] * across
        return answers


@lru_cache(maxsize=256)
def best(dim: int, epsilon: float) -> PrivUnit:
    """Return the mechanism with the least error for unit vectors of `dim` coordinates."""

    def loss(gamma: float) -> float:
        made = PrivUnit(dim, epsilon, gamma)
        return -made.length if made.cap > 0 else 0.0

    tried = np.linspace(0, 1, CAPS, endpoint=False)
    near = int(np.argmin([loss(gamma) for gamma in tried]))
    low, high = tried[max(near - 1, 0)], tried[near + 1] if near + 1 < CAPS else 1 - 1e-9
    found = float(minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-10}).x)
    return PrivUnit(dim, epsilon, min((found, float(tried[near])), key=loss))
