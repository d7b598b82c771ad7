"""PrivUnit: the ratio of densities is exp(epsilon) to the last digits, answers are right on average, errors as computed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import brentq

from fedonce.privacy.privunit import PrivUnit, best

DIMS, EPSILONS = (2, 3, 9, 16, 100), (0.1, 1.0, 4.0, 8.0, 16.0)


def gaussian_strength(epsilon, delta):
    """Return the signal-to-noise ratio of the Gaussian mechanism that has exactly this epsilon (Balle and Wang, 2018)."""

    def excess(mu):
        return stats.norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu) - delta

    return brentq(excess, 1e-6, 10 + epsilon)


def draw(made: PrivUnit, rows: int, seed: int = 0) -> np.ndarray:
    """Return answers for the first unit vector."""
    rng = np.random.default_rng(seed)
    units = np.zeros((rows, made.dim))
    units[:, 0] = 1
    return made.answers(units, rng.random(rows), rng.normal(size=units.shape))


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_density_ratio(dim, epsilon):
    made = best(dim, epsilon)
    high, low = made.levels
    assert math.log(high / low) == pytest.approx(epsilon, abs=1e-9)
    assert high * made.cap + low * (1 - made.cap) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("dim", [3, 9, 16])
def test_cap_and_length_by_integration(dim):
    made = best(dim, 4.0)

    def density(t: float) -> float:
        return (1 - t**2) ** ((dim - 3) / 2)

    whole = quad(density, -1, 1)[0]
    assert made.cap == pytest.approx(quad(density, made.gamma, 1)[0] / whole, rel=1e-8)
    above, below = (quad(lambda t: t * density(t), *ends)[0] / whole for ends in ((made.gamma, 1), (-1, made.gamma)))
    assert made.length == pytest.approx(made.levels[0] * above + made.levels[1] * below, rel=1e-8)


def test_errors_as_published():
    for epsilon, ours, gaussian in ((2.0, 24.6, 254), (8.0, 1.6, 23.1)):
        assert best(16, epsilon).error == pytest.approx(ours, abs=0.05)
        # Of the Gaussian mechanism with delta 1e-5, which must hide that a vector is turned around: a distance of 2.
        assert 16 * (2 / gaussian_strength(epsilon, 1e-5)) ** 2 == pytest.approx(gaussian, rel=0.005)


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_no_cap_is_better(epsilon):
    least = best(9, epsilon).error
    assert all(PrivUnit(9, epsilon, gamma).error >= least - 1e-9 for gamma in np.linspace(0, 0.99, 500))


@pytest.mark.parametrize("dim", [2, 5, 17])
def test_right_on_average_and_error(dim):
    made, rows = best(dim, 4.0), 40_000
    answers = draw(made, rows)
    np.testing.assert_allclose(np.linalg.norm(answers, axis=1), 1, atol=1e-9)
    told = answers / made.length
    wanted = np.eye(dim)[0]
    assert (np.abs(told.mean(axis=0) - wanted) < 5 * told.std(axis=0) / math.sqrt(rows)).all()
    squares = np.square(told - wanted).sum(axis=1)
    assert squares.mean() == pytest.approx(made.error, abs=5 * squares.std() / math.sqrt(rows))


def test_answers_have_the_two_levels():
    """On a circle: the share of answers in each of many arcs is that of the level it lies in, an even spread within each."""
    made, rows, arcs = best(2, 2.0), 100_000, 72
    answers = draw(made, rows, seed=1)
    angle = np.abs(np.arctan2(answers[:, 1], answers[:, 0]))
    inside = angle <= math.acos(made.gamma)
    assert stats.binomtest(int(inside.sum()), rows, made.inside).pvalue > 1e-4
    for part, ends in ((angle[inside], (0, math.acos(made.gamma))), (angle[~inside], (math.acos(made.gamma), math.pi))):
        counts = np.histogram(part, arcs, ends)[0]
        assert stats.chisquare(counts).pvalue > 1e-4


def test_extremes_of_the_random_numbers():
    made = best(9, 4.0)
    ends = np.array([2.0**-53, made.inside - 2.0**-53, made.inside, 1 - 2.0**-53])
    units = np.tile(np.eye(9)[2], (4, 1))
    answers = made.answers(units, ends, np.random.default_rng(0).normal(size=(4, 9)))
    assert np.isfinite(answers).all()
    along = answers[:, 2]
    assert (along[:2] >= made.gamma - 1e-12).all()
    assert (along[2:] <= made.gamma + 1e-12).all()
