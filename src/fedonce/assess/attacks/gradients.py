"""What a guest learns of labels where there are rounds: from the gradients that come back, and from what it has trained on."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from fedonce.assess.attacks.base import Attack, Exposed, Finding, Floats, share_interval, shuffled
from fedonce.assess.attacks.known_rows import FEWEST_TOLD
from fedonce.assess.attacks.names import ATTACKS, Facts

MOST_ROWS = 10_000
MOST_CLASSES = 100


@dataclass(frozen=True)
class LabelsFromGradients(Attack):
    """Tell classes by a gradient's norm, by its direction, and by a model that is completed with a few known labels.

    Norm and direction need no label: gradients are grouped, and which group is which class is taken to be known.

    Parameters
    ----------
    knows : float
        Which part of the labels the attacker knows, to complete the model.
    """

    name: ClassVar[str] = "labels from gradients"
    facts: ClassVar[Facts] = ATTACKS.built_in["labels from gradients"].facts

    knows: float = 0.01

    def run(self, exposed: Exposed, rng: np.random.Generator) -> Sequence[Finding]:
        """Attack by each way; nothing where labels are no classes."""
        sample = exposed.sample(MOST_ROWS)
        assert sample.gradients is not None
        assert sample.labels is not None
        classes, labels = np.unique(sample.labels, return_inverse=True)
        if not 2 <= len(classes) <= MOST_CLASSES:
            return []
        gradients = np.asarray(sample.gradients, np.float64)
        size = np.linalg.norm(gradients, axis=1, keepdims=True)
        directions = gradients / np.where(size > 0, size, 1.0)
        other = shuffled(len(labels), rng)
        found = [
            self._grouped(np.log(size + 1e-12), labels, len(classes), "norm", other),
            self._grouped(directions, labels, len(classes), "direction", other),
        ]
        return [*found, *self._completed(np.asarray(sample.values, np.float64), labels, rng)]

    def _grouped(
        self, points: Floats, labels: NDArray[np.intp], classes: int, way: str, other: NDArray[np.intp]
    ) -> Finding:
        groups = KMeans(classes, n_init=5, random_state=0).fit_predict(points)
        score, control = _assigned(groups, labels, classes), _assigned(groups, labels[other], classes)
        return self._finding(score, control, labels, way, 0.0)

    def _completed(self, values: Floats, labels: NDArray[np.intp], rng: np.random.Generator) -> list[Finding]:
        """Learn from the guest's own values and a few labels."""
        told = max(round(self.knows * len(labels)), FEWEST_TOLD)
        rows = rng.permutation(len(labels))
        known, asked = rows[:told], rows[told:]
        if len(np.unique(labels[known])) < 2 or len(asked) < FEWEST_TOLD:
            return []
        scale = np.maximum(values.std(axis=0), 1e-12)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(max_iter=200).fit(values[known] / scale, labels[known])
        guessed = model.predict(values[asked] / scale)
        truth = labels[asked]
        score = float((guessed == truth).mean())
        control = float((guessed[shuffled(len(asked), rng)] == truth).mean())
        return [self._finding(score, control, truth, "model completion", told / len(labels))]

    def _finding(self, score: float, control: float, labels: NDArray[np.intp], way: str, knows: float) -> Finding:
        n = len(labels)
        guess = float(np.bincount(labels).max()) / n
        return Finding(self.name, None, "label", score, guess, control, *share_interval(score, n), n, knows, way)


def _assigned(groups: NDArray[np.intp], labels: NDArray[np.intp], classes: int) -> float:
    """Return the share that is right when each group stands for the class that fits best."""
    counts = np.zeros((classes, classes))
    np.add.at(counts, (groups, labels), 1)
    return float(counts[linear_sum_assignment(-counts)].sum()) / max(len(labels), 1)
