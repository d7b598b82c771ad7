"""Whoever is the host: a row for each way of sending that every host was tried with."""

from __future__ import annotations

from benchmarks.report import whoever


def line(host, value, most=None, learner="auto", seed=0):
    config = {"model": "trees", "dim": 3, "learner": learner} | ({} if most is None else {"bytes_per_row": most})
    return {
        "data": "phishing",
        "loader": {},
        "division": {},
        "config": config,
        "host": host,
        "seed": seed,
        "value": value,
        "metric": "accuracy",
        "parties": 2,
        "rows": 100,
        "bytes": 250,
        "complete": True,
    }


def test_mean_worst_and_best_of_all_hosts(monkeypatch):
    lines = [line("a", 90.0), line("b", 80.0), line("a", 95.0, 8), line("b", 93.0, 8), line("a", 99.0, 8, "quantiles")]
    lines.append(line("a", 10.0, seed=1))  # of a seed that the other host has not been tried with
    monkeypatch.setattr(whoever, "results", lambda name: lines)
    rows = [row.strip("| ").split(" | ") for row in whoever.section().splitlines()[2:]]
    assert rows == [
        ["phishing (2)", "3 values of 8 bits", "2.50", "85.00", "80.00", "90.00", "10.00", "1"],
        ["phishing (2)", "auto, at most 8 bytes per guest", "2.50", "94.00", "93.00", "95.00", "2.00", "1"],
    ]
    assert whoever.front().endswith("mean and worst: phishing 94.00, 93.00.")


def test_of_errors_the_largest_is_the_worst(monkeypatch):
    lines = [line("a", 0.05) | {"metric": "rmse"}, line("b", 0.06) | {"metric": "rmse"}]
    monkeypatch.setattr(whoever, "results", lambda name: lines)
    assert "| 0.0550 | 0.0600 | 0.0500 | 0.0100 |" in whoever.section()
