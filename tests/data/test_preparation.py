from __future__ import annotations

import datetime
import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from fedonce import FedOnceWarning, InputError
from fedonce.data.preparation import HASHED_WIDTH, SKETCH_WIDTH, Coding, Preparation, Public
from fedonce.data.table import Table


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
    with pytest.raises(InputError, match="'a' of party 'shop' was numbers at training and is text now"):
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


def coded(rows_per_value=1.0, alone=True, names=("id", "n", "town"), n=700):
    frame = pd.DataFrame(
        {"id": [f"c{j % 70:02d}" for j in range(n)], "n": np.arange(n), "town": ["rome", "oslo"] * (n // 2)}
    )
    return Preparation("shop", coding=Coding(rows_per_value, alone)).fit(Table.of(frame[list(names)]))


def test_categories_with_many_values_become_codes_where_a_learner_takes_them():
    preparation = coded()
    test = pd.DataFrame({"id": ["c05", "new", None], "n": [1, 2, 3], "town": ["rome", "oslo", "lima"]})
    assert (preparation.coded, preparation.code_sizes) == ((0,), (71, 0, 0, 0, 0))
    rows = preparation.transform(Table.of(test))
    np.testing.assert_array_equal(rows[:, 0], [6, 0, 0])
    np.testing.assert_array_equal(rows[:, 2:], [[0, 1, 0], [1, 0, 0], [0, 0, 0]])  # one column a value, as ever


def test_columns_that_stay_hashed():
    assert coded(10).coded == (0,)
    assert coded(10.1).coded == ()  # too few rows for so many values
    assert coded(10.1).row_shape == (33 + 1 + 3,)
    assert coded(alone=False).coded == (0,)
    assert coded(alone=False, names=("id",)).coded == ()  # nothing that its values could occur with
    assert coded(names=("id",)).coded == (0,)


def test_no_codes_where_all_is_public():
    frame = pd.DataFrame({"id": [f"c{j}" for j in range(70)]})
    public = Public(categories={"id": [f"c{j}" for j in range(70)]})
    preparation = Preparation("shop", public=public, coding=Coding()).fit(Table.of(frame))
    assert preparation.coded == ()


def dates(*texts):
    return pd.DataFrame({"born": np.array(texts, dtype="datetime64[us]")})


def test_dates_are_a_day_and_two_cycles():
    # 2023 and 2025 have 365 days, and 2024-01-01 is a Monday.
    out = prepare(dates("2024-01-01", "2024-01-03", "2024-01-02"))
    np.testing.assert_allclose(out[:, 0], [-1.224745, 1.224745, 0], atol=1e-6)
    np.testing.assert_allclose(out[0, 1:], [0, 1, 0, 1], atol=1e-7)
    turn = 2 * np.pi * np.array([2 / 366, 2 / 7])
    np.testing.assert_allclose(out[1, 1:], np.column_stack([np.sin(turn), np.cos(turn)]).ravel(), atol=1e-6)


def test_time_of_day_counts_where_training_rows_had_it():
    train = dates("2024-01-01T06:00", "2024-01-02")
    assert prepare(train).shape == (2, 7)
    np.testing.assert_allclose(prepare(train)[:, 5:], [[1, 0], [0, 1]], atol=1e-6)
    assert prepare(dates("2024-01-01"), train).shape == (2, 5)


def test_missing_dates_are_zeros_and_a_mark():
    train = dates("2024-01-01", "NaT", "2025-06-01")
    out = prepare(train)
    assert out[1].tolist() == [0, 0, 0, 0, 0, 1]
    assert out[[0, 2], -1].tolist() == [0, 0]
    assert not prepare(dates("2024-01-01"), dates("NaT")).any()
    with pytest.warns(FedOnceWarning, match="no value at all in column 'born'"):
        prepare(dates("NaT"))


def test_a_date_does_not_depend_on_its_company(rng):
    train = dates(*(np.datetime64("1950-01-01", "us") + rng.integers(0, 2 * 10**15, 1001)))
    out = prepare(train)
    for row in (0, 500, 1000):
        np.testing.assert_array_equal(prepare(train, train[row : row + 1])[0], out[row])


@pytest.mark.parametrize(
    "bounds",
    [
        ("2000-01-01", "2020-01-01"),
        (datetime.date(2000, 1, 1), datetime.datetime(2020, 1, 1)),
        (10957, np.datetime64("2020-01-01")),
    ],
)
def test_public_bounds_of_dates(bounds):
    train = dates("2000-01-01T05:00", "2020-01-01", "NaT")
    preparation = Preparation("shop", public=Public({"born": bounds})).fit(Table.of(train))
    out = preparation.transform(Table.of(train[1:]))
    np.testing.assert_allclose(out, [[1, 0, 1, np.sin(4 * np.pi / 7), np.cos(4 * np.pi / 7)], [0] * 5], atol=1e-6)
    with pytest.warns(FedOnceWarning, match="beyond the bounds given in column 'born'"):
        preparation.transform(Table.of(dates("1999-12-31")))


def test_public_bounds_with_a_time_give_the_time_of_day():
    train = Table.of(dates("2024-01-01"))
    public = Public({"born": ("2024-01-01", "2024-12-31T23:59:59")})
    assert Preparation("shop", public=public).fit(train).row_shape == (7,)


@pytest.mark.parametrize("bounds", [("2020-01-01", "2000-01-01"), ("soon", "later"), 5, ("2020-01-01",)])
def test_bounds_that_are_no_dates(bounds):
    with pytest.raises(InputError, match="bounds of column 'born' of party 'shop' must be two dates"):
        Preparation("shop", public=Public({"born": bounds})).fit(Table.of(dates("2024-01-01")))


def test_dates_have_bounds_and_no_categories():
    with pytest.raises(InputError, match="Column 'born' of party 'shop' has categories, and holds dates"):
        Preparation("shop", public=Public(categories={"born": ["x"]})).fit(Table.of(dates("2024-01-01")))


OF_KIND = {"numbers": [1.0, 2.0], "text": ["x", "y"], "dates": np.array(["2024-01-01"] * 2, "datetime64[us]")}


@pytest.mark.parametrize(
    ("old", "new"),
    [("numbers", "text"), ("numbers", "dates"), ("text", "dates"), ("dates", "numbers"), ("dates", "text")],
)
def test_a_column_that_changed_its_kind(old, new):
    with pytest.raises(
        InputError, match=f"'age' of party 'shop' was {old} at training and is {new} now; give it as {old}"
    ):
        prepare(pd.DataFrame({"age": OF_KIND[old]}), pd.DataFrame({"age": OF_KIND[new]}))


@pytest.mark.parametrize("later", [[np.nan], pd.array([None], dtype="string"), np.array(["NaT"], "datetime64[us]")])
@pytest.mark.parametrize("old", ["numbers", "dates"])
def test_nothing_but_missing_values_has_no_kind(old, later):
    out = prepare(pd.DataFrame({"age": OF_KIND[old]}), pd.DataFrame({"age": later}))
    assert not out.any()


def test_text_has_no_place_among_pixels():
    with pytest.raises(InputError, match="'a' of party 'shop' must hold numbers, as pixels .* Got dates"):
        prepare(pd.DataFrame({"a": OF_KIND["dates"]}), shape=(1, 1, 1))


MIXED = pd.DataFrame(
    {
        "n": [0.1, None, 1 / 3],
        "same": [5, 5, 5],
        "b": [True, False, True],
        "c": ["x", None, "y"],
        "d": np.array(["2024-01-01T05:00", "NaT", "2023-05-06"], "datetime64[us]"),
    }
)
PUBLIC = Public({"n": (0, 1), "same": (0, 9), "b": (0, 1), "d": ("2000-01-01", "2030-01-01")}, {"c": ["x", "y"]})
MANY = pd.DataFrame({"id": [f"c{j % 70}" for j in range(100)]})


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (MIXED, {}),
        (MIXED, {"public": PUBLIC}),
        (MANY, {}),
        (MANY, {"embeddings": (4,)}),
        (MANY, {"coding": Coding()}),
        (np.arange(8.0).reshape(2, 4) / 7, {}),
        (np.arange(8).reshape(2, 4), {"shape": (1, 2, 2)}),
        (np.arange(8).reshape(2, 4), {"shape": (1, 2, 2), "public": Public((0, 9))}),
        (sparse.random(5, 2000, 0.01, format="csr", random_state=0), {}),
    ],
    ids=["mixed", "public", "hashed", "codes", "coded", "matrix", "pixels", "public pixels", "sketch"],
)
def test_a_stored_preparation_gives_the_same_bits(data, options):
    table = Table.of(data)
    preparation = Preparation("shop", **options).fit(table)
    again = Preparation.from_json(json.loads(json.dumps(preparation.to_json(), allow_nan=False)))
    out = preparation.transform(table)
    np.testing.assert_array_equal(again.transform(table), out)
    assert again.row_shape == preparation.row_shape == out.shape[1:]
    assert again.names == preparation.names


