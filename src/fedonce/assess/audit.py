"""Tests that a privacy claim could fail: of the learners' arithmetic, of one training, and of released models.

Passing proves nothing: an audit finds faults, and a guarantee is a proof. What each test can and cannot see is said with it.

1. `coupled_check`: two trainings with the same weights and the same coins, of which one lacks a row. Every sum that is about to
   be made noisy may differ by what the row itself may add, and by nothing where the row was not drawn. Exact; it finds NAT.
2. `one_run`: many canaries, rows whose gradient lies in a coordinate of its own, are put into one training or not, by coin;
   how many coins can be guessed from what was released bounds epsilon from below (Steinke, Nasr and Jagielski, 2023).
3. `membership`: who was in the training rows of a released model? By the loss, and by the likelihood ratio of models that
   were trained with and without the row (Carlini et al., 2022).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom, norm

from fedonce.errors import BudgetError
from fedonce.learners import Learner
from fedonce.privacy.budget import Purse, calibrate
from fedonce.privacy.dpsgd import PrivateSteps
from fedonce.privacy.noise import SecretRandom
from fedonce.training.loop import Rows

TOLERANCE = 1e-4  # of the bound: rounding of float32 sums
PROVES_NOTHING = "Passing proves nothing: an audit can find that a claim is false, never that it is true."

Train = Callable[[Rows, Purse], object]  # train on rows with a purse


@dataclass(frozen=True)
class Coupled:
    """What the coupled check found: how far sums moved when one row was left out, over how far they may."""

    what: str
    sums: int
    moved: float  # where the row took part, as a multiple of what it may add
    elsewhere: float  # where it did not, likewise

    @property
    def passed(self) -> bool:
        """Whether no sum moved more than it may."""
        return self.moved <= 1 + TOLERANCE and self.elsewhere <= TOLERANCE


@dataclass
class _Transcript:
    """One training, sum by sum: what went in, what came out, which rows were drawn."""

    totals: list[list[NDArray[Any]]] = field(default_factory=list)
    released: list[list[NDArray[Any]]] = field(default_factory=list)
    drawn: list[NDArray[np.intp]] = field(default_factory=list)


class _Recorder(Purse):
    """A purse that writes down every sum before and after its noise."""

    transcript: _Transcript

    def release(self, what: str, total: NDArray[Any], sensitivity: float) -> NDArray[np.float64]:
        """Record one release."""
        out = super().release(what, total, sensitivity)
        self.transcript.totals.append([np.array(total)])
        self.transcript.released.append([np.array(out)])
        return out

    def steps(self, what: str, rows: NDArray[Any], clip: float) -> PrivateSteps:
        """Return steps that record themselves."""
        made = _RecordedSteps(**vars(super().steps(what, rows, clip)))
        made.transcript = self.transcript
        return made


class _RecordedSteps(PrivateSteps):
    transcript: _Transcript

    def sample(self) -> NDArray[np.intp]:
        drawn = super().sample()
        self.transcript.drawn.append(drawn)
        return drawn

    def release(self, totals: Sequence[NDArray[Any]]) -> None:
        self.transcript.totals.append([np.array(total) for total in totals])
        super().release(totals)
        self.transcript.released.append([np.array(total) for total in totals])


class _Replayer(Purse):
    """A purse for the training that lacks the last row: it compares each sum, and hands out the first training's results.

    So both trainings have the same weights at every step, and each sum can be compared by itself.
    """

    first: _Transcript
    missing: int
    moved: list[float]
    elsewhere: list[float]

    def compare(self, position: int, totals: Sequence[NDArray[Any]], bound: float, took_part: bool) -> None:
        """Compare one sum with that of the first training."""
        pairs = zip(self.first.totals[position], totals, strict=True)
        distance = math.sqrt(sum(float(np.square(a.astype(np.float64) - b).sum()) for a, b in pairs))
        (self.moved if took_part else self.elsewhere).append(distance / bound)

    def release(self, what: str, total: NDArray[Any], sensitivity: float) -> NDArray[np.float64]:
        """Compare one release."""
        position = len(self.moved) + len(self.elsewhere)
        super().release(what, total, sensitivity)
        self.compare(position, [total], sensitivity, took_part=True)
        return np.array(self.first.released[position][0])

    def steps(self, what: str, rows: NDArray[Any], clip: float) -> PrivateSteps:
        """Return steps that compare themselves."""
        made = _ReplayedSteps(**vars(super().steps(what, rows, clip)))
        made.replayer = self
        return made


class _ReplayedSteps(PrivateSteps):
    replayer: _Replayer

    def sample(self) -> NDArray[np.intp]:
        super().sample()
        drawn: NDArray[np.intp] = self.replayer.first.drawn[self.taken - 1]
        kept: NDArray[np.intp] = drawn[drawn != self.replayer.missing]
        return kept

    def release(self, totals: Sequence[NDArray[Any]]) -> None:
        replayer = self.replayer
        position = len(replayer.moved) + len(replayer.elsewhere)
        took_part = bool((replayer.first.drawn[self.taken - 1] == replayer.missing).any())
        replayer.compare(position, totals, self.clip, took_part)
        super().release(totals)
        for total, released in zip(totals, replayer.first.released[position], strict=True):
            total[...] = released


def coupled_check(what: str, train: Train, rows: Rows, purse: Purse) -> Coupled:
    """Train with all rows and without the last one, coupled; return how far the sums moved.

    Parameters
    ----------
    train : callable
        Trains on rows with a purse; it must draw nothing but from the purse and from seeds of its own.
    purse : Purse
        What a training may spend; it is copied.
    """
    transcript = _Transcript()
    settings = {**vars(purse), "n_rows": len(rows), "used": set()}
    recorder = _Recorder(**settings)
    recorder.transcript = transcript
    train(rows, recorder)
    replayer = _Replayer(**{**settings, "used": set()})
    replayer.first, replayer.missing, replayer.moved, replayer.elsewhere = transcript, len(rows) - 1, [], []
    train(rows[:-1], replayer)
    if len(replayer.moved) + len(replayer.elsewhere) != len(transcript.totals):
        raise BudgetError(
            f"{what} makes another number of sums when a row is missing: how many it makes tells of the row."
        )
    return Coupled(what, len(transcript.totals), max(replayer.moved, default=0.0), max(replayer.elsewhere, default=0.0))


def check_learner(
    learner: Learner, rows: Rows, dim: int = 3, epsilon: float = 2.0, seed: int = 0, unsound: bool = False
) -> Coupled:
    """Check one learner on prepared rows."""
    delta = 1 / (10 * len(rows))
    tasks = learner.private_tasks(len(rows), 1.0, unsound=unsound)
    plan = calibrate([replace(task, party="audited") for task in tasks], epsilon, delta, "rdp")
    purse = Purse("audited", plan.of("audited"), plan.ledger(), SecretRandom(insecure_test_seed=seed))

    def train(own: Rows, spending: Purse) -> None:
        copy.deepcopy(learner).fit_private(own, dim, np.random.default_rng(seed), torch.device("cpu"), spending)

    return coupled_check(learner.name, train, rows, purse)


@dataclass(frozen=True)
class OneRun:
    """What one training with canaries showed: epsilon is at least `bound`, with 95 % confidence."""

    what: str
    claimed: float
    delta: float
    canaries: int
    guesses: int
    correct: int
    bound: float

    @property
    def passed(self) -> bool:
        """Whether the bound does not contradict the claim."""
        return self.bound <= self.claimed


class _CanaryPurse(Purse):
    """A purse whose sums have one more coordinate for each canary, in which that canary alone is seen."""

    coins: NDArray[np.bool_]
    scores: NDArray[np.float64]

    def release(self, what: str, total: NDArray[Any], sensitivity: float) -> NDArray[np.float64]:
        """Release a sum and the canaries' coordinates together, as one vector."""
        both = np.concatenate([np.ravel(total), sensitivity * self.coins])
        out = super().release(what, both, sensitivity)
        noise = max(next(entry.event.noise for entry in self.planned if entry.what == what and entry.event), 1e-12)
        self.scores += out[total.size :] / (sensitivity * noise**2)  # the best linear statistic weighs by precision
        return out[: total.size].reshape(total.shape)

    def steps(self, what: str, rows: NDArray[Any], clip: float) -> PrivateSteps:
        """Return steps into which canaries are drawn like rows."""
        made = _CanarySteps(**vars(super().steps(what, rows, clip)))
        made.purse = self
        made.n_rows = len(rows) + len(self.coins)
        return made


