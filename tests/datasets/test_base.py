from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from fedonce import InputError
from fedonce.datasets import Dataset
from fedonce.datasets.base import make
from fedonce.datasets.files import Found
from fedonce.datasets.movielens import SOURCE as MOVIELENS
from fedonce.datasets.phishing import SOURCE


def dataset(n=100, task="classification", **more):
    target = np.arange(n) % 4 if task == "classification" else np.arange(n, dtype=float)
    return Dataset("small", np.arange(n)[:, None], target, ("x",), task, 1, True, "none", "nobody", **more)


def test_nine_to_one_by_seed_with_equal_shares_of_classes():
    X, X_test, _, y_test = dataset(200).split(seed=1)
    assert (len(X), len(X_test)) == (180, 20)
    assert sorted([*X[:, 0], *X_test[:, 0]]) == list(range(200))
    assert np.bincount(y_test).tolist() == [5, 5, 5, 5]
    assert (dataset(200).split(seed=1).X_test == X_test).all()
    assert (dataset(200).split(seed=2).X_test != X_test).any()


def test_the_owner_s_test_set_is_the_last_rows():
    split = dataset(n_official_test=30).split(seed=7)
    assert split.X_test[:, 0].tolist() == list(range(70, 100))
    assert split.X_train[:, 0].tolist() == list(range(70))


@pytest.mark.parametrize("more", [{}, {"n_official_test": 30}, {"task": "regression"}])
def test_folds_leave_out_a_fifth_each_and_share_the_test_rows(more):
    data = dataset(**more)
    whole, test = data.rows(seed=3)
    left_out = []
    for fold in range(5):
        kept, same = data.rows(seed=3, fold=fold)
        assert same.tolist() == test.tolist()
        assert set(kept) < set(whole)
        assert len(kept) == pytest.approx(0.8 * len(whole), abs=2)
        left_out += sorted(set(whole) - set(kept))
    assert sorted(left_out) == sorted(whole)


@pytest.mark.parametrize("fold", [5, -1, True, 1.0])
def test_other_folds_are_refused(fold):
    with pytest.raises(InputError, match="'fold' parameter of split must be an integer from 0 to 4, or None"):
        dataset().split(fold=fold)


def test_numbers_are_scaled_by_the_range_of_the_training_part():
    data = dataset(task="regression", unit_range=True)
    train, test = data.rows(seed=0)
    low, high = train.min(), train.max()
    for fold in (None, 2):
        split = data.split(seed=0, fold=fold)
        np.testing.assert_allclose(split.y_test, (test - low) / (high - low))
    whole = data.split(seed=0)
    assert (whole.y_train.min(), whole.y_train.max()) == (0, 1)
    assert data.target.max() == 99  # as published


@pytest.mark.parametrize("seed", [None, -1, "a", 1.0, np.random.RandomState(0)])
def test_other_seeds_are_refused(seed):
    with pytest.raises(InputError, match="'seed' parameter of split must be an integer of at least 0"):
        dataset().split(seed=seed)


def test_too_few_rows_to_split():
    with pytest.raises(InputError, match="'small' is too small to split 3 rows 9:1"):
        dataset(3).split()


def test_rows_and_columns_must_fit():
    with pytest.raises(InputError, match=r"2 rows and 1 columns. Got \(2, 3\)"):
        make(SOURCE, Found({}, False, ""), np.zeros((2, 3)), np.zeros(2), ("x",))


def test_a_division_is_the_caller_s_own():
    make(MOVIELENS, Found({}, False, ""), np.zeros((1, 1)), np.zeros(1), ("x",)).parties["ids"].clear()
    assert MOVIELENS.parties["ids"] == ["user", "movie"]


def test_arrow_tables_are_split_too():
    data = dataset(10)
    arrow = Dataset("a", pa.table({"x": list(range(10))}), data.target, ("x",), "regression", 1, True, "", "")
    train, test = arrow.rows(seed=0)
    split = arrow.split(seed=0)
    assert split.X_train["x"].to_pylist() == train.tolist()
    assert split.X_test["x"].to_pylist() == test.tolist()


def test_partial_data_say_so(caplog):
    found = Found({}, False, "half of it")
    data = make(SOURCE, found, np.zeros((2, 1)), np.zeros(2), ("x",))
    assert not data.complete
    assert data.title == "phishing (partial: half of it)"
    assert data.title in caplog.text


def test_complete_data_have_their_owner_s_number_of_rows():
    with pytest.raises(InputError, match="'phishing' must have 11,055 rows. Got 2"):
        make(SOURCE, Found({}, True, ""), np.zeros((2, 1)), np.zeros(2), ("x",))
