"""What hints are worth: the tables of the page."""

from __future__ import annotations

import json

import pytest

from benchmarks import store
from benchmarks.report import hints

HINTED = {"model": "network", "recipe": "large", "dim": 16, "bits": 8}


def line(value, method=hints.OURS, seed=0, **config):
    return {
        "data": "mnist",
        "loader": {},
        "division": {},
        "config": HINTED | config,
        "method": method,
        "seed": seed,
        "value": value,
        "metric": "accuracy",
        "parties": 4,
        "complete": True,
        "rows": 10,
        "bytes": 30 * (4 if config.get("dim") == 4 else 13),
    }


def in_bytes(value, most, **config):
    found = line(value, bytes_per_row=most, **config)
    del found["config"]["dim"]
    return found | {"bytes": 30 * most}


@pytest.fixture
def stored(monkeypatch):
    measured = {
        "hints": [
            line(98.0),
            line(98.5, hints=2),
            line(98.7, hints=2, seed=1),
            line(98.9, hints=2, members=3),
            line(97.5, hints=2, dim=4),
            line(99.0, "SplitNN"),
            in_bytes(98.1, 16),
            in_bytes(99.1, 16, hints=2),
            in_bytes(98.2, 8, hints=2),
        ],
        "hint_values": [
            line(98.0),
            line(97.0, seed=1),
            line(98.5, hints=2, hint_share=0.25),
            line(97.1, hints=2, hint_share=0.25, seed=1),
            line(98.2, hints=2, hint_share=1.0),
            line(90.0, hints=2, hint_share=0.5, dim=8),
        ],
    }
    monkeypatch.setattr(hints, "results", measured.__getitem__)


def test_a_row_for_each_size_of_message_the_usual_one_beside_other_methods(stored):
    head, _, *rows = hints.section().splitlines()
    assert head == "| data (parties) | message | no hints | label epsilon 2 | Solo | SplitNN | Combine |"
    assert rows == [
        "| MNIST (4) | 16 bytes | 98.10 (1) | 99.10 (1) | - | 99.00 (1) | - |",
        "| MNIST (4) | 16 x 8 bits | 98.00 (1) | 98.60 ± 0.10 (2) | - | - | - |",
        "| MNIST (4) | 8 bytes | - | 98.20 (1) | - | - | - |",
        "| MNIST (4) | 16 x 8 bits, 3 host networks | - | 98.90 (1) | - | - | - |",
        "| MNIST (4) | 4 x 8 bits | - | 97.50 (1) | - | - | - |",
    ]


def test_what_is_compared_with_other_methods_is_told_by_its_message(stored):
    found = hints.compared(hints.results("hints"))
    assert {sent: [line["value"] for line in runs] for sent, runs in found.items()} == {
        "16 bytes": [98.1, 99.1],
        "16 x 8 bits": [98.0, 98.5, 98.7],
    }
    assert list(hints.compared([line(97.0), line(96.0, dim=4)])) == ["16 x 8 bits"]


def test_values_by_hints_are_compared_with_none_on_the_same_rows(stored):
    head, _, row = hints.values_table().splitlines()
    assert head == "| data (parties) | label epsilon | no hints | 4 of 16 | 16 of 16 |"
    assert row == "| MNIST (4) | 2 | 97.50 | +0.30 (2) | +0.20 (1) |"


def test_curves_have_one_host_network(stored):
    found = hints.with_large_networks(hints.results("hints"))
    assert sorted(each["value"] for each in found) == [97.5, 98.0, 98.1, 98.2, 98.5, 98.7, 99.1]
    assert hints.curves(found) == {
        None: [(13.0, 98.0), (16.0, 98.1)],
        2: [(4.0, 97.5), (8.0, 98.2), (13.0, pytest.approx(98.6)), (16.0, 99.1)],
    }


def test_messages_are_shown_by_what_they_are_made_of(tmp_path, monkeypatch):
    made = {"data": "mnist", "epsilon": 2.0, "bytes_per_row": 16.0}
    lines = [
        made | {"by_hints": 0, "values": 16, "accuracy": 98.0},
        made | {"by_hints": 9, "values": 16, "accuracy": 98.5},
        made | {"by_hints": 9, "values": 32, "accuracy": 98.75},
        made | {"by_hints": 9, "values": 32, "accuracy": 97.0, "bytes_per_row": 8.0},
    ]
    (tmp_path / "hint_messages.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    monkeypatch.setattr(store, "RESULTS", tmp_path)
    assert hints.messages_table().splitlines() == [
        "| data | label epsilon | values by hints | 16 values in all | 32 values in all |",
        "|---|---|---|---|---|",
        "| MNIST | - | 0 | 98.00 | - |",
        "| MNIST | 2 | 9 | 98.50 | 98.75 |",
    ]
