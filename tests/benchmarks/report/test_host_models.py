from __future__ import annotations

from benchmarks.report import host_models


def line(model, seed, value, seconds):
    return {
        "data": "phishing",
        "method": "FedOnce (estimator)",
        "loader": {},
        "division": {},
        "config": {"dim": 3, "bits": 8, "model": model},
        "seed": seed,
        "metric": "accuracy",
        "value": value,
        "complete": True,
        "parties": 10,
        "rows": 100,
        "payload": 2700,
        "seconds": seconds,
    }


def test_a_row_for_each_model_with_bytes_spread_and_seconds(monkeypatch):
    lines = [line("network", 0, 97.0, 10.0), line("network", 1, 98.0, 14.0), line("trees", 0, 96.0, 1.0)]
    monkeypatch.setattr(host_models, "results", lambda name: lines)
    text = host_models.section()
    assert "| data (parties) | method | model | bytes per row and guest | accuracy (%) or RMSE | seconds |" in text
    assert "| phishing (10) | FedOnce | network | 3 | 97.50 ± 0.50 | 12 |" in text
    assert "| phishing (10) | FedOnce | trees | 3 | 96.00 | 1 |" in text
