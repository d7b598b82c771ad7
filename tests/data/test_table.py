from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from fedonce import InputError
from fedonce.data.table import Table

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
    with pytest.raises(InputError, match="Column 'bought' has type List"):
        Table.of(pl.DataFrame({"bought": [["milk"], []]}))
    with pytest.raises(InputError, match="complex128"):
        Table.of(np.ones((2, 2), complex))
    with pytest.raises(InputError, match="two dimensions"):
        Table.of(np.ones(3))
    with pytest.raises(TypeError, match="Column 0 holds a dict"):
        Table.of(np.array([[{"a": 1}], [2]], dtype=object))


TIMES = {
    "day": [datetime.date(2024, 2, 29), None],
    "time": [datetime.datetime(2024, 2, 29, 12, 30, 0, 7), None],
    "zoned": [datetime.datetime(2024, 2, 29, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2))), None],
    "lasted": [datetime.timedelta(minutes=1.5), None],
    "clock": [datetime.time(1, 0, 1), None],
    "price": [Decimal("1.50"), None],
}


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(TIMES),
        pl.DataFrame(TIMES),
        pa.table(TIMES),
        pa.table(TIMES).to_pandas(types_mapper=pd.ArrowDtype),
    ],
    ids=["pandas", "polars", "arrow", "pandas on arrow"],
)
def test_dates_in_utc_and_durations_in_seconds(frame):
    table = Table.of(frame)
    dates = ["2024-02-29T00:00:00.000000", "2024-02-29T12:30:00.000007", "2024-02-28T23:00:00.000000"]
    assert [column.astype(str).tolist() for column in table.columns[:3]] == [[date, "NaT"] for date in dates]
    assert {column.dtype for column in table.columns[:3]} == {np.dtype("datetime64[us]")}
    np.testing.assert_array_equal(table.columns[3:], [[90, np.nan], [3601, np.nan], [1.5, np.nan]])


def test_an_array_of_dates():
    table = Table.of(np.array([["2024-01-01"], ["NaT"]], dtype="datetime64[D]"))
    assert table.kinds == {0: "date"}


def test_dates_among_text_are_text():
    table = Table.of(pd.DataFrame({"a": np.array([datetime.date(2024, 1, 1), "never"], dtype=object)}))
    assert table.columns[0].tolist() == ["2024-01-01", "never"]


def test_kinds():
    frame = pd.DataFrame({**COLUMNS, "asked": pd.array([True, None, False], dtype="boolean"), "born": pd.NaT})
    kinds = ["number", "boolean", "category", "number", "boolean", "date"]
    assert list(Table.of(frame).kinds.values()) == kinds
    assert list(Table.of(frame).select([4, 2]).kinds.values()) == ["boolean", "category"]
    assert Table.of(np.ones((2, 2), bool)).kinds == {0: "boolean", 1: "boolean"}


@pytest.mark.parametrize("data", [np.arange(6).reshape(3, 2), pl.DataFrame(COLUMNS)])
def test_ids_go_with_their_rows(data):
    table = replace(Table.of(data), ids=np.array(["x", "y", "z"], dtype=object))
    taken = table.select([0]).take(np.array([2, 0]))
    assert taken.ids.tolist() == ["z", "x"]
    assert table.take(np.array([False, True, False])).ids.tolist() == ["y"]
    assert table.pop(table.names[0])[1].ids is table.ids


def test_popped_values_keep_their_type():
    table = Table.of(pl.DataFrame(COLUMNS))
    for name, kind in (("age", np.int64), ("member", np.bool_), ("city", object), ("spent", np.float64)):
        values, rest = table.pop(name)
        assert values.dtype == kind
        assert name not in rest.names
        assert len(rest.columns) == 3
    values, rest = Table.of(sparse.csr_matrix([[1, 2], [3, 4]])).pop(1)
    assert (values.tolist(), rest.matrix.toarray().tolist()) == ([2, 4], [[1], [3]])
    with pytest.raises(InputError, match="no column 'agge'; did you mean 'age'. It has 'age', 'member'"):
        table.pop("agge")


@pytest.mark.parametrize("unit", ["D", "h", "s", "ms"])
def test_dates_too_far_away_are_refused_and_never_other_dates(unit):
    dates = np.array([[2**60], [-(2**60)], [0]], f"M8[{unit}]")
    for table in (dates, dates.astype(object) if unit in ("D", "s") else dates, np.array([[dates[0, 0]]], object)):
        if table.dtype.kind == "O" and isinstance(table[0, 0], int):
            continue
        with pytest.raises(InputError, match=r"Column 0 has .*too far away for a date or a time; correct them"):
            Table.of(table)
    with pytest.raises(InputError, match="Column 0 has 2 values or more too far away"):
        Table.of(dates)
    near = np.array([[1000], [-1000], [np.iinfo(np.int64).min]], f"M8[{unit}]")  # the last is NaT
    assert np.array_equal(Table.of(near).columns[0], near[:, 0].astype("M8[us]"), equal_nan=True)


@pytest.mark.parametrize("values", [[10**400] * 3, [10**400] * 3 + ["x"], [-(10**5000), 1.5], [10**5000, "x"]])
@pytest.mark.parametrize(
    "form", [lambda v: pd.DataFrame({0: v}, dtype=object), lambda v: np.array([[each] for each in v], object)]
)
def test_whole_numbers_that_are_no_floats_are_refused(values, form):
    with pytest.raises(
        InputError, match=r"^Column 0 has a whole number beyond 1\.8e308, .*; divide the column"
    ) as caught:
        Table.of(form(values))
    assert "000" not in str(caught.value)


@pytest.mark.parametrize("rest", [[], [1.5], ["x"]])
def test_a_decimal_that_cannot_be_compared_is_refused(rest):
    with pytest.raises(InputError, match="sNaN.*cannot be compared; write None or NaN"):
        Table.of(pd.DataFrame({"a": [Decimal("sNaN"), *rest]}))


def test_durations_among_text_are_text():
    made = Table.of(np.array([[np.timedelta64(1, "s")], ["x"]], object)).columns[0]
    assert made.tolist() == ["1 seconds", "x"]
