"""Distribution tests: of noise, of samples, of answers, of prices, each with what it would have seen of half the noise.

Every test gives the chance with which a correct mechanism looks this unlike its plan. It fails below `LEVEL`: a correct mechanism
fails a test in one of a million audits, and any of all tests, fewer than a hundred, in fewer than 1 of 10,000 audits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, chi2, kstest, norm

from fedonce.privacy import accountants
from fedonce.privacy.budget import Purse
from fedonce.privacy.events import Gaussian, Noisy, SampledGaussian
from fedonce.training.loop import Rows

LEVEL = 1e-6  # with which a correct mechanism fails one test
WEAKER = 0.5  # of the planned noise: the fault that `power` is about
ENOUGH = 500  # numbers: they show noise of half the plan for certain, and of 0.8 times in 97 of 100 runs
KEPT = 4096  # numbers of one release that the Kolmogorov-Smirnov test looks at
SIMULATED = 100_000  # trainings whose privacy loss is drawn, at most
LEAST_SIMULATED, MOST_STEPS = 2000, 2e7  # the fewest, and steps of all of them together: seconds

Floats = NDArray[np.float64]
Train = Callable[[Rows, Purse], object]  # train on rows with a purse
Ints = NDArray[np.intp]
# Of an epsilon: true values, one per row, and which values each row's answer speaks for, (rows, values).
Draw = Callable[[float], tuple[Ints, NDArray[np.bool_]]]


@dataclass(frozen=True)
class Measured:
    """A property of a mechanism, as it was planned and as it was found.

    Attributes
    ----------
    what : str
        Which property of which mechanism.
    planned, found : float
        What it must be, and what it was.
    numbers : int
        On how many numbers this rests.
    chance : float
        With which a correct mechanism looks this unlike its plan.
    power : float
        The chance that half the noise would have failed this test (for samples: rows drawn twice as often; for answers: twice
        the epsilon).
    """

    what: str
    planned: float
    found: float
    numbers: int
    chance: float
    power: float

    @property
    def passed(self) -> bool:
        """Whether a correct mechanism may look like this."""
        return self.chance >= LEVEL


@dataclass
class Noise:
    """The noise of one mechanism, number by number over its planned scale: standard normal where all is right.

    Two tests: of the variance (chi-square, two-sided), and of the distribution (Kolmogorov-Smirnov), which also finds noise that
    is repeated or that has another shape.
    """

    count: int = 0
    squares: float = 0.0
    kept: list[Floats] = field(default_factory=list)

    def add(self, numbers: Floats) -> None:
        """Take the numbers of one release."""
        self.count += numbers.size
        self.squares += float(np.square(numbers).sum())
        self.kept.append(numbers[:: max(1, numbers.size // KEPT)])

    def measured(self, what: str) -> Measured:
        """Return what the tests say."""
        variance = 2 * min(chi2.cdf(self.squares, self.count), chi2.sf(self.squares, self.count))
        shape = kstest(np.concatenate(self.kept), "norm").pvalue
        found = math.sqrt(self.squares / self.count)
        return Measured(what, 1.0, found, self.count, _together(variance, shape), power_of_noise(self.count))


def power_of_noise(count: int, factor: float = WEAKER) -> float:
    """Return the chance that normal noise of `factor` times its plan fails the test of its variance.

    Parameters
    ----------
    count : int
        How many numbers are tested.
    factor : float
        What the noise is multiplied by.
    """
    low, high = chi2.ppf(LEVEL / 4, count), chi2.isf(LEVEL / 4, count)
    if not factor:
        return 1.0
    return float(chi2.cdf(low / factor**2, count) + chi2.sf(high / factor**2, count))


def sampling(what: str, drawn: Ints, steps: int, rate: float) -> Measured:
    """Test that rows were drawn independently and with the planned probability.

    Two tests: of how many were drawn in all (binomial), and of how unequally often (chi-square): batches that go through the
    rows in turn draw each equally often.

    Parameters
    ----------
    what : str
        Whose samples they are.
    drawn : array of int
        For each row, how often it was drawn.
    steps : int
        How many samples were drawn.
    rate : float
        The planned probability.
    """
    draws, total = len(drawn) * steps, int(drawn.sum())
    spread = float(np.square(drawn - steps * rate).sum() / max(steps * rate * (1 - rate), 1e-300))
    unequal = 2 * min(chi2.cdf(spread, len(drawn)), chi2.sf(spread, len(drawn))) if rate < 1 else 1.0
    most = binom.isf(LEVEL / 4, draws, rate)
    power = float(binom.sf(most, draws, min(1.0, rate / WEAKER))) if rate < 1 else 0.0
    return Measured(what, rate, total / draws, draws, _together(_two_sided(total, draws, rate), unequal), power)


def answers(what: str, draw: Draw, epsilon: float, seed: int = 0) -> Measured:
    """Test that answers tell the true value from another one by a factor of exp(epsilon), and by no more.

    Rows have true values drawn evenly, and another value each, drawn from the rest. Of the answers that speak for a value v and
    not for w, given that one of the two is true, v is true with probability exp(epsilon) / (1 + exp(epsilon)): a binomial test of
    all answers, and of each pair of values by itself.

    Parameters
    ----------
    what : str
        Whose answers they are.
    draw : callable
        From an epsilon, to true values, drawn evenly, and the values that each answer speaks for; new randomness in each call.
    epsilon : float
        What the mechanism claims, exactly.
    seed : int
        Of the other values.
    """
    share = 1 / (1 + math.exp(-epsilon))
    right, wrong = _pairs(*draw(epsilon), seed)
    total, all_right = int((right + wrong).sum()), int(right.sum())
    pairs = [_two_sided(int(a), int(a + b), share) for a, b in zip(right.flat, wrong.flat, strict=True)]
    chance = _together(_two_sided(all_right, total, share), len(pairs) * min(pairs))
    half = [int(each.sum()) for each in _pairs(*draw(epsilon / WEAKER), seed)]
    power = _power(total, share, half[0] / max(sum(half), 1))
    found = math.log((all_right + 0.5) / (total - all_right + 0.5))
    return Measured(what, epsilon, found, total, chance, power)


def guesses(what: str, guess: Callable[[float], NDArray[np.bool_]], epsilon: float, classes: int) -> Measured:
    """Test that no more labels, drawn evenly, are guessed than randomised response with this epsilon allows.

    Parameters
    ----------
    what : str
        From what labels are guessed.
    guess : callable
        From an epsilon, to which guesses are right.
    epsilon : float
        What is claimed.
    classes : int
        How many classes there are.
    """
    right = guess(epsilon)
    share, half = 1 / (1 + (classes - 1) * math.exp(-epsilon)), guess(epsilon / WEAKER).mean()
    correct, count = int(right.sum()), right.size
    found = math.log(max(correct, 0.5) * (classes - 1) / max(count - correct, 0.5))
    chance = float(binom.sf(correct - 1, count, share))
    return Measured(
        what, epsilon, max(0.0, found), count, chance, float(binom.sf(binom.isf(LEVEL, count, share), count, half))
    )


def price(what: str, seen: Sequence[Noisy], claimed: float, seed: int = 0) -> Measured:
    """Price what was seen by drawing privacy losses, and compare with the accountant's price of the same.

    Compared is delta at half the claimed epsilon, which is large enough to be counted.

    Parameters
    ----------
    what : str
        Whose training it was.
    seen : sequence of events
        What happened, as it was counted.
    claimed : float
        The claimed epsilon.
    seed : int
        Of the simulation.
    """
    epsilon = claimed / 2
    planned = float(accountants.deltas(seen, [epsilon])[0])
    found, error, count = _delta(tuple(seen), epsilon, 1.0, seed)
    weaker, its_error, _ = _delta(tuple(seen), epsilon, WEAKER, seed)
    power = norm.sf((planned - norm.ppf(LEVEL) * error - weaker) / its_error)
    return Measured(what, planned, found, count, float(norm.sf((found - planned) / error)), float(power))


def losses(events: Sequence[Noisy], factor: float = 1.0, seed: int = 0) -> Floats:
    """Draw privacy losses of a row that takes part, from trainings whose noise is `factor` times that of the events.

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
    steps = sum(event.steps for event in events if isinstance(event, SampledGaussian))
    count = int(np.clip(MOST_STEPS / max(steps, 1), LEAST_SIMULATED, SIMULATED))
    total = np.zeros(count)
    for event in events:
        noise = event.noise * factor
        if isinstance(event, Gaussian):
            strength = event.times / noise**2
            total += strength / 2 + math.sqrt(strength) * rng.standard_normal(count)
            continue
        for _ in range(event.steps):
            seen = (rng.random(count) < event.rate) + noise * rng.standard_normal(count)
            # By logarithms: losses of weak noise are large.
            total += np.logaddexp(np.log1p(-event.rate), np.log(event.rate) + (2 * seen - 1) / (2 * noise**2))
    return total


