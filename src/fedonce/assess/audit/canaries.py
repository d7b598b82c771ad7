"""One training with canaries in it or not, by coin: how many coins can be guessed shows how much noise there was at most.

Two things are read from it. Of all canaries: no more may be guessed than a training as planned lets guess, where canaries are
independent of each other. Of the tenth about which the guesses are surest: a lower bound on epsilon that needs no independence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm

from fedonce.assess.audit.measures import LEVEL, WEAKER, Train
from fedonce.privacy import accountants
from fedonce.privacy.budget import Purse
from fedonce.privacy.dpsgd import PrivateSteps
from fedonce.privacy.events import Gaussian, Noisy, SampledGaussian
from fedonce.training.loop import Rows

CONFIDENCE = 0.95  # of the bound on epsilon
EPSILONS = np.concatenate([np.linspace(0, 3, 301), np.geomspace(3, 60, 100)[1:]])  # where a trade-off curve is touched
FACTORS = np.geomspace(1 / 8, 8, 97)  # of the planned noise, that guesses are compared with
SURE = 10  # one in so many canaries is guessed about for the bound
SIMULATED = 100_000  # canaries by which right guesses are computed


@dataclass(frozen=True)
class OneRun:
    """What one training with canaries showed.

    Attributes
    ----------
    what : str
        What was trained.
    claimed, delta : float
        The guarantee that is claimed.
    canaries, correct : int
        Canaries, each guessed about once, and right guesses.
    allowed : int
        Right guesses that a training as planned exceeds once in a million.
    bound : float
        What epsilon is at least, with 95 % confidence: the price of the planned releases with the most noise that the surest
        guesses do not contradict.
    power : float
        The chance that half the noise would have failed the test.
    """

    what: str
    claimed: float
    delta: float
    canaries: int
    correct: int
    allowed: int
    bound: float
    power: float

    @property
    def passed(self) -> bool:
        """Whether the guesses do not contradict the claim."""
        return self.correct <= self.allowed and self.bound <= self.claimed


class _CanaryPurse(Purse):
    """A purse whose sums have one more coordinate for each canary, in which that canary alone is seen.

    Scores are the likelihood ratio's where noise is Gaussian: each coordinate, less half of what the canary adds, by precision.
    """

    coins: NDArray[np.bool_]
    scores: NDArray[np.float64]

    def event(self, what: str) -> Any:
        """Return a planned event."""
        return next(entry.event for entry in self.planned if entry.what == what)

    def release(self, what: str, total: NDArray[Any], sensitivity: int) -> NDArray[np.float64]:
        """Release a sum and the canaries' coordinates together, as one vector."""
        both = np.concatenate([np.ravel(total), sensitivity * self.coins])
        out = super().release(what, both, sensitivity)
        self.scores += (out[total.size :] / sensitivity - 0.5) * _weight(self.event(what))
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
        seen = self.seen * (self.event.rate * self.public_rows) / self.clip
        self.purse.scores += (seen - self.event.rate / 2) * _weight(self.event)


def _weight(event: Noisy) -> float:
    """Return what a canary adds to a coordinate on average, over the variance of its noise."""
    return (event.rate if isinstance(event, SampledGaussian) else 1.0) / max(event.noise, 1e-12) ** 2


