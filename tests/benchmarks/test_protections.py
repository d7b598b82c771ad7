"""Protections that were tried: each does what its name says, and what is read is counted as elsewhere."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from benchmarks import protections
from benchmarks.report import protections as shown
from benchmarks.resisting import Adversarial, Rounded
from fedonce import InputError
from fedonce.assess.attacks import Finding
from fedonce.assess.attacks.base import VERDICTS
from fedonce.data.table import Table

CPU = torch.device("cpu")
ROWS = np.random.default_rng(0).standard_normal((4000, 5)).astype(np.float32)


def learnt(learner, rows=ROWS, dim=2):
    learner.fit(rows, dim, np.random.default_rng(0), CPU)
    return learner


@pytest.mark.parametrize("how", ["nearest", "randomised", "triangular", "subtractive"])
def test_rounded_values_are_right_on_average_and_the_same_when_asked_again(how):
    learner = learnt(Rounded(3, how))
    told, truth = learner.transform(ROWS, CPU), learner.base_.transform(ROWS, CPU)
    np.testing.assert_array_equal(told[:7], learner.transform(ROWS[:7], CPU))
    error = (told - truth) / learner.step_
    widest = {"nearest": 0.5, "randomised": 1.0, "triangular": 1.5, "subtractive": 0.5}[how]
    inside = np.all((truth > learner.low_ + 2 * learner.step_) & (truth < learner.low_ + 5 * learner.step_), axis=1)
    assert np.abs(error[inside]).max() <= widest + 1e-3
    assert np.abs(error[inside].mean(axis=0)).max() < 0.06
    assert len(np.unique(told[:, 0])) <= 8 or how == "subtractive"


def test_another_secret_rounds_otherwise():
    first, second = (learnt(Rounded(3, "randomised")) for _ in range(2))
    assert (first.transform(ROWS, CPU) != second.transform(ROWS, CPU)).any()
    again = Rounded(3, "randomised", key=first.key)
    again.restore(first.state())
    np.testing.assert_array_equal(again.transform(ROWS, CPU), first.transform(ROWS, CPU))


def test_an_adversary_takes_a_yes_no_column_out_of_the_values():
    flag = (np.arange(4000) % 2).astype(np.float32) * 2 - 1
    rows = np.column_stack([flag, ROWS[:, :2]]).astype(np.float32)
    told = {}
    for weight in (0.0, 3.0):
        values = learnt(Adversarial(weight, epochs=10), rows).transform(rows, CPU)
        told[weight] = max(abs(np.corrcoef(values[:, j], flag)[0, 1]) for j in range(2))
    assert told[0.0] > 0.3
    assert told[3.0] < told[0.0] / 2


def test_flags_are_yes_no_columns_and_numbers_are_refused():
    assert protections.yes_no(Table.of(np.array([[0.0, 1.0], [1.0, 0.0]]))).matrix.dtype == bool
    with pytest.raises(InputError, match="two values each"):
        protections.yes_no(Table.of(np.array([[0.0], [1.0], [2.0]])))


def test_the_worst_column_counts():
    found = [
        Finding("x", "a", "boolean", 0.7, 0.6, rows=900),
        Finding("x", "b", "category", 0.95, 0.5, rows=900),
        Finding("x", "c", "number", 0.3, rows=900),
    ]
    worst = protections.worst(found)
    assert worst == {"points": pytest.approx(45), "verdict": "readable", "readable": 1, "r2": 0.3}
    assert protections.worst([]) == {"points": None, "verdict": None, "readable": 0, "r2": None}
    assert shown.VERDICTS == VERDICTS


def test_a_message_is_measured():
    line = protections.measure(protections.problem_of("shop", 0), "PCA, 2 bits", 0)
    assert 55 < line["accuracy"] < 85
    assert line["nothing"]["verdict"] == "readable"


def test_the_table_says_what_a_protection_costs(monkeypatch, tmp_path):
    read = {"points": 10.0, "verdict": "partly"}
    lines = [
        {
            "data": "shop",
            "message": message,
            "seed": seed,
            "accuracy": value + seed,
            "nothing": read,
            "wider": read,
            "known": read,
        }
        for message, value in (("PCA, 8 bits", 70.0), ("other", 68.0))
        for seed in range(2)
    ]
    (tmp_path / "found.json").write_text(json.dumps({"lines": lines}))
    monkeypatch.setattr(shown, "RESULTS", tmp_path / "found.json")
    plain, other = (row.strip("| ").split(" | ") for row in shown.section().splitlines()[2:])
    assert plain[2:4] == ["70.50 (2)", "-"]
    assert other[2:] == ["68.50 (2)", "-2.00 ± 0.00", *["+10.0, partly"] * 3]
