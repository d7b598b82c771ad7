"""Who was in the training rows of a released model? By the loss, by the likelihood ratio, and by RMIA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

MARGIN = 1.0  # RMIA's: by how much a row must be raised more than another to count


@dataclass(frozen=True)
class Membership:
    """How well members of the training rows are told from others: a curve for each attack, and figures of it.

    Attributes
    ----------
    model : str
        Which model was attacked.
    epsilon : float or None
        Its budget.
    accuracy : float
        Of the models, on rows that they did not have.
    curves : dict
        By attack: false and true positive rates.
    """

    model: str
    epsilon: float | None
    accuracy: float
    curves: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]  # attack: false and true positive rates

    def area(self, attack: str) -> float:
        """Return the area under the curve; 0.5 is guessing."""
        false, true = self.curves[attack]
        return float(np.trapezoid(true, false))

    def caught(self, attack: str, false_rate: float = 0.01) -> float:
        """Return the share of members that is found when so many others are taken for members."""
        false, true = self.curves[attack]
        return float(true[false <= false_rate].max(initial=0.0))


# Trained on these rows: each row's probability of its true class.
Model = Callable[[NDArray[np.intp]], NDArray[np.float64]]


def membership(
    name: str, train: Model, n_rows: int, epsilon: float | None = None, models: int = 16, seed: int = 0
) -> Membership:
    """Attack `models` models, each trained on a random half of the rows; each serves the attacks on the others.

    "loss": a row is taken for a member where the model gives its true class a high probability. "likelihood ratio": where that
    probability is more like that of models which had the row than of those which had not (normal distributions of the log
    odds, one spread for all rows, as there are few models). "RMIA": where the model has raised it, above what models give on
    average, by more than it has raised that of most other rows (Zarifzadeh, Liu and Shokri, 2024): strong with few models.

    Parameters
    ----------
    name : str
        The model's name in the result.
    train : callable
        Takes positions of rows; returns the trained model's probability of each row's true class.
    n_rows : int
        How many rows there are.
    epsilon : float, optional
        The models' budget, for the result.
    models : int
        How many are trained.
    seed : int
        Of which rows each has.
    """
    rng = np.random.default_rng(seed)
    # Each row is in exactly half of the models, so that there are some with and some without it.
    members = np.argsort(rng.random((models, n_rows)), axis=0) < models // 2
    chances = np.array([train(np.flatnonzero(chosen)) for chosen in members])
    odds = np.log(np.clip(chances, 1e-6, 1 - 1e-6)) - np.log1p(-np.clip(chances, 1e-6, 1 - 1e-6))
    ratios = np.zeros_like(odds)
    for target in range(models):
        others = np.arange(models) != target
        inside, rest = members[others], odds[others]
        means = [np.where(mask, rest, 0).sum(axis=0) / np.maximum(mask.sum(axis=0), 1) for mask in (inside, ~inside)]
        errors = np.where(inside, rest - means[0], rest - means[1])
        spread = max(float(errors.std()), 1e-6)
        ratios[target] = norm.logpdf(odds[target], means[0], spread) - norm.logpdf(odds[target], means[1], spread)
    curves = {
        "loss": _curve(odds, members),
        "likelihood ratio": _curve(ratios, members),
        "RMIA": _curve(_relative(chances, members), members),
    }
    return Membership(name, epsilon, float((chances[~members] > 0.5).mean()), curves)


def _relative(chances: NDArray[np.float64], members: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return for each model and row the share of other rows that the model has raised less, by a margin."""
    scores = np.zeros_like(chances)
    for target in range(len(chances)):
        others = np.arange(len(chances)) != target
        inside, rest = members[others], np.clip(chances[others], 1e-6, 1.0)
        means = [np.where(mask, rest, 0).sum(axis=0) / np.maximum(mask.sum(axis=0), 1) for mask in (inside, ~inside)]
        raised = np.clip(chances[target], 1e-6, 1.0) / np.maximum((means[0] + means[1]) / 2, 1e-6)
        order = np.sort(raised)
        scores[target] = np.searchsorted(order, raised / MARGIN, side="right") / len(order)
        scores[target] += (
            1e-6 * raised / max(float(raised.max()), 1e-6)
        )  # rows that beat as many: the more raised first
    return scores


def _curve(scores: NDArray[np.float64], members: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return false and true positive rates for every threshold, over all models and rows."""
    order = np.argsort(-scores, axis=None)
    inside = members.ravel()[order]
    true = np.concatenate([[0.0], np.cumsum(inside) / max(1, inside.sum())])
    false = np.concatenate([[0.0], np.cumsum(~inside) / max(1, (~inside).sum())])
    return false, true
