"""Answers of a stated epsilon: right on average, the same for the same row, and of other rows independent."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedonce.messages.message_checks import is_epsilon
from fedonce.privacy import LocalEpsilon

KEY = bytes(range(32))


def vectors(rows: int = 200, dim: int = 3) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(rows, dim)).astype(np.float32)


def fitted(values: np.ndarray, epsilon: float = 4.0, few: int = 0, key: bytes | None = KEY) -> LocalEpsilon:
    made = LocalEpsilon(epsilon, key=key)
    made.fit(values, few)
    return made


def test_vectors_are_right_on_average():
    values = vectors()
    made, rows = fitted(values), 20_000
    short = np.repeat(made.centre[None] + np.float32([[0.3, -0.2, 0.1]]) * np.float32(made.radius), rows, axis=0)
    told = made.blur(short)
    error = 5 * told.std(axis=0) / math.sqrt(rows)
    assert (np.abs(told.mean(axis=0) - [0.3, -0.2, 0.1]) < error).all()
    assert np.abs(told).max() <= made.bound
    assert told.var(axis=0).mean() == pytest.approx(made.variance, rel=0.15)


def test_rows_beyond_the_ball_are_clipped_to_it():
    values = vectors()
    made, rows = fitted(values), 20_000
    far = np.repeat(made.centre[None] + np.float32([[100, 0, 0]]) * np.float32(made.radius), rows, axis=0)
    told = made.blur(far)
    assert (np.abs(told.mean(axis=0) - [1, 0, 0]) < 5 * told.std(axis=0) / math.sqrt(rows)).all()


def test_few_values_are_right_on_average():
    numbers = np.full((20_000, 1), 2, np.float32)
    made = fitted(numbers, few=5)
    told = made.blur(numbers)
    assert sorted(set(np.unique(told).tolist())) == pytest.approx(made.marks)
    assert (np.abs(told.mean(axis=0) - np.eye(5)[2]) < 5 * told.std(axis=0) / math.sqrt(20_000)).all()
    assert told.var(axis=0).mean() == pytest.approx(made.variance, rel=0.1)


def test_the_same_row_gets_the_same_answer():
    values = vectors()
    made = fitted(values)
    names, contents = [f"{row}".encode() for row in range(200)], [row.tobytes() for row in values]
    once, order = made.blur(values, names, contents), np.random.default_rng(1).permutation(200)
    again = made.blur(values[order], [names[row] for row in order], [contents[row] for row in order])
    np.testing.assert_array_equal(once[order], again)


@pytest.mark.parametrize("change", ["name", "content", "key", "epsilon"])
def test_what_differs_is_answered_anew(change):
    values = vectors(1)
    made = fitted(vectors())
    before = made.blur(values, [b"a"], [b"content"])
    name, content = b"b" if change == "name" else b"a", b"other" if change == "content" else b"content"
    if change == "key":
        made = made.with_key(bytes(32))
    if change == "epsilon":
        made = fitted(vectors(), epsilon=4.000001)
    assert np.abs(made.blur(values, [name], [content]) - before).max() > 1e-3


def test_names_do_not_run_into_contents():
    made = fitted(vectors())
    first, second = (made.blur(vectors(1), [name], [content]) for name, content in ((b"ab", b"c"), (b"a", b"bc")))
    assert np.abs(first - second).max() > 1e-3


def test_without_a_key_every_answer_is_new():
    made = fitted(vectors(), key=None)
    assert np.abs(made.blur(vectors(), [b"a"] * 200, [b""] * 200) - made.blur(vectors())).max() > 1e-3


def test_no_rows():
    assert fitted(vectors()).blur(np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert fitted(vectors(), few=7).blur(np.zeros((0, 1), np.float32)).shape == (0, 7)


def test_a_model_has_a_name_that_needs_the_key():
    made = fitted(vectors())
    assert made.named("0123456789abcdef") == made.named("0123456789abcdef")
    assert made.named("0123456789abcdef") != made.with_key(bytes(32)).named("0123456789abcdef")
    assert len(made.named("0123456789abcdef")) == 16


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, True, "4", None, 51])
def test_what_is_no_epsilon(value):
    assert not is_epsilon(value)


def test_the_key_is_not_shown():
    assert "key" not in repr(fitted(vectors()))
