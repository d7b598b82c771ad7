"""The table of learners says what the classes say, and texts that list learners are made from it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedonce import BudgetError, Guest, InputError
from fedonce.learners import LEARNERS, Learner, make
from fedonce.learners.auto import CHOICES
from fedonce.learners.names import OURS, Facts, private_ones


@pytest.mark.parametrize("name", OURS)
def test_facts_are_those_of_the_class(name):
    learner = LEARNERS[name]
    assert (learner.name, learner.facts) == (name, LEARNERS.built_in[name].facts)
    assert learner.facts.trains == hasattr(learner(), "epochs")
    assert learner.facts.exports == (learner.module is not Learner.module)


@pytest.mark.parametrize("name", OURS)
def test_facts_are_true(name):
    if LEARNERS.facts(name).private:
        assert make(name).private_tasks(100, 1.0)
    else:
        with pytest.raises(BudgetError):
            make(name).private_tasks(100, 1.0)
    learner, rows = make(name, epochs=1), np.random.default_rng(0).random((40, 4)).astype(np.float32)
    if LEARNERS.facts(name).images_only:
        with pytest.raises(InputError):
            learner.fit(rows, 2, np.random.default_rng(0), torch.device("cpu"))
    else:
        learner.fit(rows, 2, np.random.default_rng(0), torch.device("cpu"))


def test_choices_of_auto_are_learners():
    assert {LEARNERS[name] for name in CHOICES} == set(CHOICES.values())


def test_private_learners_are_listed_by_their_facts(monkeypatch):
    assert private_ones() == "'auto', 'pca', 'autoencoder' or 'random'"

    class Mine(Learner):
        name, facts = "mine", Facts(private=True)

    monkeypatch.setitem(LEARNERS, "mine", Mine)
    with pytest.raises(BudgetError, match="guests learn by 'auto', 'pca', 'autoencoder', 'random' or 'mine'"):
        make("patches").private_tasks(100, 1.0)


def test_a_guest_with_a_name_that_is_not_known():
    with pytest.raises(InputError, match=r"one of auto, nat, pca, .*\(did you mean 'random'\?\). Got 'randm' instead"):
        Guest("shop", "randm")