def test_names_that_json_has_not():
    preparation = Preparation("shop").fit(Table.of(pd.DataFrame({("a", 1): [1.0, 2.0]})))
    with pytest.raises(
        InputError, match=r"Column \('a', 1\) of party 'shop' .* a tuple; name columns by text or integers"
    ):
        preparation.to_json()


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (["party"], 3),
        (["names"], ["n", 1.5, "b", "c", "d"]),
        (["names"], []),
        (["whole"], True),
        (["named"], None),
        (["sketched"], True),
        (["shape"], [0]),
        (["embeddings"], [1]),
        (["steps"], []),
        (["steps", 0], "number"),
        (["steps", 0, "kind"], "pickle"),
        (["steps", 0, "kind"], "pixels"),
        (["steps", 0, "kind"], []),
        (["steps", 0, "mean"], [1.0, 2.0]),
        (["steps", 0, "mean"], ["1"]),
        (["steps", 0, "mean"], [float("nan")]),
        (["steps", 0, "mean"], [10**400]),
        (["steps", 0, "scale"], [0.0]),
        (["steps", 0, "marked"], [7]),
        (["steps", 3, "values"], ["x", "x"]),
        (["steps", 3, "values"], None),
        (["steps", 3, "counts"], [1]),
        (["steps", 4, "days"], {}),
        (["steps", 4, "timed"], 1),
    ],
)
def test_a_damaged_preparation_is_refused(where, value):
    content = Preparation("shop").fit(Table.of(MIXED)).to_json()
    inner = content
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    with pytest.raises(InputError, match="stored preparation"):
        Preparation.from_json(content)
    with pytest.raises(InputError, match="must be a dict; got list"):
        Preparation.from_json([])


