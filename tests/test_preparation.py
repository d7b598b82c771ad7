from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from fedonce import FedOnceWarning, InputError
from fedonce.preparation import HASHED_WIDTH, SKETCH_WIDTH, Preparation
from fedonce.tables import Table


def prepare(train, test=None, shape=None):
    preparation = Preparation("shop", shape).fit(Table.of(train))
    return preparation.transform(Table.of(train if test is None else test))


def test_numbers_are_standardised_by_training_rows_alone(rng):
    train = rng.uniform(0, 10, (500, 3))
    out = prepare(train)
    np.testing.assert_allclose(out.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(out.std(axis=0), 1, atol=1e-6)
    np.testing.assert_allclose(prepare(train, train[:2] + 3)[:, 0], out[:2, 0] + 3 / train[:, 0].std(), rtol=1e-5)


def test_large_offset_keeps_its_digits():
    out = prepare(1e9 + np.arange(100.0)[:, None])
    np.testing.assert_allclose(out.std(), 1, atol=1e-5)


def test_missing_numbers_become_the_mean_and_a_mark():
    train = np.array([[1.0, 1.0], [np.nan, 2.0], [3.0, 3.0]])
    np.testing.assert_allclose(prepare(train)[1], [0, 0, 1], atol=1e-6)
    # A column without missing values in training has no mark; missing later, it is the mean.
    np.testing.assert_allclose(prepare(train, [[1.0, np.nan]])[0, 1:], [0, 0], atol=1e-6)


def test_constant_column_is_zero():
    np.testing.assert_array_equal(prepare(np.full((5, 1), 0.1)), np.zeros((5, 1)))


@pytest.mark.parametrize("column", [[np.nan] * 3, [None] * 3])
def test_all_missing_column_is_zero_with_a_warning(column):
    frame = pd.DataFrame(
        {"a": [1.0, 2.0, 3.0], "b": pd.Series(column, dtype=float if column[0] is not None else object)}
    )
    with pytest.warns(FedOnceWarning, match="'shop' has no value at all in column 'b'"):
        out = prepare(frame)
    assert not np.ptp(out[:, 1:], axis=0).any()


def test_infinity_is_refused_by_name():
    with pytest.raises(InputError, match=r"contains infinity: party 'shop', column 'income'"):
        prepare(pd.DataFrame({"income": [1.0, np.inf]}))


def test_few_categories_are_a_column_each_and_unseen_ones_are_zeros():
    train = pd.DataFrame({"city": ["Ulm", "Bonn", None, "Ulm"]})
    np.testing.assert_array_equal(prepare(train), [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]])
    np.testing.assert_array_equal(prepare(train, pd.DataFrame({"city": ["Kiel"]})), [[0, 0, 0]])


def test_many_categories_are_hashed_into_few_columns():
    ids = [f"customer{i}" for i in range(5000)]
    train = pd.DataFrame({"id": ids})
    out = prepare(train)
    assert out.shape == (5000, HASHED_WIDTH + 1)
    # Most pairs of values are told apart.
    assert len(np.unique(out, axis=0)) > 1500
    unseen = prepare(train, pd.DataFrame({"id": ["nobody", None]}))
    assert unseen[0].any()
    assert not unseen[1].any()


def test_numbers_in_training_and_text_at_prediction():
    train = pd.DataFrame({"a": [1.0, 2.0]})
    with pytest.raises(InputError, match="'a' of party 'shop' must hold numbers"):
        prepare(train, pd.DataFrame({"a": ["x"]}))


@pytest.mark.parametrize("later", [[2.0, 1.0], [2, 1], ["2", "1"], np.array(["2", 1], dtype=object)])
def test_a_category_is_the_same_whatever_type_it_has_later(later):
    train = pd.DataFrame({"code": np.array(["x", 1, 2.0], dtype=object)})
    np.testing.assert_array_equal(prepare(train, pd.DataFrame({"code": later}))[:, :2], [[0, 1], [1, 0]])
    assert not prepare(train, pd.DataFrame({"code": [np.inf]})).any()


