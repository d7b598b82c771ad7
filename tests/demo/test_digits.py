from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from fedonce.demo import digits


@pytest.fixture(scope="module")
def result():
    told = []
    result = digits.run(seed=1, tell=told.append)
    assert told == [f"training {method.name}" for method in digits.METHODS]
    return result


def test_fedonce_is_close_to_combine_and_far_from_solo(result):
    accuracy = {outcome.method: outcome.accuracy for outcome in result.outcomes}
    assert accuracy["FedOnce"] > accuracy["Combine"] - 0.03
    assert accuracy["FedOnce"] > accuracy["Solo"] + 0.15
    assert all(accuracy[method.name] > accuracy["Solo"] for method in digits.ATTACKED)


def test_what_was_sent_is_counted(result):
    fedonce = result.named("FedOnce")
    assert fedonce.messages == 3
    assert sum(each.bytes for each in fedonce.sent) == fedonce.bytes
    assert [each.guest for each in fedonce.sent] == ["party2", "party3", "party4"]
    assert result.named("FedOnce, half a byte").bytes < fedonce.bytes / 3
    assert [outcome.messages for outcome in result.outcomes] == [0, 3, 0, 3, 3, 3]


def test_less_is_read_where_less_is_told(result):
    read = {each.method: each.exposed for each in result.outcomes if each.exposed is not None}
    assert all(sum(each.columns.values()) == 16 for each in read.values())
    assert read["FedOnce"].columns["readable"] > read["FedOnce, local epsilon"].columns["readable"]
    errors = {name: np.abs(each.rebuilt - result.images).mean() for name, each in read.items()}
    assert errors["FedOnce"] < errors["FedOnce, half a byte"] < errors["FedOnce, local epsilon"]
    own = digits.PARTIES[digits.HOST]
    assert (read["FedOnce"].rebuilt[:, own] == result.images[:, own]).all()  # the host has its own quadrant


def test_the_worth_is_also_told_by_rows_held_back(result):
    validation = result.named("FedOnce").validation
    assert validation.gain.value > 5 * validation.gain.error
    assert "mlp" in result.named("FedOnce").chosen


def test_without_the_accountant_all_else_is_shown(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    unpriced = replace(digits.BUDGET, given={**digits.BUDGET.given, "epsilon": 2.345})  # what was priced is remembered
    result = digits.run(methods=(digits.SOLO, unpriced))
    assert [each.method for each in result.outcomes] == ["Solo"]
    assert "pip install 'fedonce[privacy]'" in result.skipped