def test_row_shape_needs_a_fit():
    with pytest.raises(InputError, match="'shop' has not learnt"):
        Preparation("shop").row_shape  # noqa: B018


def test_each_prepared_column_comes_from_one_of_the_table_s():
    frame = pd.DataFrame(
        {"age": [1.0, np.nan, 3.0], "city": ["a", "b", "c"], "day": pd.to_datetime(["2020-01-01"] * 3)}
    )
    made = Preparation("bank").fit(Table.of(frame))
    assert len(made.origins) == made.row_shape[0]
    assert made.origins[:2].tolist() == [0, 0]  # the number, and the mark where it is missing
    assert sorted(set(made.origins)) == [0, 1, 2]
    numbers = Preparation("bank").fit(Table.of(np.array([[1.0, 2.0], [2.0, np.nan], [3.0, 5.0]])))
    assert numbers.origins.tolist() == [0, 1, 1]
    assert Preparation("bank", (1, 1, 2)).fit(Table.of(np.ones((3, 2)))).origins is None


def test_public_knowledge_says_what_columns_hold():
    bounds = {
        "a": (0, 1),
        "since": ("2000-01-01", "2024-12-31"),
        "day": (0, 20_000),
        "late": (datetime.date(2000, 1, 1), None),
    }
    categories = {"kind": ["x", "y"], "grade": [1, 2, 3], "flag": [False, True]}
    names = ["a", "since", "day", "late", "kind", "grade", "flag", "unknown"]
    assert Public(bounds, categories).kinds(names) == {
        "a": "number",
        "since": "date",
        "day": "number",
        "late": "date",
        "kind": "category",
        "grade": "number",
        "flag": "boolean",
    }
    assert Public((0, 1), {"kind": ["x"]}).kinds(["kind", "a"]) == {"kind": "category", "a": "number"}
    assert Public([(0, 1), ("2000-01-01", "2024-12-31")]).kinds(["a", "b"]) == {"a": "number", "b": "date"}
    assert Public().kinds(["a"]) == {}
