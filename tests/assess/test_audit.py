from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binom

from fedonce import BudgetError
from fedonce.assess import audit
from fedonce.learners import NAT, PCA, Autoencoder, Random
from fedonce.privacy.budget import Purse, Task, calibrate
from fedonce.privacy.noise import SecretRandom
from fedonce.privacy.response import answers


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return np.clip(rng.normal(size=(n, 8)) @ rng.normal(size=(8, 8)) * 0.3, -1, 1).astype(np.float32)


@pytest.mark.parametrize(
    "learner", [PCA(), Autoencoder(hidden=(8,), epochs=4, private_batch=60), Random()], ids=lambda learner: learner.name
)
def test_sums_of_private_learners_move_by_one_row_at_most(learner):
    found = audit.check_learner(learner, rows())
    assert found.passed
    assert found.elsewhere == 0
    if learner.name != "random":
        assert 0 < found.moved <= 1 + audit.TOLERANCE


def test_sums_of_nat_move_further_and_where_the_row_was_not_drawn():
    found = audit.check_learner(NAT(epochs=6, batch=60), rows(), unsound=True)
    assert not found.passed
    assert found.moved > 1.5
    assert found.elsewhere > 0.1


def one_purse(tasks, epsilon=2.0, delta=1e-5, seed=0):
    plan = calibrate([replace(task, party="audited") for task in tasks], epsilon, delta, "rdp")
    return Purse("audited", plan.of("audited"), plan.ledger(), SecretRandom(insecure_test_seed=seed))


def test_a_release_with_too_small_a_sensitivity_is_found():
    def train(own, purse):
        purse.release("sum", own.sum(axis=0), 1)

    data = np.ones((20, 4), int)  # each row is 2 long
    found = audit.coupled_check("sum", train, data, one_purse([Task("", "sum", 1.0)]))
    assert found.moved == pytest.approx(2.0)
    assert not found.passed


def test_a_number_of_sums_that_tells_of_the_row_is_found():
    def train(own, purse):
        for k in range(2 if len(own) == 20 else 1):
            purse.release(f"sum {k}", own.sum(axis=0), 2)

    purse = one_purse([Task("", "sum 0", 1.0), Task("", "sum 1", 1.0)])
    with pytest.raises(BudgetError, match="another number of sums"):
        audit.coupled_check("sums", train, np.ones((20, 4), int), purse)


def test_without_delta_the_bound_is_that_of_randomised_response():
    # All of r guesses right: accuracy^r = 5 %, and epsilon is the log odds of that accuracy.
    accuracy = 0.05 ** (1 / 30)
    assert audit.epsilon_bound(100, 30, 30, 0.0) == pytest.approx(math.log(accuracy / (1 - accuracy)), abs=1e-3)
    assert audit.p_value(100, 30, 24, 1.0, 0.0) == pytest.approx(binom.sf(23, 30, 1 / (1 + math.exp(-1))))
    assert audit.epsilon_bound(100, 30, 15, 0.0) == 0.0


def test_delta_lowers_the_bound():
    bounds = [audit.epsilon_bound(1000, 100, 95, delta) for delta in (0.0, 1e-5, 1e-3)]
    assert bounds[0] > bounds[1] > bounds[2]


@pytest.mark.parametrize(("epsilon", "low", "high"), [(2.0, 0.6, 0.75), (8.0, 2.8, 3.2)])
def test_an_ideal_gaussian_is_bounded_as_published(epsilon, low, high):
    strength = audit.gaussian_strength(epsilon, 1e-5)
    guesses = audit.best_guesses(1000, strength, 1e-5)
    bounds = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        coins = rng.random(1000) < 0.5
        scores = strength * coins + rng.normal(size=1000)
        bounds.append(audit.epsilon_bound(1000, guesses, audit.count_correct(scores, coins, guesses), 1e-5))
    assert low < np.mean(bounds) < high
    assert max(bounds) < epsilon


def train_autoencoder(own, purse):
    Autoencoder(hidden=(4,), private_batch=300).fit_private(
        own, 2, np.random.default_rng(0), torch.device("cpu"), purse
    )


def autoencoder_purse(n, epsilon):
    return one_purse(Autoencoder(hidden=(4,), private_batch=300, epochs=10).private_tasks(n, 1.0), epsilon)


