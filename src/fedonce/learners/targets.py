"""NAT's noise targets: draw them on the unit sphere, and assign them to outputs (Bojanowski and Joulin, 2017)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment


def draw_targets(n: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw n random targets C on the unit sphere in d dimensions."""
    targets = rng.standard_normal((n, d))
    return np.asarray(targets / np.linalg.norm(targets, axis=1, keepdims=True))


def assign(outputs: NDArray[Any], targets: NDArray[Any]) -> NDArray[np.intp]:
    """Find the permutation P of the batch's targets that is nearest to its outputs, exactly.

    Minimising the squared distance is maximising the inner product, as norms do not depend on P. Centring the outputs
    adds a constant to each column of the cost, which changes no optimum but how long the solver searches: early in
    training all outputs lie close together, and without their common part the same solver is several times faster.

    >>> assign(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.1, 0.9], [0.8, 0.2]])).tolist()
    [1, 0]
    """
    cost = (outputs - outputs.mean(axis=0)) @ -targets.T
    columns: NDArray[np.intp] = linear_sum_assignment(cost)[1]
    return columns
