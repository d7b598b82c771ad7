from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from fedonce import InputError
from fedonce.tables import Table

COLUMNS = {
    "age": [31, 45, 27],
    "member": [True, False, True],
    "city": ["Bonn", None, "Ulm"],
    "spent": [1.5, None, 2.5],
}


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(COLUMNS),
        pd.DataFrame(COLUMNS).astype({"city": "category", "age": "Int64", "member": "boolean"}),
        pl.DataFrame(COLUMNS),
        pl.DataFrame(COLUMNS).with_columns(pl.col("city").cast(pl.Categorical)),
        pl.DataFrame(COLUMNS).to_arrow(),
    ],
    ids=["pandas", "pandas extension types", "polars", "polars categorical", "arrow"],
)
def test_data_frames_mean_the_same(frame):
    table = Table.of(frame)
    assert table.n_rows == 3
    assert table.names == tuple(COLUMNS)
    np.testing.assert_array_equal(np.asarray(table.columns[0], float), [31, 45, 27])
    np.testing.assert_array_equal(np.asarray(table.columns[1], float), [1, 0, 1])
    assert table.columns[2].tolist() == ["Bonn", None, "Ulm"]
    np.testing.assert_array_equal(table.columns[3], [1.5, np.nan, 2.5])


def test_nullable_integers_keep_their_missing_values():
    table = Table.of(pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64")}))
    np.testing.assert_array_equal(table.columns[0], [1, np.nan, 3])


def test_objects_are_numbers_or_categories():
    table = Table.of(np.array([[1, "x", None], [2.5, None, None]], dtype=object))
    np.testing.assert_array_equal(table.columns[0], [1, 2.5])
    assert table.columns[1].tolist() == ["x", None]
    assert np.isnan(table.columns[2]).all()


def test_categories_that_look_like_numbers_stay_categories():
    table = Table.of(pd.DataFrame({"zip": pd.Categorical([10115, 80331, 10115])}))
    assert table.columns[0].tolist() == ["10115", "80331", "10115"]


def test_lazy_tables_have_no_rows_yet():
    with pytest.raises(InputError, match=r"\.collect\(\)"):
        Table.of(pl.LazyFrame(COLUMNS))


def test_arrays_stay_as_they_are():
    dense = np.ones((4, 3), np.float32)
    assert Table.of(dense).matrix is dense
    assert sparse.issparse(Table.of(sparse.coo_matrix(dense)).matrix)


@pytest.mark.parametrize("data", [np.arange(12.0).reshape(4, 3), sparse.csr_matrix(np.arange(12.0).reshape(4, 3))])
def test_select_and_take(data):
    part = Table.of(data).select([2, 0]).take(np.array([True, False, False, True]))
    dense = part.matrix.toarray() if sparse.issparse(part.matrix) else part.matrix
    np.testing.assert_array_equal(dense, [[2, 0], [11, 9]])


def test_select_and_take_of_frames():
    part = Table.of(pl.DataFrame(COLUMNS)).select([3, 0]).take(np.array([True, False, True]))
    assert part.names == ("spent", "age")
    assert [column.tolist() for column in part.columns] == [[1.5, 2.5], [31, 27]]


def test_types_without_a_meaning_are_named():
    frame = pd.DataFrame({"born": [datetime.datetime(2000, 1, 1)]})
    with pytest.raises(InputError, match="Column 'born' has type Datetime"):
        Table.of(frame)
    with pytest.raises(InputError, match="complex128"):
        Table.of(np.ones((2, 2), complex))
    with pytest.raises(InputError, match="two dimensions"):
        Table.of(np.ones(3))
    with pytest.raises(TypeError, match="Column 0 holds a dict"):
        Table.of(np.array([[{"a": 1}], [2]], dtype=object))
