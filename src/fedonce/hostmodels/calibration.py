"""Probabilities that mean what they say: one temperature for all logits (Guo et al., 2017), found on rows held back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from fedonce.hostmodels.holding import average, chances, standard_error
from fedonce.training.loop import Rows

BINS = 15
COLDEST, HOTTEST = 0.5, 20.0  # few rows that are all right must not make a model certain of everything
Weights = NDArray[np.float64] | None
Logits = Rows | NDArray[np.float64]


def log_losses(logits: Logits, target: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return minus the logarithm of the right class's probability, per row."""
    right = chances(logits)[np.arange(len(target)), target]
    found: NDArray[np.float64] = -np.log(np.maximum(right, 1e-12))
    return found


def temperature(logits: Logits, target: NDArray[np.intp], weight: Weights = None) -> float:
    """Return what to divide logits by so that their log loss is least; 1 where there are no rows."""
    if not len(target):
        return 1.0

    def loss(log_temperature: float) -> float:
        return average(log_losses(logits / np.exp(log_temperature), target), weight)

    found = minimize_scalar(loss, bounds=(np.log(COLDEST), np.log(HOTTEST)), method="bounded")
    return float(np.exp(found.x))


def crossfitted(logits: Logits, target: NDArray[np.intp], weight: Weights = None) -> NDArray[np.float64]:
    """Return the logits of each half of the rows, divided by the temperature of the other half: a fair look at its effect."""
    order = np.random.default_rng(0).permutation(len(target))
    changed = np.array(logits, dtype=np.float64)
    halves = order[::2], order[1::2]
    for learn, apply in (halves, halves[::-1]):
        own = None if weight is None else weight[learn]
        changed[apply] /= temperature(logits[learn], target[learn], own)
    return changed


def helps(logits: Logits, target: NDArray[np.intp], weight: Weights = None) -> bool:
    """Tell whether a temperature lowers the log loss by more than a standard error, on rows that it was not found on."""
    if len(target) < 2 * BINS:
        return False
    gain = log_losses(logits, target) - log_losses(crossfitted(logits, target, weight), target)
    return bool(average(gain, weight) > standard_error(gain, weight))


def calibration_error(probabilities: NDArray[np.float64], target: NDArray[np.intp], weight: Weights = None) -> float:
    """Return the expected calibration error: how far confidence and accuracy are apart, in 15 bins of confidence."""
    sure, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == target
    weights = np.ones(len(target)) if weight is None or not weight.any() else weight
    of = np.minimum((sure * BINS).astype(np.intp), BINS - 1)
    apart = np.bincount(of, weights * (right - sure), BINS)
    return float(np.abs(apart).sum() / max(weights.sum(), 1e-12))
