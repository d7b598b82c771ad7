"""One training with canaries in it or not, by coin: how many coins can be guessed bounds epsilon from below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom, norm

from fedonce.assess.audit.coupling import (
    Train,
)
from fedonce.privacy.budget import Purse
from fedonce.privacy.dpsgd import PrivateSteps
from fedonce.privacy.events import Noisy
from fedonce.training.loop import Rows


@dataclass(frozen=True)
class OneRun:
    """What one training with canaries showed: epsilon is at least `bound`, with 95 % confidence.

    Attributes
    ----------
    what : str
        What was trained.
    claimed, delta : float
        The guarantee that is claimed.
    canaries, guesses, correct : int
        Canaries, guesses about them, and those that were right.
    bound : float
        What epsilon is at least.
    """

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

    def release(self, what: str, total: NDArray[Any], sensitivity: int) -> NDArray[np.float64]:
        """Release a sum and the canaries' coordinates together, as one vector."""
        both = np.concatenate([np.ravel(total), sensitivity * self.coins])
        out = super().release(what, both, sensitivity)
        events = [entry.event for entry in self.planned if entry.what == what]
        noise = max(next(event.noise for event in events if isinstance(event, Noisy)), 1e-12)
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
    delta = purse.ledger.delta
    guesses = best_guesses(canaries, gaussian_strength(claimed, delta), delta)
    correct = count_correct(spending.scores, spending.coins, guesses)
    return OneRun(what, claimed, delta, canaries, guesses, correct, epsilon_bound(canaries, guesses, correct, delta))


def count_correct(scores: NDArray[np.float64], coins: NDArray[np.bool_], guesses: int) -> int:
    """Guess "in" for the highest scores and "out" for the lowest, half each; return how many are right.

    Parameters
    ----------
    scores : array
        A score per canary.
    coins : array of bool
        Which canaries were in.
    guesses : int
        How many guesses are made.
    """
    order = np.argsort(scores)
    half = guesses // 2
    return int(coins[order[len(order) - (guesses - half) :]].sum() + (~coins[order[:half]]).sum())


def p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Return the chance of so many correct guesses, or more, if (epsilon, delta) held: Theorem 5.2 of Steinke et al. (2023).

    Without delta it is that of a binomial with the accuracy of randomised response; delta lets a few guesses be free.

    Parameters
    ----------
    canaries, guesses, correct : int
        Canaries, guesses about them, and those that were right.
    epsilon, delta : float
        The guarantee that is doubted.
    """
    accuracy = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(correct - 1, guesses, accuracy))
    # P[correct - i <= X < correct] for i = 1, 2, ...
    near = np.cumsum(binom.pmf(np.arange(correct - 1, -1, -1), guesses, accuracy))
    alpha = float((near / np.arange(1, correct + 1)).max()) if correct else 0.0
    return min(1.0, tail + 2 * canaries * delta * alpha)


def epsilon_bound(canaries: int, guesses: int, correct: int, delta: float, confidence: float = 0.95) -> float:
    """Return the largest epsilon that the guesses contradict, with this confidence; 0 where they contradict none.

    Parameters
    ----------
    canaries, guesses, correct : int
        Canaries, guesses about them, and those that were right.
    delta : float
        Of the guarantee.
    confidence : float
        With which the bound holds.
    """
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
    """Return how many guesses serve best against a Gaussian mechanism of signal-to-noise ratio `strength`, on average.

    Parameters
    ----------
    canaries : int
        How many there are.
    strength : float
        Signal-to-noise ratio of the mechanism.
    delta : float
        Of the guarantee.
    """
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
    """Return the signal-to-noise ratio of the Gaussian mechanism that has exactly this epsilon (Balle and Wang, 2018).

    Parameters
    ----------
    epsilon, delta : float
        The guarantee.
    """

    def excess(mu: float) -> float:
        return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)) - delta

    return float(brentq(excess, 1e-6, 10 + epsilon))
