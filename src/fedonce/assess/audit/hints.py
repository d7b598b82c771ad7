"""The label epsilon of hints, measured: how often labels drawn by coin can be told bounds it from below."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

Ints = NDArray[np.intp]
Guess = Callable[
    [Ints], Ints
]  # from labels, which are hinted at, to what somebody with the hints makes of each; -1: not asked

# Randomised response tells exactly what its epsilon allows: with 95 % confidence it would be called a fault once in twenty.
CONFIDENCE = 0.9999


@dataclass(frozen=True)
class ToldLabels:
    """What labels drawn by coin showed: epsilon is at least `bound`, with 99.99 % confidence.

    Attributes
    ----------
    what : str
        From what they were guessed.
    claimed : float
        The label epsilon that is claimed.
    classes, rows, correct : int
        How many classes there are, how many labels were guessed, and how many of them rightly.
    bound : float
        What epsilon is at least.
    """

    what: str
    claimed: float
    classes: int
    rows: int
    correct: int
    bound: float

    @property
    def passed(self) -> bool:
        """Whether the bound does not contradict the claim."""
        return self.bound <= self.claimed

    @property
    def most(self) -> float:
        """The share of labels that may be told, on average, if the claim holds."""
        return 1 / (1 + (self.classes - 1) * math.exp(-self.claimed))


def told_labels(
    what: str, guess: Guess, claimed: float, classes: int = 10, rows: int = 20_000, seed: int = 0, answers: bool = False
) -> ToldLabels:
    """Draw labels, each class as probable, let them be guessed by whoever has the hints, and bound epsilon from below.

    Whatever is made of hints, a label is guessed with probability e^epsilon / (e^epsilon + classes - 1) at most, given all other
    labels: so many or fewer are right than a binomial has.

    Parameters
    ----------
    what : str
        From what labels are guessed.
    guess : callable
        From labels, which are hinted at, to what somebody with the hints makes of each; -1: not asked.
    claimed : float
        The label epsilon that is claimed.
    classes, rows, seed : int
        How many labels of how many classes are drawn, and by which seed.
    answers : bool
        Whether guesses are the answers themselves, one per row and apart from those of other rows: then no answer may be more
        than e^epsilon times as frequent for one class as for another, either, which finds noise too small for some classes.
    """
    labels = np.random.default_rng(seed).integers(0, classes, rows)
    guesses = guess(labels)
    asked = guesses >= 0
    labels, guesses = labels[asked], guesses[asked]
    correct, wrong = int((labels == guesses).sum()), 1 - CONFIDENCE
    share = _low(np.array(correct), np.array(len(labels)), wrong / 2 if answers else wrong)
    bound = float(np.log(np.maximum(share, 1e-300) * (classes - 1) / np.maximum(1 - share, 1e-300)))
    if answers:
        bound = max(bound, _by_pairs(labels, guesses, classes, wrong / 2))
    return ToldLabels(what, claimed, classes, len(labels), correct, max(0.0, bound))


def _by_pairs(labels: Ints, answers: Ints, classes: int, wrong: float) -> float:
    """Return the most that any answer is surely more frequent for one class than for another, as a logarithm."""
    counts = np.zeros((classes, classes))
    np.add.at(counts, (labels, answers), 1)
    each = wrong / (2 * classes**2)  # of all limits together no more than `wrong` are wrong
    totals = counts.sum(axis=1, keepdims=True)
    low, high = _low(counts, totals, each), 1 - _low(totals - counts, totals, each)
    return float(np.log(np.maximum(low.max(axis=0), 1e-300) / np.maximum(high.min(axis=0), 1e-300)).max())


def _low(counts: NDArray[np.generic], totals: NDArray[np.generic], wrong: float) -> NDArray[np.float64]:
    """Return the lower limit of a share by Clopper and Pearson; it is above the share with probability `wrong` at most."""
    found = np.asarray(counts, np.float64)
    rest = np.asarray(totals, np.float64) - found
    return np.asarray(np.where(found > 0, beta.ppf(wrong, np.maximum(found, 1), rest + 1), 0.0))
