from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedonce import BudgetError
from fedonce.assess import audit, audit_report
from fedonce.learners import NAT, PCA, Autoencoder, Random
from fedonce.privacy.budget import Task
from fedonce.privacy.noise import SecretRandom
from tests.assess.audit.weakened import one_purse, rows, weaken

AUTOENCODER = Autoencoder(hidden=(8,), epochs=4, private_batch=60)


@pytest.mark.parametrize("learner", [PCA(), AUTOENCODER, Random()], ids=lambda learner: learner.name)
def test_private_learners_pass(learner):
    found = audit.check_learner(learner, rows())
    assert found.passed
    assert found.elsewhere == 0
    if learner.name == "random":
        assert found.measured == ()
        return
    assert 0 < found.moved <= 1 + audit.TOLERANCE
    assert found.bits.numbers > 50
    assert found.price == pytest.approx(2.0, rel=0.01)
    assert all(each.power > 0.999 for each in found.measured)


def test_sums_of_nat_move_further_and_where_the_row_was_not_drawn():
    found = audit.check_learner(NAT(epochs=6, batch=60), rows(), unsound=True)
    assert not found.passed
    assert found.moved > 1.5
    assert found.elsewhere > 0.1
    assert all(each.passed for each in found.measured)  # its noise is as planned: the fault is elsewhere


@pytest.mark.parametrize("factor", [0.5, 0.0, 2.0])
@pytest.mark.parametrize(
    ("learner", "line"),
    [
        (PCA(), "PCA: mean"),
        (PCA(), "PCA: radius"),
        (PCA(), "PCA: second moments"),
        (AUTOENCODER, "autoencoder"),
    ],
    ids=["mean", "radius", "second moments", "autoencoder"],
)
def test_other_noise_than_planned_is_found_in_each_release(monkeypatch, learner, line, factor):
    weaken(monkeypatch, factor, line)
    found = audit.check_learner(learner, rows())
    assert [each.what for each in found.measured if not each.passed] == [f"noise of {line}"]
    assert not found.passed
    (own,) = (each for each in found.measured if not each.passed)
    assert own.found == pytest.approx(factor, rel=0.25, abs=0.01)


@pytest.mark.parametrize("line", ["PCA: mean", "PCA: radius", "PCA: second moments", "host's model"])
def test_half_of_the_host_s_noise_is_found(monkeypatch, line):
    data, labels = audit_report.digits(0)
    weaken(monkeypatch, 0.5, line)
    found = audit_report.check_host(data[:400, :16], labels[:400])
    assert [each.what for each in found.measured if not each.passed] == [f"noise of {line}"]
    assert found.exact_passed


def test_a_learner_of_a_user_s_own_is_checked_likewise():
    class Lazy(PCA):
        """It adds up rows as PCA does, and takes the noise away where it can."""

        def fit_private(self, rows, dim, rng, device, purse):
            class Half(SecretRandom):
                def whole_normals(self, count, scale):
                    return super().whole_normals(count, scale) // 2

            super().fit_private(rows, dim, rng, device, purse_with(purse, Half()))

    def purse_with(purse, random):
        purse.random = random
        return purse

    found = audit.check_learner(Lazy(), rows())
    assert {each.what for each in found.measured if not each.passed} == {
        "noise of PCA: mean",
        "noise of PCA: radius",
        "noise of PCA: second moments",
    }


def test_samples_drawn_twice_as_often_or_in_turn_are_found(monkeypatch):
    honest = SecretRandom.poisson_sample
    monkeypatch.setattr(SecretRandom, "poisson_sample", lambda self, n, rate: honest(self, n, 2 * rate))
    twice = audit.check_learner(AUTOENCODER, rows())
    assert "samples" in [each.what for each in twice.measured if not each.passed]
    turns = iter(range(10**6))

    def in_turn(self, n, rate):
        size = round(n * rate)
        return np.sort((next(turns) * size + np.arange(size)) % n)

    monkeypatch.setattr(SecretRandom, "poisson_sample", in_turn)
    shuffled = audit.check_learner(AUTOENCODER, rows())
    assert [each.what for each in shuffled.measured if not each.passed] == ["samples"]


def test_an_accountant_that_asks_too_little_is_found(monkeypatch):
    from fedonce.privacy import accountants

    honest = accountants.deltas
    monkeypatch.setattr(accountants, "deltas", lambda events, epsilons: honest(events, epsilons) / 2)
    found = audit.check_learner(PCA(), rows())
    assert [each.what for each in found.measured if not each.passed] == ["delta at half the epsilon"]


def test_what_costs_more_than_is_claimed_is_found():
    def train(own, purse):
        purse.release("sum", own.sum(axis=0), 2)

    data, purse = np.ones((20, 4), int), one_purse([Task("", "sum", 1.0)], epsilon=4.0)
    assert audit.check_training("sum", train, data, purse, 4.0).passed
    found = audit.check_training("sum", train, data, purse, 2.0)
    assert found.price == pytest.approx(4.0, rel=0.01)
    assert not found.passed


def test_a_release_with_too_small_a_sensitivity_is_found():
    def train(own, purse):
        purse.release("sum", own.sum(axis=0), 1)

    data = np.ones((20, 4), int)  # each row is 2 long
    found = audit.check_training("sum", train, data, one_purse([Task("", "sum", 1.0)]), 2.0)
    assert found.moved == pytest.approx(2.0)
    assert not found.exact_passed
    assert not found.passed


@pytest.mark.parametrize("most", ["all", "fewer"])
def test_a_number_of_sums_that_tells_of_the_row_is_found(most):
    def train(own, purse):
        for k in range(2 if (len(own) == 20) == (most == "all") else 1):
            purse.release(f"sum {k}", own.sum(axis=0), 2)

    purse = one_purse([Task("", "sum 0", 1.0), Task("", "sum 1", 1.0)])
    with pytest.raises(BudgetError, match="another number of sums"):
        audit.check_training("sums", train, np.ones((20, 4), int), purse, 2.0)


def test_a_check_spends_nothing_of_the_purse():
    purse = one_purse(PCA().private_tasks(300, 1.0))
    before = replace(purse.ledger, entries=list(purse.ledger.entries))

    def train(own, spending):
        PCA().fit_private(own, 2, np.random.default_rng(0), torch.device("cpu"), spending)

    audit.check_training("pca", train, rows(), purse, 2.0)
    assert (purse.ledger, purse.used) == (before, set())
