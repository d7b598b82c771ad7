from __future__ import annotations

import pytest

from benchmarks.report import figures
from benchmarks.report.figures import Point


def point(sent, *values):
    return Point(sent, sum(values) / len(values), 0.0, {(None, seed): value for seed, value in enumerate(values)})


def test_bytes_needed_lie_between_the_points_around_a_value():
    points = [point(1e3, 90.0), point(1e5, 92.0), point(1e7, 96.0)]
    assert figures.bytes_needed(points, 92.0, "accuracy") == pytest.approx(1e5)
    assert figures.bytes_needed(points, 94.0, "accuracy") == pytest.approx(1e6)
    assert figures.bytes_needed(points, 89.0, "accuracy") == 1e3
    assert figures.bytes_needed(points, 97.0, "accuracy") is None
    errors = [point(1e3, 0.3), point(1e5, 0.1)]
    assert figures.bytes_needed(errors, 0.2, "rmse") == pytest.approx(1e4)


def test_sizes_and_cells():
    assert [figures.size(n) for n in (12, 1234, 2.5e6, 3e9)] == ["12 B", "1.23 kB", "2.5 MB", "3 GB"]
    lines = [{"metric": "rmse", "value": value} for value in (0.1, 0.3)]
    assert figures.mean_cell(lines) == "0.2000 ± 0.1000"
    assert figures.mean_cell([]) == "-"


def test_pick_looks_into_settings_and_leaves_out_what_gave_no_value():
    lines = [
        {"value": value, "config": {"dim": dim}, "division": {}, "loader": {}, "method": "A"}
        for value, dim in ((1.0, 2), (None, 2), (2.0, 3))
    ]
    assert [line["value"] for line in figures.pick(lines, dim=2, method="A")] == [1.0]
    assert figures.order(lines, "dim") == [2, 3]


def test_gain_is_of_paired_runs():
    assert figures.gain(point(1, 0.0, 1.0, 2.0), point(1, 1.0, 2.0, 3.0), "accuracy") == (1.0, 0.0)
    mean, error = figures.gain(point(1, 0.0, 0.0), point(1, 1.0, 3.0), "rmse")
    assert (mean, error) == (-2.0, pytest.approx(1.0))
    assert figures.gain(point(1, 0.0), point(1, 1.0), "accuracy") is None


def test_only_common_runs_are_compared():
    (first,), (second, third) = figures.common([point(1, 1.0, 5.0)], [point(2, 2.0, 4.0, 9.0), point(3, 6.0, 8.0)])
    assert (first.mean, second.mean, third.mean) == (3.0, 3.0, 7.0)
    assert figures.common([point(1, 1.0)], []) == [[point(1, 1.0)], []]
    assert figures.common([], []) == [[], []]


def test_times_says_when_a_number_is_a_bound():
    points = [point(1e3, 90.0), point(1e5, 92.0)]
    assert figures.times(points, point(1e2, 91.0), "accuracy") == "100"
    assert figures.times(points, point(1e2, 80.0), "accuracy") == "at most 10"
    assert figures.times(points, point(1e2, 99.0), "accuracy") == "more than 1,000"
