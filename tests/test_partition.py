from __future__ import annotations

import numpy as np
import pytest

from fedonce import InputError, Pixels, tiles
from fedonce.partition import even, resolve


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
        resolve(1, None, ("x", "y", "x"), "FedOnceClassifier")


@pytest.mark.parametrize("shape", [(2, 3), (2,), (0, 4), (1, 1, 2, 2)])
def test_pixels_need_as_many_columns_as_their_shape(shape):
    with pytest.raises(InputError, match="shape"):
        Pixels((0, 1, 2, 3), shape)


def test_grid_must_divide_the_image():
    with pytest.raises(InputError, match="grid"):
        tiles((8, 8), (3, 2))
