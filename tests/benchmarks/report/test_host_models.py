from __future__ import annotations

import pytest

from benchmarks.report import host_models

OURS, SOLO, COMBINE = "FedOnce (estimator)", "Solo (estimator)", "Combine (estimator)"


def line(model, seed, value, seconds, method=OURS, payload=2700, **more):
    return {
        "data": "phishing",
        "method": method,
        "host": "party1",
        "loader": {},
        "division": {},
        "config": {"dim": 3, "bits": 8} | ({"model": model} if model else {}),
        "seed": seed,
        "metric": "accuracy",
        "value": value,
        "complete": True,
        "parties": 10,
        "rows": 100,
        "payload": payload,
        "seconds": seconds,
    } | more


def split_tabm(seed, value, **more):
    return line(None, seed, value, 30.0, "SplitNN-TabM", 270_000, **more)


def split_mlp(seed, value, **more):
    return line(None, seed, value, 50.0, "SplitNN", 540_000, **more)


@pytest.fixture
def stored(monkeypatch):
    """Take these runs in place of the committed ones, by experiment."""
    runs = {"host_models": [], "performance": []}
    monkeypatch.setattr(host_models, "results", runs.__getitem__)
    return runs


def defaults(seeds, **more):
    values = {SOLO: 60.0, OURS: 90.0, COMBINE: 95.0}
    return [line("auto", s, value + s, 4.0, method, **more) for method, value in values.items() for s in seeds]


def test_a_row_for_each_model_with_bytes_spread_and_seconds(stored):
    stored["host_models"] += [
        line("network", 0, 97.0, 10.0),
        line("network", 1, 98.0, 14.0),
        line("trees", 0, 96.0, 1.0),
    ]
    text = host_models.section()
    assert "| data (parties) | method | model | on | bytes per row and guest | accuracy (%) or RMSE | seconds |" in text
    assert "| phishing (10) | FedOnce | network | CPU | 3 | 97.50 ± 0.50 | 12 |" in text
    assert "| phishing (10) | FedOnce | trees | CPU | 3 | 96.00 | 1 |" in text


def test_runs_on_a_gpu_have_rows_of_their_own_and_a_method_needs_no_model(stored):
    stored["host_models"] += [
        line("auto", 0, 97.0, 10.0),
        line("auto", 1, 98.0, 2.0, device="gpu"),
        split_tabm(0, 96.0, device="gpu"),
    ]
    rows = host_models.section().splitlines()[2:]
    assert rows == [
        "| phishing (10) | FedOnce | auto | CPU | 3 | 97.00 | 10 |",
        "| phishing (10) | FedOnce | auto | GPU | 3 | 98.00 | 2 |",
        "| phishing (10) | SplitNN-TabM |  | GPU | 300 | 96.00 | 30 |",
    ]


def test_the_better_split_network_is_compared_by_bytes_and_seconds(stored):
    stored["host_models"] += [*defaults([0, 1]), split_tabm(0, 96.0), split_tabm(1, 97.0)]
    stored["performance"] += [split_mlp(0, 93.0), split_mlp(1, 94.0)]
    (row,) = host_models.strongest().splitlines()[2:]
    assert row == (
        "| phishing (10) | CPU | 3 | 60.50 ± 0.50 | 90.50 ± 0.50 | 95.50 ± 0.50 | 96.50 ± 0.50 (TabM) | 100 | 4 / 30 |"
    )
    stored["performance"][:] = [split_mlp(0, 98.0), split_mlp(1, 99.0)]
    assert "| 98.50 ± 0.50 (MLP) | 200 | 4 / 50 |" in host_models.strongest()


def test_of_errors_the_smaller_is_better(stored):
    stored["host_models"] += [*defaults([0], metric="rmse"), split_tabm(0, 0.2, metric="rmse")]
    stored["performance"] += [split_mlp(0, 0.1, metric="rmse")]
    text = host_models.strongest()
    assert "| phishing (10), RMSE | CPU |" in text
    assert "| 0.1000 (MLP) |" in text


def test_methods_are_compared_on_the_splits_that_all_have(stored):
    stored["host_models"] += [*defaults([0, 1, 2]), split_tabm(1, 96.0)]
    (row,) = host_models.strongest().splitlines()[2:]
    assert row == "| phishing (10) | CPU | 3 | 61.00 | 91.00 | 96.00 | 96.00 (TabM) | 100 | 4 / 30 |"


def test_tabm_on_fewer_splits_than_plain_networks_is_left_out(stored):
    stored["host_models"] += [*defaults([0, 1]), split_tabm(1, 99.0)]
    stored["performance"] += [split_mlp(0, 93.0), split_mlp(1, 94.0)]
    assert "| 93.50 ± 0.50 (MLP) |" in host_models.strongest()


def test_splits_with_other_values_hosts_or_bits_are_not_compared(stored):
    stored["host_models"] += defaults([0])
    stored["performance"] += [
        split_mlp(0, 99.0, host="party2"),
        split_mlp(0, 99.0, config={"dim": 8}),
        split_mlp(0, 99.0, config={"dim": 3, "split_bits": 8}),
        split_mlp(0, 99.0, loader={"target": "x"}),
    ]
    (row,) = host_models.strongest().splitlines()[2:]
    assert row == "| phishing (10) | CPU | 3 | 60.00 | 90.00 | 95.00 | - | - | 4 |"


def test_a_gpu_is_compared_with_a_gpu_and_without_the_default_there_is_no_row(stored):
    stored["host_models"] += [
        *defaults([0]),
        split_tabm(0, 96.0, device="gpu"),
        line("trees", 0, 96.0, 1.0, device="gpu"),
    ]
    (row,) = host_models.strongest().splitlines()[2:]
    assert row.endswith("| 95.00 | - | - | 4 |")
    stored["host_models"] += defaults([0], device="gpu")
    _, row = host_models.strongest().splitlines()[2:]
    assert row.startswith("| phishing (10) | GPU |")
    assert row.endswith("| 96.00 (TabM) | 100 | 4 / 30 |")