def test_one_run_stays_below_the_claim_and_finds_missing_noise():
    data, canaries = rows(500), 400
    purse = autoencoder_purse(900, 4.0)
    found = audit.one_run("autoencoder", train_autoencoder, data, purse, 4.0, canaries)
    assert 0 < found.bound <= 4.0
    assert found.passed
    quiet = replace(purse.planned[0], event=replace(purse.planned[0].event, noise=purse.planned[0].event.noise / 8))
    broken = Purse("audited", (quiet,), purse.ledger, SecretRandom(insecure_test_seed=1))
    assert not audit.one_run("autoencoder", train_autoencoder, data, broken, 1.0, canaries).passed


def test_one_run_of_pca():
    data, canaries = rows(500), 400
    purse = one_purse(PCA().private_tasks(900, 1.0), 4.0)

    def train(own, spending):
        PCA().fit_private(own, 2, np.random.default_rng(0), torch.device("cpu"), spending)

    found = audit.one_run("pca", train, data, purse, 4.0, canaries)
    assert 0 < found.bound <= 4.0


def test_membership_tells_who_was_learnt_by_heart():
    rng = np.random.default_rng(0)
    base = rng.uniform(0.3, 0.7, 200)

    def by_heart(members):
        chances = base.copy()
        chances[members] += 0.25
        return chances

    heart = audit.membership("by heart", by_heart, 200, models=8)
    assert heart.area("likelihood ratio") > 0.95
    assert heart.area("RMIA") > 0.95
    assert heart.area("loss") > 0.8
    blind = audit.membership("blind", lambda members: base + rng.normal(scale=0.01, size=200), 200, models=8)
    assert 0.4 < blind.area("likelihood ratio") < 0.6
    assert 0.4 < blind.area("RMIA") < 0.6
    assert blind.caught("loss") < 0.1


def responding(epsilon, classes, seed=0):
    def tell(labels):
        return answers(labels, classes, epsilon, np.random.default_rng(seed).random((len(labels), 2)))

    return tell


@pytest.mark.parametrize(("epsilon", "classes"), [(0.5, 2), (1.0, 2), (2.0, 10), (4.0, 10)])
def test_hints_are_bounded_just_below_what_they_claim(epsilon, classes):
    found = [
        audit.told_labels("rr", responding(epsilon, classes, seed), epsilon, classes, seed=seed, answers=True)
        for seed in range(10)
    ]
    assert all(each.passed for each in found)
    assert np.mean([each.bound for each in found]) > 0.8 * epsilon
    assert found[0].correct / found[0].rows == pytest.approx(found[0].most, abs=0.02)


@pytest.mark.parametrize(("epsilon", "claimed"), [(4.0, 1.0), (1.3, 1.0), (math.inf, 4.0)])
def test_hints_that_tell_more_than_they_claim_are_found(epsilon, claimed):
    found = audit.told_labels("broken", responding(epsilon, 10), claimed, answers=True)
    assert not found.passed
    assert claimed < found.bound <= epsilon


def test_noise_that_spares_one_class_is_found():
    """On average labels are told as often as claimed, but one class is always told truly."""

    def tell(labels):
        told = answers(labels, 10, 0.9, np.random.default_rng(1).random((len(labels), 2)))
        return np.where(labels == 3, 3, np.where(told == 3, 4, told))

    found = audit.told_labels("spares", tell, 2.0, answers=True)
    assert found.correct / found.rows < found.most
    assert found.bound > 4
    assert not found.passed


def test_answers_anew_each_time_are_found_by_asking_often():
    def often(labels):
        counts = np.zeros((len(labels), 2))
        for seed in range(9):
            np.add.at(counts, (np.arange(len(labels)), responding(1.0, 2, seed)(labels)), 1)
        return counts.argmax(axis=1)

    assert not audit.told_labels("asked nine times", often, 1.0, 2).passed


def test_only_labels_that_are_asked_for_count_and_guesses_by_chance_show_nothing():
    def some(labels):
        return np.where(np.arange(len(labels)) % 2, -1, np.random.default_rng(5).integers(0, 10, len(labels)))

    found = audit.told_labels("chance", some, 1.0, rows=4000)
    assert (found.rows, found.bound, found.passed) == (2000, 0.0, True)
