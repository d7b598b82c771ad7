from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

from fedonce import InputError, Pixels, biased, tiles
from fedonce.data.partition import even, importance, resolve, views


def positions(parties, names, host=None):
    blocks, found = resolve(parties, host, names, "FedOnceClassifier")
    return {name: block.positions for name, block in blocks.items()}, found


def test_even_blocks_cover_all_columns_once():
    blocks = even(68, 10)
    assert [len(block) for block in blocks.values()] == [7] * 8 + [6] * 2
    assert sorted(sum(blocks.values(), [])) == list(range(68))


def test_default_is_two_parties_or_one():
    assert positions(None, range(5)) == ({"party1": (0, 1, 2), "party2": (3, 4)}, "party1")
    assert positions(None, range(1)) == ({"party1": (0,)}, "party1")


def test_names_positions_and_slices():
    names = ("age", "income", "spent")
    expected = {"bank": (1, 0), "shop": (2,)}
    assert positions({"bank": [False, True, True]}, names) == ({"bank": (1, 2)}, "bank")
    assert positions({"bank": ["income", 0], "shop": slice(2, 3)}, names, "shop") == (expected, "shop")


def test_tiles_put_the_image_together_again():
    image = np.arange(3 * 4 * 6).reshape(3, 4, 6)
    parties = tiles((3, 4, 6), (2, 3))
    assert len(parties) == 6
    piece = image.ravel()[list(parties["party2"].columns)].reshape(parties["party2"].shape)
    np.testing.assert_array_equal(piece, image[:, :2, 2:4])


@pytest.mark.parametrize(
    ("parties", "host", "message"),
    [
        ({"a": [0], "b": [0, 1]}, None, "'a' and 'b' list the same column. Got 'x' instead"),
        ({"a": [0, 0]}, None, "list the same column"),
        ({"a": ["nope"]}, None, "party 'a' lists one that is not there. Got 'nope'"),
        ({"a": [7]}, None, "Got 7 instead"),
        ({"a": [-1]}, None, "Got -1 instead"),
        ({"a": []}, None, "at least one column for party 'a'"),
        ({"a": "x"}, None, "a list of columns for party 'a'"),
        ({}, None, "at least one party"),
        (
            {"a": [0]},
            "b",
            r"The 'host' parameter of FedOnceClassifier must be the name of a party \('a'\) or None. Got 'b' instead.",
        ),
        (0, None, r"between 1 and the number of columns \(3\). Got 0 instead"),
        (4, None, "Got 4 instead"),
        ("two", None, "a dict of name to columns"),
        (True, None, "a dict of name to columns"),
        ({1: [0]}, None, "keyed by names"),
        ({"x" * 101: [0]}, None, "keyed by names"),
    ],
)
def test_wrong_divisions(parties, host, message):
    with pytest.raises(InputError, match=message):
        resolve(parties, host, ("x", "y", "z"), "FedOnceClassifier")


def test_duplicate_column_names():
    with pytest.raises(InputError, match="unique. Got 'x' more than once"):
        resolve({"a": ["x"]}, None, ("x", "y", "x"), "FedOnceClassifier")


@pytest.mark.parametrize("shape", [(2, 3), (2,), (0, 4), (1, 1, 2, 2)])
def test_pixels_need_as_many_columns_as_their_shape(shape):
    with pytest.raises(InputError, match="shape"):
        Pixels((0, 1, 2, 3), shape)


def test_grid_must_divide_the_image():
    with pytest.raises(InputError, match="grid"):
        tiles((8, 8), (3, 2))


def test_pixels_are_shown_in_short():
    assert repr(tiles((28, 28), (2, 2))["party1"]) == "Pixels(<196 columns>, shape=(1, 14, 14))"


def test_views_are_contiguous_and_named():
    assert views({"CH": 2, "WT": 1}) == {"CH": [0, 1], "WT": [2]}


