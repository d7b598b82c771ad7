from __future__ import annotations

import numpy as np
import pytest

from fedonce.messages.codecs.steps import Steps, added_up

LOW, HIGH = np.array([-1, 0, 5], np.float32), np.array([1, 10, 5], np.float32)


def test_steps_span_their_range_and_a_column_that_does_not_vary_has_one():
    steps = Steps.between(LOW, HIGH, 4)
    assert steps.levels.tolist() == [4, 4, 0]
    codes = steps.encode(np.stack([LOW, HIGH, (LOW + HIGH) / 2]))
    assert codes.tolist() == [[0, 0, 0], [4, 4, 0], [2, 2, 0]]
    for column in range(3):
        np.testing.assert_allclose(
            steps.decode(codes[:, column], column),
            [LOW[column], HIGH[column], (LOW + HIGH)[column] / 2],
        )


def test_what_lies_outside_goes_to_the_edge():
    steps = Steps.between(LOW, HIGH, 255)
    assert steps.encode(np.array([[-1e9, 1e9, 1e9]], np.float32)).tolist() == [[0, 255, 0]]


def test_one_entry_serves_all_columns():
    steps = Steps.between(np.array([0.0]), np.array([15.0]), 15)
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    codes = steps.encode(values)
    np.testing.assert_array_equal(codes, values)
    np.testing.assert_array_equal(steps.decode(codes[:, 3], 3), values[:, 3])
    assert steps.columns(4) == ([15] * 4, [[0, 1, 2, 3]])


@pytest.mark.parametrize(
    ("groups", "parts"), [(None, [[0, 1, 2]]), ([2, 0, 2], [[1], [0, 2]]), ([0, 0, 0], [[0, 1, 2]])]
)
def test_columns_of_one_number_belong_together(groups, parts):
    steps = Steps.between(LOW, HIGH, 3)
    given = None if groups is None else np.array(groups, np.uint16)
    assert Steps(steps.low, steps.step, steps.levels, given).columns(3) == ([3, 3, 0], parts)


def test_layers_are_groups_of_their_own():
    steps = added_up([Steps.between(LOW, HIGH, 4), Steps.between(LOW / 8, HIGH / 8, 7)])
    assert (steps.layers, steps.levels.tolist()) == (2, [4, 4, 0, 7, 7, 0])
    assert steps.columns(6)[1] == [[0, 1, 2], [3, 4, 5]]