class _CanarySteps(PrivateSteps):
    purse: _CanaryPurse
    seen: NDArray[np.float64]

    def sample(self) -> NDArray[np.intp]:
        drawn = super().sample()
        n_real = self.n_rows - len(self.purse.coins)
        self.seen = np.zeros(len(self.purse.coins))
        self.seen[drawn[drawn >= n_real] - n_real] = self.clip
        self.seen *= self.purse.coins
        return drawn[drawn < n_real]

    def release(self, totals: Sequence[NDArray[Any]]) -> None:
        super().release([*totals, self.seen])
        self.purse.scores += self.seen


def one_run(
    what: str, train: Train, rows: Rows, purse: Purse, claimed: float, canaries: int = 1000, seed: int = 0
) -> OneRun:
    """Put canaries into one training and guess from its releases which were there; return the bound on epsilon.

    It sees faults of sampling, clipping, noise and accounting; it does not see what couples rows (for that `coupled_check`).
    The number of guesses is fixed beforehand, as what would serve best against an ideal Gaussian mechanism.
    """
    spending = _CanaryPurse(**{**vars(purse), "n_rows": len(rows) + canaries, "used": set()})
    spending.coins = np.random.default_rng(seed).random(canaries) < 0.5
    spending.scores = np.zeros(canaries)
    train(rows, spending)
    delta = purse.ledger.delta
    guesses = best_guesses(canaries, gaussian_strength(claimed, delta), delta)
    correct = count_correct(spending.scores, spending.coins, guesses)
    return OneRun(what, claimed, delta, canaries, guesses, correct, epsilon_bound(canaries, guesses, correct, delta))


