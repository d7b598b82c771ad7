"""Rows held back: a seventh of many, all of few in turn."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from fedonce import FedOnceRegressor, InputError
from fedonce.hostmodels.base import Examples
from fedonce.hostmodels.holding import FEW, MOST_HELD, average, chances, splits


def held_once(parts, n_rows):
    held = np.concatenate([part.held for part in parts])
    assert sorted(held) == list(range(n_rows))
    for part in parts:
        assert not set(part.learn) & set(part.held)
        assert len(part.learn) + len(part.held) == n_rows


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("n_rows", [FEW, 7000])
def test_a_seventh_of_many_rows_with_the_same_mix_of_classes(n_rows):
    target = (np.arange(n_rows) % 10 == 0).astype(np.int64)
    (part,) = splits(target, rng())
    assert len(part.held) == pytest.approx(n_rows / 7, abs=1)
    assert target[part.held].sum() == pytest.approx(n_rows / 70, abs=1)
    assert not set(part.learn) & set(part.held)
    assert len(part.learn) + len(part.held) == n_rows
    assert (np.diff(part.learn) > 0).all()
    assert (np.diff(part.held) > 0).all()


def test_no_more_rows_are_held_back_than_make_a_score_sure():
    (part,) = splits(np.zeros(10 * MOST_HELD), rng())
    assert len(part.held) == MOST_HELD


def test_each_of_few_rows_is_held_back_once():
    target = (np.arange(300) % 10 == 0).astype(np.int64)
    parts = splits(target, rng())
    assert len(parts) == 3
    held_once(parts, 300)
    assert [int(target[part.held].sum()) for part in parts] == [10, 10, 10]


@pytest.mark.parametrize("n_rows", [FEW, 300])
def test_numbers_have_no_classes_to_mix(n_rows):
    target = np.random.default_rng(1).standard_normal(n_rows)
    parts = splits(target, rng())
    assert len(parts) == (1 if n_rows == FEW else 3)
    if n_rows < FEW:
        held_once(parts, n_rows)


TARGETS = {
    "a class with one row": np.r_[np.arange(29) % 2, 2],
    "a class with two rows": np.r_[np.arange(28) % 2, 2, 2],
    "one class": np.zeros(30, np.int64),
    "every row a class of its own": np.arange(30),
    "two rows of two classes": np.arange(2),
    "two rows of one class": np.zeros(2, np.int64),
    "two numbers": np.array([0.5, 1.5]),
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_rare_classes_and_very_few_rows(target):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts = splits(target, rng())
    held_once(parts, len(target))
    assert all(len(part.learn) for part in parts)


@pytest.mark.parametrize("rare", [np.r_[np.zeros(FEW - 1, np.int64), 1], np.arange(FEW) // 4], ids=["one row", "many"])
def test_classes_of_many_rows_that_cannot_be_on_both_sides(rare):
    (part,) = splits(rare, rng())
    assert len(part.held) == 286


def test_the_same_generator_holds_back_the_same_rows():
    target = np.arange(100) % 3
    for first, second in zip(splits(target, rng()), splits(target, rng()), strict=True):
        np.testing.assert_array_equal(first.held, second.held)
    other = splits(target, np.random.default_rng(1))
    assert not np.array_equal(other[0].held, splits(target, rng())[0].held)


def test_a_mean_by_weights_of_which_there_may_be_none():
    rows = np.array([1.0, 3.0])
    assert average(rows, None) == 2
    assert average(rows, np.array([3.0, 1.0])) == 1.5
    assert average(rows, np.zeros(2)) == 2


def test_rows_without_a_weight_among_some_count_alike():
    part = np.zeros((4, 1), np.float32)
    examples = Examples(part, part, part, np.arange(4), np.array([0.0, 0.0, 2.0, 2.0]))
    assert examples.counted is examples
    assert examples.take(np.array([0, 1])).counted.weight is None
    assert examples.take(np.array([1, 2])).counted.weight.tolist() == [0, 2]


def test_chances_of_far_logits():
    np.testing.assert_allclose(
        chances(np.array([[1e4, 1e4 + np.log(3)], [-1e4, 0]])), [[0.25, 0.75], [0, 1]], rtol=1e-6
    )


@pytest.mark.parametrize(("estimator", "rows"), [(FedOnceRegressor, 1)])
def test_too_few_rows_to_hold_any_back_are_refused_with_a_remedy(estimator, rows):
    X = np.random.default_rng(0).standard_normal((rows, 4))
    with pytest.raises(InputError, match=rf"n_samples={rows}\. Add rows, or take the network"):
        estimator(2, random_state=0).fit(X, np.arange(rows) % 2)
    estimator(2, random_state=0, model="network", host_epochs=1).fit(X, np.arange(rows) % 2)
