"""Few bytes: tables of what messages of so many bytes are good for."""

from __future__ import annotations

import pytest

from benchmarks.report import few_bytes, hints


def line(most, value, sent, learner="auto", model="auto", seed=0):
    return {
        "data": "phishing",
        "loader": {},
        "division": {},
        "config": {"model": model, "learner": learner, "bytes_per_row": most},
        "learners": ["cells"] if most < 1 else ["pca"],
        "host": "a",
        "seed": seed,
        "value": value,
        "metric": "accuracy",
        "parties": 3,
        "rows": 100,
        "bytes": sent,
        "complete": True,
    }


@pytest.fixture
def measured(monkeypatch):
    lines = [line(0.5, 90.0, 100), line(0.5, 92.0, 120, seed=1), line(3, 95.0, 400), line(0.5, 93.0, 90, "quantiles")]
    with_hints = [
        line(0, 93.0, 3200) | {"method": hints.OURS, "config": {"recipe": "large", "dim": 16, "hints": epsilon}}
        for epsilon in (None, 2, 2)
    ]
    with_hints[2]["value"] = 95.0
    stored = {"few_bytes": lines, "hints": [*with_hints, with_hints[0] | {"data": "mnist"}]}
    monkeypatch.setattr(few_bytes, "results", stored.__getitem__)
    monkeypatch.setattr(few_bytes, "frontiers", list)


def test_a_row_for_each_learner_and_number_of_bytes(measured):
    rows = few_bytes.section().splitlines()
    assert "| 0.5 | 0.55 | auto (cells) | auto | 91.00 ± 1.00 | 2 | - |" in rows
    assert "| 3 | 2.00 | auto (pca) | auto | 95.00 | 1 | - |" in rows
    assert "| 0.5 | 0.45 | quantiles | auto | 93.00 | 1 | - |" in rows


def test_the_summary_has_a_byte_or_less(measured):
    rows = few_bytes.summary().splitlines()[2:]
    assert len(rows) == 2
    assert all(row.startswith("| phishing (3) | 0.5 |") for row in rows)


def test_hints_stand_beside_by_their_epsilon(measured):
    (few,) = few_bytes.found()
    assert hints.curves(hints.with_large_networks(few.larger)) == {None: [(16.0, 93.0)], 2: [(16.0, 94.0)]}


def test_hints_of_several_sizes_are_a_curve_by_what_is_counted():
    large = {"recipe": "large", "hints": 1}
    runs = [
        line(0, 90.0, 3200, seed=seed) | {"method": hints.OURS, "payload": 100 * dim, "config": large | {"dim": dim}}
        for seed in (0, 1)
        for dim in (8, 16)
    ]
    small = line(0, 80.0, 3200) | {"method": hints.OURS, "payload": 0}
    assert hints.curves(hints.with_large_networks([*runs, small]), "payload") == {1: [(4.0, 90.0), (8.0, 90.0)]}