def count_correct(scores: NDArray[np.float64], coins: NDArray[np.bool_], guesses: int) -> int:
    """Guess "in" for the highest scores and "out" for the lowest, half each; return how many are right."""
    order = np.argsort(scores)
    half = guesses // 2
    return int(coins[order[len(order) - (guesses - half) :]].sum() + (~coins[order[:half]]).sum())


def p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Return the chance of so many correct guesses, or more, if (epsilon, delta) held: Theorem 5.2 of Steinke et al. (2023).

    Without delta it is that of a binomial with the accuracy of randomised response; delta lets a few guesses be free.
    """
    accuracy = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(correct - 1, guesses, accuracy))
    # P[correct - i <= X < correct] for i = 1, 2, ...
    near = np.cumsum(binom.pmf(np.arange(correct - 1, -1, -1), guesses, accuracy))
    alpha = float((near / np.arange(1, correct + 1)).max()) if correct else 0.0
    return min(1.0, tail + 2 * canaries * delta * alpha)


def epsilon_bound(canaries: int, guesses: int, correct: int, delta: float, confidence: float = 0.95) -> float:
    """Return the largest epsilon that the guesses contradict, with this confidence; 0 where they contradict none."""
    wanted = 1 - confidence

    def excess(epsilon: float) -> float:
        return p_value(canaries, guesses, correct, epsilon, delta) - wanted

    if excess(0.0) >= 0:
        return 0.0
    high = 1.0
    while excess(high) < 0 and high < 64:
        high *= 2
    return high if excess(high) < 0 else float(brentq(excess, 0.0, high, xtol=1e-4))


def best_guesses(canaries: int, strength: float, delta: float) -> int:
    """Return how many guesses serve best against a Gaussian mechanism of signal-to-noise ratio `strength`, on average."""
    best, bound = 2, -1.0
    for guesses in np.unique(np.geomspace(4, canaries, 40).astype(int) // 2 * 2):
        share = guesses / canaries / 2  # on either side
        cut = brentq(lambda t, share=share: (norm.sf(t) + norm.sf(t - strength)) / 2 - share, -40, 40 + strength)
        right = norm.sf(cut - strength) / (norm.sf(cut) + norm.sf(cut - strength))
        found = epsilon_bound(canaries, int(guesses), math.floor(right * guesses), delta)
        if found > bound:
            best, bound = int(guesses), found
    return best


def gaussian_strength(epsilon: float, delta: float) -> float:
    """Return the signal-to-noise ratio of the Gaussian mechanism that has exactly this epsilon (Balle and Wang, 2018)."""

    def excess(mu: float) -> float:
        return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)) - delta

    return float(brentq(excess, 1e-6, 10 + epsilon))


@dataclass(frozen=True)
class Membership:
    """How well members of the training rows are told from others: a curve for each attack, and figures of it."""

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


Model = Callable[
    [NDArray[np.intp]], NDArray[np.float64]
]  # trained on these rows: each row's probability of its true class


def membership(
    name: str, train: Model, n_rows: int, epsilon: float | None = None, models: int = 16, seed: int = 0
) -> Membership:
    """Attack `models` models, each trained on a random half of the rows; each serves the attacks on the others.

    "loss": a row is taken for a member where the model gives its true class a high probability. "likelihood ratio": where that
    probability is more like that of models which had the row than of those which had not (normal distributions of the log
    odds, one spread for all rows, as there are few models).
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
    curves = {"loss": _curve(odds, members), "likelihood ratio": _curve(ratios, members)}
    return Membership(name, epsilon, float((chances[~members] > 0.5).mean()), curves)


def _curve(scores: NDArray[np.float64], members: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return false and true positive rates for every threshold, over all models and rows."""
    order = np.argsort(-scores, axis=None)
    inside = members.ravel()[order]
    true = np.concatenate([[0.0], np.cumsum(inside) / max(1, inside.sum())])
    false = np.concatenate([[0.0], np.cumsum(~inside) / max(1, (~inside).sum())])
    return false, true
