from __future__ import annotations

from benchmarks.report import varied


def line(method, value, seed=0, **config):
    return {
        "data": "superconduct",
        "method": method,
        "loader": {},
        "division": {},
        "config": {"model": "trees"} | config,
        "seed": seed,
        "metric": "rmse",
        "value": value,
        "complete": True,
        "parties": 10,
    }


def test_guests_absent_at_prediction_stand_beside_the_host_alone(monkeypatch):
    runs = [line("FedOnce", 0.05, late=0), line("FedOnce", 0.06, late=9), line("FedOnce", 0.08, 1, late=9)]
    monkeypatch.setattr(varied, "results", {"absent": [*runs, line("Solo", 0.07)]}.__getitem__)
    head, _, row = varied.absent().splitlines()
    assert head == "| data (parties) | model | 0 absent | 9 absent | Solo |"
    assert row == "| superconduct (10) | trees | 0.0500 | 0.0700 ± 0.0100 | 0.0700 |"