def one_run(
    what: str, train: Train, rows: Rows, purse: Purse, claimed: float, canaries: int = 5000, seed: int = 0
) -> OneRun:
    """Put canaries into one training and guess from its releases which were there; compare with what the plan allows.

    It sees faults of sampling, noise and accounting end to end; it does not see what couples rows (for that `check_training`).
    A canary has a coordinate of its own, so that more canaries serve as well as more trainings.

    Parameters
    ----------
    what : str
        What is trained, in words.
    train : callable
        Trains on rows with a purse.
    rows : array
        Prepared rows.
    purse : Purse
        What the training may spend.
    claimed : float
        The epsilon that is claimed.
    canaries : int
        How many rows are made for the test.
    seed : int
        Of the canaries.
    """
    spending = _CanaryPurse(**{**vars(purse), "n_rows": len(rows) + canaries, "used": set()})
    spending.coins = np.random.default_rng(seed).random(canaries) < 0.5
    spending.scores = np.zeros(canaries)
    train(rows, spending)
    right = (spending.scores > 0) == spending.coins
    events = [entry.event for entry in purse.planned if isinstance(entry.event, Gaussian | SampledGaussian)]
    allowed = int(binom.isf(LEVEL, canaries, accuracy(events, 1.0, seed)))
    sure = np.argsort(-np.abs(spending.scores))[: max(1, canaries // SURE)]
    return OneRun(
        what,
        claimed,
        purse.ledger.delta,
        canaries,
        int(right.sum()),
        allowed,
        _bound(events, canaries, len(sure), int(right[sure].sum()), purse.ledger.delta),
        float(binom.sf(allowed, canaries, accuracy(events, WEAKER, seed))),
    )


def contradicted(canaries: int, guesses: int, correct: int, deltas: NDArray[np.float64], level: float) -> bool:
    """Whether this many right guesses, or more, have a probability below `level`, if the deltas hold at `EPSILONS`.

    By Mahloujifar, Melis and Chaudhuri (2024), "Auditing f-differential privacy in one run". With m canaries, g guesses, and p_i
    the probability of exactly i right ones: for every j, the sum over i >= j of i p_i / m is at most 1 - f(x), where x is the sum
    over i >= j of (g - i + 1) p_(i-1) / m. From a probability of `level` for `correct` or more, that gives the least probability
    of fewer, number by number; where it all exceeds 1, `level` was too much.

    Parameters
    ----------
    canaries, guesses, correct : int
        Canaries, guesses about them, and those that were right.
    deltas : array
        A delta for each epsilon in `EPSILONS`: the trade-off curve f, by lines that touch it.
    level : float
        The probability in question.
    """
    slopes = np.exp(EPSILONS)
    right, wrong = level * correct / canaries, level * (guesses - correct) / canaries
    for count in range(correct - 1, -1, -1):
        least = max(wrong, ((right - deltas) / slopes).max(), (1 - deltas - slopes * (1 - right)).max())
        right += count / (guesses - count) * (least - wrong)
        wrong = least
        if right + wrong > guesses / canaries:
            return True
    return False


def accuracy(events: Sequence[Noisy], factor: float, seed: int = 0) -> float:
    """Return the share of right guesses if the noise is `factor` times that of the events, by simulation.

    Parameters
    ----------
    events : sequence of events
        What a training does.
    factor : float
        What its noise is multiplied by.
    seed : int
        Of the simulation.
    """
    rng = np.random.default_rng(seed)
    mean, out, variance = np.zeros(SIMULATED), 0.0, 0.0  # mean scores of canaries that are in, and out
    for event in events:
        times, rate = (event.steps, event.rate) if isinstance(event, SampledGaussian) else (event.times, 1.0)
        mean += _weight(event) * (rng.binomial(times, rate, SIMULATED) - times * rate / 2)
        out -= _weight(event) * times * rate / 2
        variance += _weight(event) ** 2 * times * (factor * event.noise) ** 2
    return float((norm.cdf(mean / variance**0.5).mean() + norm.cdf(-out / variance**0.5)) / 2)


def _bound(events: Sequence[Noisy], canaries: int, guesses: int, correct: int, delta: float) -> float:
    """Return epsilon for the most noise, as a multiple of the plan's, that the guesses do not contradict."""
    low, high = 0, len(FACTORS)
    while high > low:
        middle = (low + high) // 2
        curve = _curve(_scaled(events, FACTORS[middle]))
        low, high = (
            (low, middle) if contradicted(canaries, guesses, correct, curve, 1 - CONFIDENCE) else (middle + 1, high)
        )
    return accountants.epsilon(_scaled(events, FACTORS[low]), delta) if low < len(FACTORS) else 0.0


@lru_cache(maxsize=64)
def _curve(events: tuple[Noisy, ...]) -> NDArray[np.float64]:
    return accountants.deltas(events, EPSILONS)


def _scaled(events: Sequence[Noisy], factor: float) -> tuple[Noisy, ...]:
    return tuple(replace(event, noise=event.noise * float(factor)) for event in events)
