"""Randomised response: a label disclosed so that its owner can deny it (Warner, 1965; k classes: Kairouz and others, 2016).

The answer is the true class with probability e^epsilon / (e^epsilon + k - 1), each other with 1 / (e^epsilon + k - 1): whatever
two classes a row might have, any answer is at most e^epsilon times as probable for one as for the other. It is subset selection
(`fedonce.privacy.subset`) by sets of one class.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedonce.messages.hints import keep_of


def answers(labels: NDArray[np.intp], classes: int, epsilon: float, uniforms: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the answer of each row, by two numbers from (0, 1) each: whether it is the true class, and which else."""
    told_truly = uniforms[:, 0] < keep_of(classes, epsilon)
    # One of the classes - 1 others, each as probable: so many places further on, around the circle of classes.
    further = 1 + np.floor(uniforms[:, 1] * (classes - 1)).astype(np.intp)
    return np.where(told_truly, labels, (labels + further) % classes)


def matrix(classes: int, epsilon: float) -> NDArray[np.float64]:
    """Return the probability of each answer (columns) for each class (rows)."""
    keep = keep_of(classes, epsilon)
    told = np.full((classes, classes), (1 - keep) / (classes - 1))
    np.fill_diagonal(told, keep)
    return told
