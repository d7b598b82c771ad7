"""What is read in messages, and what it costs: a row for each data set and message."""

from __future__ import annotations

from benchmarks.report import leakage, leakage_picture


def line(value=90.0, seed=0, points=12.0, **config):
    found = {"columns": 7, "readable": 2, "gain": 0.5, "points": points}
    return {
        "data": "shop",
        "loader": {},
        "division": {},
        "config": {"model": "trees", "dim": 8} | config,
        "seed": seed,
        "value": value,
        "metric": "accuracy",
        "parties": 3,
        "rows": 100,
        "payload": 500,
        "complete": True,
        "by nothing": found,
        "by wider": {"columns": 0, "readable": 0},
        "by known": found | {"readable": 3, "gain": 0.9, "points": None},
    }


def test_runs_are_told_by_what_was_sent(monkeypatch):
    lines = [
        line(learner="pca"),
        line(92.0, 1, learner="pca"),
        line(learner="pca", noise=0.3),
        line(protect="cells:20"),
        line(dim=16, local_epsilon=4),
    ]
    monkeypatch.setattr(leakage, "results", lambda name: lines)
    rows = [row.strip("| ").split(" | ") for row in leakage.section().splitlines()[2:]]
    assert [row[1] for row in rows] == [
        "pca 8x8",
        "pca 8x8, noise 0.3",
        "protect cells:20",
        "16 cells, local epsilon 4",
    ]
    assert rows[0] == [
        "shop of the example (3)",
        "pca 8x8",
        "91.00 ± 1.00 (2)",
        "2.50",
        "2 of 7",
        "0 of 0",
        "3 of 7",
        "50 %; yes/no: 12.0 points above guessing",
        "-",
        "90 %",
    ]


def test_the_picture_is_drawn(monkeypatch, tmp_path):
    monkeypatch.setattr(leakage_picture, "results", lambda name: [line(learner="pca"), line(protect="cells:20")])
    leakage_picture.draw(tmp_path)
    assert (tmp_path / "leakage.png").stat().st_size > 1000
