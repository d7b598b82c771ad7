from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from fedonce import InputError
from fedonce.privacy import accountants
from fedonce.privacy.events import Gaussian, SampledGaussian

DELTA = 1e-5
PAPER = SampledGaussian(1.0, 128 / 60000, 23438)  # noise 1, batches of 128 of 60000 rows, 50 epochs
# Epsilon of k parties that each do this.
PRICES = {
    ("simple", "reference"): {1: 2.228, 4: 9.468, 100: 268.88},
    ("moments", "reference"): {1: 2.228, 4: 4.555, 100: 29.84},
    ("moments", "rdp"): {1: 1.880, 4: 4.014, 100: 28.40},
    ("moments", "pld"): {1: 1.719, 4: 3.703, 100: 26.73},
}


@pytest.mark.parametrize("parties", [1, 4, 100])
@pytest.mark.parametrize(("division", "accountant"), PRICES)
def test_known_prices(division, accountant, parties):
    price = accountants.total([[PAPER]] * parties, DELTA, accountant, division)
    expected = PRICES[division, accountant][parties]
    assert price == pytest.approx(expected, abs=0.005 if parties == 4 else 0.05)


def test_moments_division_saves_what_the_paper_says():
    simple, moments = (accountants.total([[PAPER]] * 100, DELTA, "reference", name) for name in ("simple", "moments"))
    assert round(100 * (1 - moments / simple), 1) == 88.9


def analytic(mu):
    """Balle and Wang (2018): epsilon of one Gaussian release whose signal is mu times its noise."""

    def excess(epsilon):
        return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - DELTA

    return brentq(excess, 0, 100)


@pytest.mark.parametrize(
    "events", [[Gaussian(2.0)], [Gaussian(5.0, 3), Gaussian(2.0)], [Gaussian(40.0, 100), Gaussian(3.0), Gaussian(1.0)]]
)
def test_gaussian_releases_cost_what_one_release_costs(events):
    mu = math.sqrt(sum(event.times / event.noise**2 for event in events))
    price = accountants.epsilon(events, DELTA)
    assert price == pytest.approx(analytic(mu), rel=0.01)
    assert price > analytic(mu) * (1 - 1e-6)  # what is rounded is rounded upwards


@pytest.mark.parametrize(
    "events",
    [
        [Gaussian(1.0)],
        [SampledGaussian(1.5, 0.01, 300)],
        [Gaussian(4.0), SampledGaussian(1.0, 0.02, 50), SampledGaussian(2.0, 0.1, 20)],
    ],
)
def test_the_tighter_the_accountant_the_smaller_the_price(events):
    pld, rdp, reference = (accountants.epsilon(events, DELTA, name) for name in ("pld", "rdp", "reference"))
    assert 0 < pld <= rdp <= reference


@pytest.mark.parametrize("accountant", accountants.ACCOUNTANTS)
def test_nothing_is_free_and_no_noise_is_no_privacy(accountant):
    assert accountants.epsilon([], DELTA, accountant) == 0
    for silent in (Gaussian(0.0), SampledGaussian(0.0, 0.01, 1)):
        assert accountants.epsilon([Gaussian(10.0), silent], DELTA, accountant) == math.inf
        for division in accountants.DIVISIONS:
            assert accountants.total([[Gaussian(10.0)], [silent]], DELTA, accountant, division) == math.inf


@pytest.mark.parametrize("accountant", accountants.ACCOUNTANTS)
@pytest.mark.parametrize("sampled", [False, True])
def test_more_steps_cost_more_and_more_noise_costs_less(accountant, sampled):
    def price(noise, steps, delta=DELTA):
        event = SampledGaussian(noise, 0.05, steps) if sampled else Gaussian(noise, steps)
        return accountants.epsilon([event], delta, accountant)

    prices = [price(4.0, steps) for steps in (1, 4, 16)]
    assert (np.diff(prices) > 1e-3).all()
    assert price(8.0, 16) < prices[-1] < price(4.0, 16, delta=DELTA / 10)


def test_steps_in_parts_cost_what_they_cost_together():
    parts = [Gaussian(5.0), SampledGaussian(1.2, 0.02, 30), Gaussian(5.0, 2), SampledGaussian(1.2, 0.02, 70)]
    whole = [SampledGaussian(1.2, 0.02, 100), Gaussian(5.0, 3)]
    for accountant in accountants.ACCOUNTANTS:
        assert accountants.epsilon(parts, DELTA, accountant) == pytest.approx(
            accountants.epsilon(whole, DELTA, accountant), rel=1e-6
        )


def test_a_higher_rate_costs_more_and_all_rows_are_a_plain_release():
    low, high = (accountants.epsilon([SampledGaussian(2.0, rate, 4)], DELTA) for rate in (0.5, 1.0))
    assert low < high
    assert high == pytest.approx(accountants.epsilon([Gaussian(2.0, 4)], DELTA), rel=0.01)


def test_simple_division_splits_delta_too():
    events = [[Gaussian(3.0)], [Gaussian(6.0)]]
    alone = [accountants.epsilon(each, DELTA / 2, "rdp") for each in events]
    assert accountants.total(events, DELTA, "rdp", "simple") == pytest.approx(sum(alone))


@pytest.mark.parametrize(
    ("accountant", "division", "named"),
    [("gdp", "moments", "accountant.*Plan.*gdp"), ("pld", "even", "division.*Plan.*even"), (None, "moments", "None")],
)
def test_unknown_names_are_refused(accountant, division, named):
    with pytest.raises(InputError, match=named):
        accountants.check(accountant, division, "Plan")


def test_known_names_pass():
    for accountant in accountants.ACCOUNTANTS:
        for division in accountants.DIVISIONS:
            accountants.check(accountant, division, "Plan")
            assert accountants.total([[Gaussian(3.0)]], DELTA, accountant, division) > 0


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(InputError, match=r"dp_accounting.*pip install 'fedonce\[privacy\]'"):
        accountants.epsilon([Gaussian(1.2345)], DELTA)  # which no other test prices


@pytest.mark.parametrize("accountant", accountants.ACCOUNTANTS)
@pytest.mark.parametrize(
    "event", [SampledGaussian(0.01, 0.5, 10**8), SampledGaussian(0.05, 1e-9, 10**7), Gaussian(0.05, 10**7)]
)
def test_a_price_beyond_all_measure_is_a_number_and_no_error(event, accountant):
    assert accountants.epsilon([event], 1e-5, accountant) > 1e6


def test_a_price_that_protects_nobody_is_not_sought_on_a_fine_grid(monkeypatch):
    """Sixteen kinds of long steps took minutes; Rényi divergences give a price that is as sound."""
    monkeypatch.setattr(accountants, "_grid", lambda *_: pytest.fail("a grid was made"))
    odd = [SampledGaussian(0.6 + i / 1000, 0.01, 10**6) for i in range(16)]
    assert accountants.epsilon(odd, 1e-5) > accountants.MOST_SPREAD / 2


def test_the_more_kinds_of_steps_the_coarser_the_grid():
    def points(kinds, spread):
        return kinds * 2 * spread / accountants._grid([SampledGaussian(1.0, 0.1, 1)] * kinds, spread)

    for spread in (1, 30, 1000, 1e7):
        assert all(points(kinds, spread) <= accountants.MOST_WORK * 1.001 for kinds in (1, 5, 16, 64))
    # A plan of a dozen parties is priced as finely as ever.
    assert accountants._grid([SampledGaussian(1.0, 0.1, 2000)] * 12, 20.0) == accountants.FINEST
