from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from fedonce.assess import audit, audit_report
from fedonce.assess.audit import canaries
from fedonce.learners import PCA, Autoencoder
from fedonce.privacy.accountants import deltas, epsilon
from fedonce.privacy.budget import Purse
from fedonce.privacy.events import Gaussian, SampledGaussian
from tests.assess.audit.weakened import one_purse, rows, weaken

LEARNERS = [PCA(), Autoencoder(hidden=(4,), private_batch=300, epochs=10)]


def one_run(learner, count=2000, claimed=2.0):
    purse = one_purse(learner.private_tasks(500 + count, 1.0))

    def train(own, spending):
        learner.fit_private(own, 2, np.random.default_rng(0), torch.device("cpu"), spending)

    return audit.one_run(learner.name, train, rows(500), purse, claimed, count)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.name)
def test_one_run_passes_with_a_bound_below_the_claim(learner):
    found = one_run(learner)
    assert found.passed
    assert 0.4 < found.bound < 2.0
    assert found.power > 0.9
    assert not one_run(learner, claimed=0.2).passed  # a claim that the planned noise does not keep


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.name)
def test_half_the_noise_is_found(monkeypatch, learner):
    weaken(monkeypatch, 0.5)
    assert not one_run(learner).passed


def test_half_the_host_s_noise_is_found(monkeypatch):
    data, labels = audit_report.digits(0)
    weaken(monkeypatch, 0.5)
    assert not audit_report.canary_run(audit_report.HOST, data[:300, :8], labels[:300], 2.0, 2000).passed


def test_a_sample_that_is_the_same_at_every_step_is_found(monkeypatch):
    """Its size and rate are right; what a row adds is seen at every step or at none."""
    steps = Purse.steps

    def same(self, what, data, clip):
        made = steps(self, what, data, clip)
        honest, kept = made.random.poisson_sample, []

        def sample(n, rate):
            kept[:] = kept or [honest(n, rate)]
            return kept[0]

        made.random.poisson_sample = sample
        return made

    monkeypatch.setattr(Purse, "steps", same)
    found = audit.check_learner(LEARNERS[1], rows())
    assert [each.what for each in found.measured if not each.passed] == ["samples"]


@pytest.mark.parametrize("event", [Gaussian(2.0), SampledGaussian(0.8, 0.2, 30)])
def test_right_guesses_are_computed_as_they_are_counted(event):
    rng, count = np.random.default_rng(1), 200_000
    coins = rng.random(count) < 0.5
    if isinstance(event, Gaussian):
        scores = coins - 0.5 + 0.5 * event.noise * rng.standard_normal(count)
        assert canaries.accuracy([event], 0.5) == pytest.approx(norm.cdf(0.5))
    else:
        seen = rng.random((event.steps, count)) < event.rate
        scores = (seen * coins + 0.5 * event.noise * rng.standard_normal(seen.shape) - event.rate / 2).sum(axis=0)
    assert canaries.accuracy([event], 0.5) == pytest.approx(((scores > 0) == coins).mean(), abs=0.004)


def contradicted(correct, curve, level=0.05, count=1000, guesses=100):
    return canaries.contradicted(count, guesses, correct, curve, level)


def test_guesses_contradict_a_curve_from_some_number_on():
    curve = deltas([Gaussian(2.0)], canaries.EPSILONS)
    found = [contradicted(correct, curve) for correct in range(101)]
    assert found == sorted(found)
    assert not any(found[:70])
    assert all(found[95:])
    least = found.index(True)
    assert least < [contradicted(correct, curve, 1e-3) for correct in range(101)].index(True)
    stronger = deltas([Gaussian(4.0)], canaries.EPSILONS)
    assert [contradicted(correct, stronger) for correct in range(101)].index(True) < least


def test_of_pure_epsilon_randomised_response_is_contradicted_once_in_twenty_at_most():
    """Its guesses are as good as the epsilon allows, and independent."""
    pure = 1.0
    curve = np.maximum(0.0, (math.exp(pure) - np.exp(canaries.EPSILONS)) / (1 + math.exp(pure)))
    correct = np.random.default_rng(2).binomial(200, 1 / (1 + math.exp(-pure)), 400)
    found = {each: canaries.contradicted(200, 200, each, curve, 0.05) for each in set(correct.tolist())}
    assert np.mean([found[each] for each in correct.tolist()]) <= 0.08
    assert canaries.contradicted(200, 200, 175, curve, 0.05)


@pytest.mark.parametrize(("noise", "low", "high"), [(1.95, 0.9, 1.3), (0.59, 4.0, 5.5)])
def test_an_ideal_gaussian_is_bounded_near_its_epsilon_and_below(noise, low, high):
    events, count, delta = [Gaussian(noise)], 5000, 1e-5
    bounds = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        coins = rng.random(count) < 0.5
        scores = coins - 0.5 + noise * rng.standard_normal(count)
        sure = np.argsort(-np.abs(scores))[:500]
        right = int(((scores > 0) == coins)[sure].sum())
        bounds.append(canaries._bound(events, count, 500, right, delta))
    assert low < np.mean(bounds) < high
    assert max(bounds) < epsilon(events, delta)
