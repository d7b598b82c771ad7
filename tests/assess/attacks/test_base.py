"""The contract: every attack, ours or a stranger's, says what it knows and tries, and is scored beside a guess."""

from __future__ import annotations

import numpy as np
import pytest

from fedonce.assess import what_leaks
from fedonce.assess.attacks import ATTACKS, Attack, Exposed, Facts, Finding, quick_set, register
from fedonce.assess.attacks.base import explained, share_interval, share_right, shuffled
from fedonce.assess.attacks.names import OURS
from fedonce.data.table import Table


@pytest.mark.parametrize("name", OURS)
def test_the_table_of_names_has_the_facts_of_the_classes(name):
    assert ATTACKS[name].name == name
    assert ATTACKS[name].facts == ATTACKS.facts(name)
    assert ATTACKS.facts(name).tries
    assert set(ATTACKS.facts(name).needs) <= set(Exposed.__dataclass_fields__)


@pytest.fixture
def stranger():
    """An attack from outside the package: one class, no file of ours."""

    @register
    class Echo(Attack):
        name = "echo"
        facts = Facts(tries="to find a column among the values as it is", quick=True)

        def run(self, exposed, rng):
            for name, column in zip(exposed.table.names, exposed.table.matrix.T, strict=True):
                same = float((np.asarray(exposed.values) == column[:, None]).all(axis=0).any())
                yield Finding(self.name, name, "number", same, rows=exposed.n_rows)

    yield Echo
    del ATTACKS["echo"]


def test_an_attack_from_outside_is_one_class_and_joins_the_quick_set(stranger):
    X = np.random.default_rng(0).standard_normal((200, 2))
    assert "echo" in quick_set()
    verdicts = {each.column: each for each in what_leaks(X[:, :1], Table.of(X), ["known rows", "echo"]).columns}
    assert verdicts[0].verdict == "readable"
    assert verdicts[0].finding.attack == "echo"
    assert verdicts[1].verdict == "not by these attacks"
    assert [each.attack for each in what_leaks(X, Table.of(X), [stranger()]).findings] == ["echo", "echo"]


def test_an_attack_that_lacks_what_it_needs_is_listed_and_not_tried():
    class Second(Attack):
        name = "second look"
        facts = Facts(tries="to compare two messages", needs=("second",))

        def run(self, exposed, rng):
            return [Finding(self.name, None, "link", float((exposed.second == exposed.values).all()))]

    X = np.zeros((5, 1))
    assert what_leaks(X, Table.of(X), [Second()]).untried == {"second look": ("second",)}
    assert what_leaks(X, Table.of(X), [Second()], second=X).findings[0].score == 1.0


@pytest.mark.parametrize(
    ("score", "guess", "control", "low", "verdict"),
    [
        (1.0, 0.6, 0.6, 0.99, "readable"),
        (0.95, 0.92, 0.92, 0.94, "partly"),  # above 0.9, but most of it is guessed
        (0.8, 0.6, 0.6, 0.78, "partly"),
        (0.62, 0.6, 0.6, 0.61, "not by these attacks"),
        (0.95, 0.6, 0.95, 0.94, "not by these attacks"),  # the control does as well
        (1.0, 0.6, 0.6, 0.5, "not by these attacks"),  # too few rows to tell
        (None, 0.0, None, None, "not by these attacks"),
    ],
)
def test_a_verdict_needs_more_than_guess_and_control(score, guess, control, low, verdict):
    assert Finding("x", "a", "boolean", score, guess, control, low, 1.0).verdict == verdict


def test_what_counts_is_where_an_attack_differs_from_guessing():
    rare = np.zeros(4000, bool)
    rare[:4] = True
    score, low, _ = share_right(np.ones(4000, bool), ~rare)
    assert (score, low > 0.999) == (1.0, True)  # all four found, nothing spoilt: better than guessing
    spoilt = np.arange(4000) != 10
    assert share_right(spoilt, ~rare)[1] < share_right(np.ones(4000, bool), ~rare)[1]
    assert share_right(~rare, ~rare) == (0.999, 0.999, pytest.approx(0.999, abs=1e-3))  # no better than guessing
    churn = np.random.default_rng(0).random((2, 2000)) < 0.5  # right as often as guessing, in other rows
    score, low, high = share_right(*churn)
    assert low < churn[1].mean() < high


def test_a_control_row_is_another_row():
    other = shuffled(1000, np.random.default_rng(0))
    assert not (other == np.arange(1000)).any()
    assert sorted(other) == list(range(1000))


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(0)
    shares = [share_interval(rng.binomial(200, 0.8) / 200, 200) for _ in range(400)]
    assert 0.92 < np.mean([low <= 0.8 <= high for low, high in shares]) < 0.98
    found = []
    for _ in range(400):
        truth = rng.standard_normal(500)
        found.append(explained(truth, truth + 0.5 * rng.standard_normal(500))[1:])
    assert 0.92 < np.mean([low <= 0.75 <= high for low, high in found]) < 0.98
