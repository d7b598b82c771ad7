"""What a guest learns of labels where the host hints at them: from a row's hint, from the row's values, and from both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from fedonce.assess.attacks.base import Attack, Exposed, Finding, Floats, share_interval, shuffled
from fedonce.assess.attacks.names import ATTACKS, Facts
from fedonce.messages.hints import LEAST_EPSILON, MOST_CLASSES, MOST_EPSILON
from fedonce.privacy.response import matrix
from fedonce.training.loop import apply
from fedonce.training.losses import HintLoss
from fedonce.training.networks import mlp
from fedonce.training.problem import Problem
from fedonce.training.randomness import torch_seeded
from fedonce.training.settings import Training
from fedonce.training.trainer import trainer

MOST_ROWS = 10_000
FEWEST = 50  # rows with a hint: of fewer nothing can be said
STEPS = 600  # of the probe

Ints = NDArray[np.intp]


@dataclass(frozen=True)
class LabelsFromHints(Attack):
    """Tell a row's class by its hint, by its values, and by both.

    The attacker is a guest, which has all rows' hints. By the hint alone: the class that is most probable, given how noisy
    answers are and how common classes are, which is worked out from the answers themselves. By the values: a small network learns
    from other rows' hints. By both: what is held of the class by the values, brought together with the row's own hint.

    Parameters
    ----------
    epsilon : float, optional
        With which labels were told, as the file of hints says. None: as often as answers are true, by the labels.
    """

    name: ClassVar[str] = "labels from hints"
    facts: ClassVar[Facts] = ATTACKS.built_in["labels from hints"].facts

    epsilon: float | None = None

    def run(self, exposed: Exposed, rng: np.random.Generator) -> Sequence[Finding]:
        """Attack by each way; nothing where labels are no classes, or too few rows have a hint."""
        sample = exposed.sample(MOST_ROWS)
        found, hints = np.unique(np.asarray(exposed.labels)), np.asarray(sample.hints).astype(np.intp)
        hinted = np.flatnonzero(hints >= 0)
        classes = max(len(found), int(hints.max(initial=-1)) + 1)
        if len(hinted) < FEWEST or not 2 <= classes <= MOST_CLASSES:
            return []
        labels: Ints = np.searchsorted(found, np.asarray(sample.labels)[hinted])
        answers: Ints = hints[hinted]
        epsilon = min(_measured(labels, answers, classes) if self.epsilon is None else self.epsilon, MOST_EPSILON)
        told = matrix(classes, epsilon)
        rates = _base_rates(answers, told)
        held = _by_values(np.asarray(sample.values)[hinted], answers, told, rng)
        # How often the best guess by the hint alone is right, where classes are as common as they are.
        most = float((np.bincount(labels, minlength=classes)[:, None] / len(labels) * told).max(axis=0).sum())
        factor = math.exp(epsilon)
        odds = f"epsilon {epsilon:.3g}: a hint moves the odds of two classes by a factor of at most {factor:.3g}"
        other = shuffled(len(labels), rng)
        alone = self._finding(rates * told.T[answers], labels, other, "hint alone", _at_most(odds, most))
        values = self._finding(
            held, labels, other, "values alone", "learnt from other rows' hints, whose noise averages out"
        )
        score = values.score or 0.0
        both = _at_most(odds, factor * score / (factor * score + 1 - score))
        return [alone, values, self._finding(held * told.T[answers], labels, other, "values and hint", both)]

    def _finding(self, chances: Floats, labels: Ints, other: Ints, way: str, note: str) -> Finding:
        guessed, n = chances.argmax(axis=1), len(labels)
        score, control = float((guessed == labels).mean()), float((guessed[other] == labels).mean())
        guess = float(np.bincount(labels).max()) / n
        return Finding(
            self.name, None, "label", score, guess, control, *share_interval(score, n), n, way=way, note=note
        )


def _at_most(odds: str, share: float) -> str:
    return f"{odds}, so that at most {100 * share:.1f} % can be right on average"


def _measured(labels: Ints, answers: Ints, classes: int) -> float:
    """Return the epsilon with which answers would be true as often as they are."""
    true, n = int((labels == answers).sum()), len(labels)
    odds = (true + 0.5) * (classes - 1) / (n - true + 0.5)
    return max(math.log(odds), LEAST_EPSILON)


def _base_rates(answers: Ints, told: Floats) -> Floats:
    """Return how common classes are, by how common answers are."""
    shares = np.bincount(answers, minlength=len(told)) / len(answers)
    rates = np.maximum(np.linalg.solve(told.T, shares), 1e-6)
    return np.asarray(rates / rates.sum())


def _by_values(values: Floats, answers: Ints, told: Floats, rng: np.random.Generator) -> Floats:
    """Return what is held of each row's class by its values, from a network that has seen the other half's hints alone."""
    spread = values.std(axis=0)
    rows = ((values - values.mean(axis=0)) / np.where(spread > 1e-12, spread, 1)).astype(np.float32)
    order, held = rng.permutation(len(rows)), np.zeros((len(rows), len(told)))
    loss, dtype = HintLoss(told), torch.get_default_dtype()
    for asked, known in ((order[::2], order[1::2]), (order[1::2], order[::2])):
        batch = min(128, len(known))
        training = Training(max(1, STEPS * batch // len(known)), batch, 3e-3, 1e-2, "one-cycle", "adamw")
        with torch_seeded(rng):
            network = mlp(rows.shape[1], (32,), len(told)).to(dtype=dtype)
            data, targets = torch.from_numpy(rows[known]).to(dtype), torch.from_numpy(answers[known])
            trainer(Problem(network, [data], targets, loss), training, rng).run()
        outputs = apply(network, rows[asked], torch.device("cpu")).astype(np.float64)
        odds = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        held[asked] = odds / odds.sum(axis=1, keepdims=True)
    return held