@lru_cache(maxsize=64)
def _delta(events: tuple[Noisy, ...], epsilon: float, factor: float, seed: int) -> tuple[float, float, int]:
    """Return delta at an epsilon, its standard error, and the number of trainings, by simulation."""
    each = np.maximum(0.0, -np.expm1(np.minimum(epsilon - losses(events, factor, seed), 0.0)))
    return float(each.mean()), max(float(each.std()) / math.sqrt(len(each)), 1e-300), len(each)


def _pairs(truth: Ints, speaks: NDArray[np.bool_], seed: int) -> tuple[Ints, Ints]:
    """Count for pairs (v, w) the answers that speak for v and not for w where v is true, and where w is."""
    values = speaks.shape[1]
    rows = np.arange(len(truth))
    other = (truth + np.random.default_rng(seed).integers(1, values, len(truth))) % values
    true, false = speaks[rows, truth], speaks[rows, other]
    right, wrong = np.zeros((2, values, values), np.intp)
    np.add.at(right, (truth[true & ~false], other[true & ~false]), 1)
    np.add.at(wrong, (other[false & ~true], truth[false & ~true]), 1)
    pairs = ~np.eye(values, dtype=bool)
    return right[pairs], wrong[pairs]


def _two_sided(count: int, of: int, share: float) -> float:
    return float(min(1.0, 2 * min(binom.cdf(count, of, share), binom.sf(count - 1, of, share))))


def _power(of: int, share: float, actual: float) -> float:
    """Return the chance that a binomial count fails a two-sided test of another share, one of two tests."""
    low, high = binom.ppf(LEVEL / 4, of, share), binom.isf(LEVEL / 4, of, share)
    return float(binom.cdf(low - 1, of, actual) + binom.sf(high, of, actual))


def _together(*chances: float) -> float:
    """Return the chance of the most unlikely of several tests."""
    return float(min(1.0, len(chances) * min(chances)))
