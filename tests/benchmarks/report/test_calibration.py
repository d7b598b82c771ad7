from __future__ import annotations

from benchmarks.report import calibration


def line(seed, before, after, **config):
    return {
        "data": "phishing",
        "method": "Calibration",
        "loader": {},
        "division": {},
        "config": {"dim": 3, "model": "trees"} | config,
        "seed": seed,
        "metric": "accuracy",
        "value": 97.0 + seed,
        "complete": True,
        "parties": 10,
        "temperature": 1.5,
        "calibration error": {"before": before, "after": after},
        "log loss": {"before": 0.2, "after": 0.1},
    }


def test_a_row_for_each_model_and_for_a_rare_class(monkeypatch):
    runs = [line(0, 0.02, 0.01), line(1, 0.04, 0.01), line(0, 0.03, 0.02, rare=0.05)]
    monkeypatch.setattr(calibration, "results", {"calibration": runs}.__getitem__)
    *_, plain, rare = calibration.section().splitlines()
    both = "0.0300 ± 0.0100 | 0.0100 ± 0.0000 | 0.2000 ± 0.0000 | 0.1000 ± 0.0000"
    assert plain == f"| phishing (10) | trees | 2 | 97.50 ± 0.50 | 1.50 ± 0.00 | {both} |"
    assert rare == "| phishing (10), rare (5 %) | trees | 1 | 97.00 | 1.50 | 0.0300 | 0.0200 | 0.2000 | 0.1000 |"