def test_missing_and_empty_text_are_not_the_same():
    train = pd.DataFrame({"id": [f"c{i}" for i in range(100)] + [""] * 50})
    empty, missing = prepare(train, pd.DataFrame({"id": ["", None]}))
    assert empty.any()
    assert not missing.any()


def test_no_columns():
    with pytest.raises(InputError, match="'shop' has no columns"):
        prepare(np.zeros((3, 0)))


def test_numbers_where_training_had_categories_are_read_as_text():
    train = pd.DataFrame({"zip": ["1", "2", "x"]})
    np.testing.assert_array_equal(prepare(train, pd.DataFrame({"zip": [2, 1]}))[:, :2], [[0, 1], [1, 0]])


def test_pixels_share_one_mean_and_scale(rng):
    train = rng.integers(0, 255, (50, 12)).astype(np.uint8)
    out = prepare(train, shape=(3, 2, 2))
    assert out.shape == (50, 3, 2, 2)
    np.testing.assert_allclose([out.mean(), out.std()], [0, 1], atol=1e-4)


def test_pixels_have_no_missing_values():
    with pytest.raises(InputError, match="Pixels have no missing values, and party 'shop'"):
        prepare(np.array([[1.0, np.nan, 0, 0]]), shape=(1, 2, 2))
    with pytest.raises(InputError, match="beyond 1e30"):
        prepare(np.array([[1.0, 1e39, 0, 0]]), shape=(1, 2, 2))


def test_sparse_equals_dense(rng):
    dense = rng.random((40, 30)) * (rng.random((40, 30)) < 0.2)
    np.testing.assert_allclose(prepare(sparse.csr_matrix(dense)), prepare(dense), atol=1e-5)


def test_wide_sparse_stays_narrow():
    wide = sparse.random(50, 100_000, density=1e-3, random_state=0, format="csr")
    assert prepare(wide).shape == (50, SKETCH_WIDTH)


def test_sparse_has_no_missing_values():
    with pytest.raises(InputError, match="sparse table has no missing values"):
        prepare(sparse.csr_matrix([[np.nan, 0.0]]))


def test_a_row_does_not_depend_on_its_company(rng):
    train = rng.standard_normal((100, 4))
    np.testing.assert_array_equal(prepare(train)[17], prepare(train, train[17:18])[0])


def test_categories_become_codes_for_embeddings():
    train = pd.DataFrame({"city": ["rome", None, "oslo", "rome"], "spent": [1.0, 2.0, 3.0, 4.0]})
    preparation = Preparation("shop", embeddings=(4, 0)).fit(Table.of(train))
    test = pd.DataFrame({"city": ["oslo", "rome", "lima", None], "spent": [2.5] * 4})
    np.testing.assert_array_equal(preparation.transform(Table.of(test)), [[1, 0], [2, 0], [0, 0], [0, 0]])


def test_many_categories_become_as_many_codes():
    train = pd.DataFrame({"user": [f"u{j:04d}" for j in range(2000)]})
    codes = Preparation("shop", embeddings=(8,)).fit(Table.of(train)).transform(Table.of(train))
    np.testing.assert_array_equal(codes[:, 0], np.arange(1, 2001))


@pytest.mark.parametrize("kind", [pd.DataFrame, np.asarray])
def test_numbers_with_an_embedding_are_names(kind):
    train = kind([[7, 0.5], [9, 1.5], [7, 2.5]])
    preparation = Preparation("shop", embeddings=(4, 0)).fit(Table.of(train))
    np.testing.assert_allclose(preparation.transform(Table.of(kind([[9, 1.5], [8, 1.5]]))), [[2, 0], [0, 0]])


@pytest.mark.parametrize(
    ("embeddings", "message"), [((4,), "as long as party 'shop' has columns .2.. Got .4,."), ((0, 4), "Column 'city'")]
)
def test_embeddings_that_do_not_fit_the_columns(embeddings, message):
    with pytest.raises(InputError, match=message):
        Preparation("shop", embeddings=embeddings).fit(Table.of(pd.DataFrame({"city": ["rome"], "age": [3]})))
