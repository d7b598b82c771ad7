from __future__ import annotations

import math
import re

import numpy as np
import pytest

from fedonce import Guest, Hinting
from fedonce.assess import what_leaks
from fedonce.assess.attacks.base import Exposed
from fedonce.assess.attacks.hints import LabelsFromHints
from fedonce.data.table import Table
from fedonce.party.hinting import publish
from fedonce.privacy.response import answers

N = 4000


def table(tells=1.0, seed=0, rare=0.5):
    """Values of which the first tells the class, more or less, and labels."""
    rng = np.random.default_rng(seed)
    label = (rng.random(N) < rare).astype(int)
    values = rng.standard_normal((N, 3))
    values[:, 0] += tells * (2 * label - 1)
    return values, label


def told(label, epsilon, classes=2, seed=1):
    return answers(label, classes, epsilon, np.random.default_rng(seed).random((len(label), 2)))


def attacked(values, label, hints, epsilon=None):
    exposed = Exposed(values, Table.of(values), hints=hints, labels=label)
    return {each.way: each for each in LabelsFromHints(epsilon).run(exposed, np.random.default_rng(0))}


def most(finding):
    return float(re.search(r"at most ([\d.]+) % can be right", finding.note)[1]) / 100


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_a_hint_alone_is_right_as_often_as_its_epsilon_lets_it_and_no_bound_is_passed(epsilon):
    values, label = table()
    found = attacked(values, label, told(label, epsilon), epsilon)
    alone, both = found["hint alone"], found["values and hint"]
    assert alone.score == pytest.approx(1 / (1 + math.exp(-epsilon)), abs=0.025)
    assert most(alone) == pytest.approx(1 / (1 + math.exp(-epsilon)), abs=0.01)
    assert alone.low <= most(alone)
    assert both.low <= most(both)
    assert f"by a factor of at most {math.exp(epsilon):.3g}" in alone.note
    assert both.score > max(alone.score, found["values alone"].score)
    assert all(each.control < each.guess + 0.05 for each in found.values())


def test_values_tell_the_class_by_hints_of_other_rows():
    values, label = table(tells=1.5)
    found = attacked(values, label, told(label, 1.0), 1.0)
    assert found["values alone"].score > 0.9  # 0.933 is the best that there is
    assert attacked(table(tells=0)[0], label, told(label, 1.0), 1.0)["values alone"].verdict == "not by these attacks"


def test_a_weak_hint_at_a_rare_class_changes_nobody_s_mind():
    """Nine rows of ten have the same class: at epsilon 1 the best guess is that class, whatever the hint."""
    values, label = table(tells=0, rare=0.1)
    alone = attacked(values, label, told(label, 1.0), 1.0)["hint alone"]
    assert alone.score == pytest.approx(alone.guess)
    assert most(alone) == pytest.approx(alone.guess, abs=0.001)
    assert alone.verdict == "not by these attacks"


@pytest.mark.parametrize("epsilon", [None, math.inf])
def test_labels_as_they_are_are_read(epsilon):
    values, label = table()
    found = attacked(values, np.array(["no", "yes"])[label], told(label, math.inf), epsilon)
    assert found["hint alone"].score == 1.0
    assert found["hint alone"].verdict == "readable"


def test_epsilon_is_measured_where_it_is_not_given():
    rng = np.random.default_rng(0)
    label = rng.integers(0, 4, N)
    found = attacked(rng.standard_normal((N, 2)), label, told(label, 1.5, 4))
    assert float(re.match(r"epsilon ([\d.]+):", found["hint alone"].note)[1]) == pytest.approx(1.5, abs=0.15)


def test_rows_without_a_hint_are_left_out_and_few_are_nothing():
    values, label = table()
    hints = told(label, 2.0)
    hints[::2] = -1
    assert {each.rows for each in attacked(values, label, hints).values()} == {N // 2}
    hints[40:] = -1
    assert attacked(values, label, hints) == {}
    assert attacked(values, np.arange(N), told(label, 2.0)) == {}


def test_of_a_guest_s_own_message_by_name():
    values, label = table()
    hints = publish(label, Hinting(2.0))
    message = Guest("shop", "pca", 3).learn(values, hints=hints)
    named = what_leaks(message.values, Table.of(values), "labels from hints", hints=hints.answers, labels=label)
    assert [each.way for each in named.findings] == ["hint alone", "values alone", "values and hint"]
    both = named.findings[-1]
    assert both.low <= most(both)
    without = what_leaks(message.values, Table.of(values), "labels from hints")
    assert without.untried == {"labels from hints": ("hints", "labels")}
