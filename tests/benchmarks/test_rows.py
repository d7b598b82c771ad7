from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from benchmarks.data import digits_8x8
from benchmarks.rows import scored_on


def test_validation_rows_are_training_rows():
    data = digits_8x8()
    train, test = data.rows(seed=0)
    small = scored_on("validation", data, seed=0)
    assert len(small.target) == len(train)
    assert small.n_official_test == pytest.approx(0.2 * len(train), abs=1)
    unused = {row.tobytes() for row in data.data[test]} - {row.tobytes() for row in data.data[train]}
    assert not unused & {row.tobytes() for row in small.data}


def test_a_quarter_is_the_one_of_the_demonstration():
    X, y = load_digits(return_X_y=True)
    expected = train_test_split(X, y, test_size=0.25, random_state=3, stratify=y)
    found = scored_on("quarter", digits_8x8(), seed=3).split(3)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_test_rows_are_those_of_the_data_set():
    data = digits_8x8()
    assert scored_on("test", data, seed=0) is data