@pytest.fixture(scope="module")
def informative():
    """Twenty columns, the last four of which decide the label."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 20))
    return X, X[:, 16:].sum(axis=1)


@pytest.mark.parametrize(("alpha", "n_host"), [(0, 0), (0.25, 1), (0.5, 2), (1, 4)])
def test_a_biased_division_gives_the_host_its_share_of_dominant_columns(informative, alpha, n_host):
    pytest.importorskip("xgboost")
    X, y = informative
    parties = biased(X, y, alpha, p=4, seed=1)
    assert [len(columns) for columns in parties.values()] == [10, 10]
    assert sorted(sum(parties.values(), [])) == list(range(20))
    assert len(set(parties["party1"]) & {16, 17, 18, 19}) == n_host
    assert biased(X, y, alpha, p=4, seed=1) == parties


def test_a_biased_division_depends_on_the_seed_and_takes_classes_and_odd_numbers(informative):
    pytest.importorskip("xgboost")
    X, y = informative
    classes = np.where(y > 0, "yes", "no")
    draws = [biased(X[:, :19], classes, 0.5, p=2, seed=seed) for seed in range(4)]
    assert len({str(draw) for draw in draws}) > 1
    assert [len(columns) for columns in draws[0].values()] == [10, 9]


def test_importance_finds_what_decides_the_label(informative):
    pytest.importorskip("xgboost")
    X, y = informative
    shares = importance(X, y)
    assert set(np.argsort(-shares)[:4]) == {16, 17, 18, 19}
    assert shares.sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("alpha", "p", "message"),
    [
        (-0.1, 4, "'alpha' parameter of biased must be a number between 0 and 1. Got -0.1"),
        (1.1, 4, "Got 1.1"),
        (float("nan"), 4, "Got nan"),
        (0.5, 0, "'p' parameter of biased must be an integer from 1 to half of the 20 columns. Got 0"),
        (0.5, 11, "Got 11"),
        (0.5, 2.0, "Got 2.0"),
        ("1", 2, "Got '1'"),
    ],
)
def test_wrong_biased_divisions(informative, alpha, p, message):
    with pytest.raises(InputError, match=message):
        biased(*informative, alpha, p)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(400)}, "two different ones at least. Got labels of shape .400,., 1 different"),
        ({"y": np.zeros(3)}, "a label for each of 400 rows"),
        ({"y": np.r_[np.nan, np.ones(399)]}, "NaN or infinity"),
        ({"X": np.zeros(400)}, "two dimensions"),
        ({"X": pd.DataFrame({"a": ["x"] * 400, "b": range(400)}), "p": 1}, "Column 'a' has text"),
        ({"task": "ranking"}, "'task' parameter of biased"),
        ({"seed": None}, "'seed' parameter of biased"),
    ],
)
def test_wrong_rows_of_biased_divisions(informative, change, message):
    pytest.importorskip("xgboost")
    X, y = informative
    with pytest.raises(InputError, match=message):
        biased(**{"X": X, "y": y, "alpha": 0.5, "p": 4} | change)


def test_a_biased_division_of_a_table_is_by_name(informative):
    pytest.importorskip("xgboost")
    X, y = informative
    table = pd.DataFrame(X, columns=range(19, -1, -1))  # numbers for names, in another order than the positions
    parties = biased(table, y, 1.0, p=4)
    assert set(parties["party1"]) >= {3, 2, 1, 0}
    blocks, _ = resolve(parties, None, tuple(table.columns), "x")
    assert set(blocks["party1"].positions) >= {16, 17, 18, 19}


def test_whole_numbers_with_a_point_are_regressed_on(informative):
    pytest.importorskip("xgboost")
    X, y = informative
    stars = np.round(y)
    assert not np.allclose(importance(X, stars), importance(X, stars, task="classification"))
    np.testing.assert_array_equal(importance(X, stars), importance(X, stars, task="regression"))


def test_even_blocks_are_by_position_whatever_the_columns_are_called():
    assert positions(2, (1, 2, 3, 4)) == ({"party1": (0, 1), "party2": (2, 3)}, "party1")


def test_a_biased_division_without_xgboost_says_what_to_install(informative, monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(InputError, match="pip install xgboost"):
        biased(*informative, 0.5, 4)
