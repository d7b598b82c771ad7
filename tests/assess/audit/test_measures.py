from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, chi2

from fedonce.assess.audit import measures
from fedonce.privacy.accountants import deltas
from fedonce.privacy.events import Gaussian, SampledGaussian


def noise(numbers, parts=1):
    found = measures.Noise()
    for part in np.array_split(numbers, parts):
        found.add(part)
    return found.measured("noise")


def test_normal_noise_passes_and_its_chance_is_even():
    rng = np.random.default_rng(0)
    chances = np.array([noise(rng.standard_normal(500)).chance for _ in range(400)])
    assert chances.min() > 1e-4
    assert 0.15 < (chances < 0.2).mean() + 0.05 < 0.3  # at most a fifth, and not far fewer


@pytest.mark.parametrize("factor", [0.9, 0.8])
def test_the_power_is_how_often_weaker_noise_is_found(factor):
    rng = np.random.default_rng(1)
    stated = measures.power_of_noise(600, factor)
    found = [2 * chi2.cdf(np.square(factor * rng.standard_normal(600)).sum(), 600) for _ in range(2000)]
    counted = np.mean([chance < measures.LEVEL / 2 for chance in found])
    assert 0 < stated < 1 or factor < 0.9
    assert counted == pytest.approx(stated, abs=0.035)


def test_enough_numbers_show_half_the_noise_and_a_handful_does_not():
    assert measures.power_of_noise(measures.ENOUGH) > 1 - 1e-9
    assert measures.power_of_noise(measures.ENOUGH, 0.8) == pytest.approx(0.97, abs=0.01)
    assert measures.power_of_noise(10) < 0.2
    assert measures.power_of_noise(10, 0.0) == 1.0


@pytest.mark.parametrize("shape", ["uniform", "repeated", "heavy", "none"])
def test_noise_of_another_shape_is_found(shape):
    rng = np.random.default_rng(2)
    numbers = {
        "uniform": rng.uniform(-math.sqrt(3), math.sqrt(3), 20_000),
        "repeated": np.tile(rng.standard_normal(400), 50),
        "heavy": rng.laplace(scale=math.sqrt(0.5), size=20_000),
        "none": np.zeros(20_000),
    }[shape]
    assert not noise(numbers, parts=50).passed


def test_poisson_samples_pass_and_others_do_not():
    rng, steps, rate = np.random.default_rng(3), 80, 0.1
    assert measures.sampling("s", rng.binomial(steps, rate, 500), steps, rate).passed
    assert not measures.sampling("s", rng.binomial(steps, 2 * rate, 500), steps, rate).passed
    assert not measures.sampling("s", np.full(500, 8), steps, rate).passed
    few = measures.sampling("s", rng.binomial(1, rate, 20), 1, rate)
    assert few.power == pytest.approx(binom.sf(binom.isf(measures.LEVEL / 4, 20, rate), 20, 2 * rate))
    assert few.power < 0.05


def response(epsilon, rng, values=4, rows=20_000):
    """Randomised response."""
    truth = rng.integers(0, values, rows)
    keep = 1 / (1 + (values - 1) * math.exp(-epsilon))
    told = np.where(rng.random(rows) < keep, truth, (truth + rng.integers(1, values, rows)) % values)
    return truth, np.eye(values, dtype=bool)[told]


def test_answers_of_the_claimed_epsilon_pass_and_of_twice_do_not():
    rng = np.random.default_rng(4)
    found = measures.answers("rr", lambda epsilon: response(epsilon, rng), 1.0)
    assert found.passed
    assert found.found == pytest.approx(1.0, abs=0.1)
    assert found.power > 0.999
    assert not measures.answers("rr", lambda epsilon: response(2 * epsilon, rng), 1.0).passed


def test_few_answers_of_a_large_epsilon_show_nothing_and_that_is_stated():
    rng = np.random.default_rng(5)
    found = measures.answers("rr", lambda epsilon: response(epsilon, rng, rows=100), 12.0)
    assert found.passed
    assert found.power < 0.01


def test_answers_that_spare_one_value_are_found():
    """In all they tell as much as they may; one value is always told truly, the others less."""
    rng = np.random.default_rng(6)

    def draw(claimed):
        truth, speaks = response(1.0, rng)
        speaks[truth == 3] = np.eye(4, dtype=bool)[3]
        return truth, speaks

    share = measures.answers("spares", draw, 1.0)
    fair = measures.answers("spares", draw, share.found)  # a claim that fits the share of all
    assert abs(fair.found - fair.planned) < 0.2
    assert not fair.passed


def test_guesses_may_be_as_good_as_randomised_response_and_no_better():
    rng = np.random.default_rng(7)

    def guess(epsilon, rows=1000):
        truth, speaks = response(epsilon, rng, rows=rows)
        return speaks[np.arange(rows), truth]

    assert measures.guesses("hints", guess, 1.0, 4).passed
    assert measures.guesses("hints", lambda epsilon: guess(0.0), 1.0, 4).found < 0.3
    assert measures.guesses("hints", lambda epsilon: guess(epsilon, 50), 1.0, 4).power < 0.9
    assert not measures.guesses("hints", lambda epsilon: guess(2 * epsilon), 1.0, 4).passed


@pytest.mark.parametrize(
    "events", [[Gaussian(3.0)], [SampledGaussian(1.2, 0.1, 40)], [Gaussian(4.0), SampledGaussian(1.5, 0.2, 20)]]
)
def test_a_simulated_price_is_the_accountant_s(events):
    losses = measures.losses(events)
    simulated = np.maximum(0, -np.expm1(np.minimum(0.5 - losses, 0))).mean()
    assert simulated == pytest.approx(deltas(events, [0.5])[0], rel=0.05)
    found = measures.price("price", events, 1.0)
    assert found.passed
    assert found.power > 0.999
    cheaper = [type(each)(**{**vars(each), "noise": each.noise / 2}) for each in events]
    assert np.maximum(0, -np.expm1(np.minimum(0.5 - measures.losses(events, 0.5), 0))).mean() == pytest.approx(
        deltas(cheaper, [0.5])[0], rel=0.05
    )
