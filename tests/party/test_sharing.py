"""Bytes of all guests together, shared out by what each has to tell."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedonce import FedOnceClassifier, Guest
from fedonce.data.table import Table
from fedonce.messages.codecs.budget import LEAST_BYTES
from fedonce.party.sharing import check_bytes_total, shares

N = 2000
rng = np.random.default_rng(0)
NUMBERS = rng.standard_normal((N, 6))
FLAGS = (rng.random((N, 6)) < 0.04).astype(float)
OWN = rng.standard_normal((N, 3))
X, Y = np.hstack([OWN, NUMBERS, FLAGS]), (NUMBERS[:, 0] + OWN[:, 0] > 0).astype(int)
PARTIES = {"bank": [0, 1, 2], "numbers": list(range(3, 9)), "flags": list(range(9, 15))}


def fitted(present=None, **settings):
    made = FedOnceClassifier(PARTIES, model="linear", validate=False, random_state=0, **settings)
    return made.fit(X, Y, present=present)


@pytest.mark.parametrize("total", [0.3, 1, 3])
def test_six_telling_numbers_get_much_more_than_six_flags_and_the_total_holds(total):
    model = fitted(bytes_total=total)
    taken = {name: message.payload_bytes / N for name, message in model.representations_.items()}
    assert sum(model.bytes_per_row_.values()) <= total
    assert sum(taken.values()) <= total
    assert all(taken[name] <= model.bytes_per_row_[name] for name in taken)
    if total >= 1:
        assert taken["numbers"] > 3 * taken["flags"]
        assert sum(model.bytes_per_row_.values()) > 0.95 * total  # what may be taken is given


def test_what_nobody_needs_is_given_to_nobody():
    plenty = fitted(bytes_total=40).bytes_per_row_
    assert plenty["flags"] < 0.5
    assert 3 < plenty["numbers"] < 6


def test_a_guest_with_bytes_of_its_own_keeps_these_and_others_share_the_rest():
    model = fitted(bytes_total=2, bytes_per_row={"flags": 1.5})
    assert model.bytes_per_row_["flags"] == 1.5
    assert 0.4 < model.bytes_per_row_["numbers"] <= 0.5


def test_a_guest_without_rows_takes_nothing_from_others():
    model = fitted(bytes_total=3, present={"numbers": False})
    assert model.absent_ == ("numbers",)
    assert model.bytes_per_row_["flags"] == pytest.approx(fitted(bytes_total=40).bytes_per_row_["flags"], rel=0.05)


def test_without_a_limit_there_is_none():
    assert fitted().bytes_per_row_ == {"numbers": None, "flags": None}
    assert fitted(bytes_per_row=2).bytes_per_row_ == {"numbers": 2, "flags": 2}


def test_categories_of_many_values_are_weighed_by_their_vectors_and_not_by_their_codes():
    frame = pd.DataFrame({name: rng.integers(0, 100, N).astype(str) for name in ("user", "film")})
    guests = {"films": Guest("films", dim=16), "numbers": Guest("numbers", dim=16), "same": Guest("same", dim=16)}
    tables = {"films": Table.of(frame), "numbers": Table.of(NUMBERS), "same": Table.of(np.ones((N, 2)))}
    found = shares(guests, tables, 4.0)
    assert sum(found.values()) <= 4.0
    assert found["same"] == LEAST_BYTES
    assert found["numbers"] > 1  # by codes from 1 to 100, all would go to the films
    assert found["films"] > 0.5


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"bytes_total": 0}, "'bytes_total' parameter of FedOnceClassifier must be a number from 0.05 to 1024 a guest"),
        ({"bytes_total": "3"}, "'bytes_total' parameter"),
        ({"bytes_total": 0.06}, "at least 0.05 for each of 2 guests"),
        ({"bytes_total": 2, "bytes_per_row": {"flags": 2}}, "beside the 2 that bytes_per_row gives to some"),
        (
            {"bytes_total": 2, "bytes_per_row": 1},
            "'bytes_per_row' parameter .* left out, or by guest, beside bytes_total",
        ),
        ({"bytes_total": 2, "bits": 16}, "'bits' parameter"),
        ({"bytes_total": 2, "rounds": 3}, "'bytes_total' parameter .* left out with noise, rounds"),
        ({"bytes_total": 2, "representation_noise": 0.1}, "'bytes_total' parameter"),
    ],
)
def test_totals_that_cannot_be_shared_out(settings, said):
    with pytest.raises(ValueError, match=said):
        fitted(**settings)


def test_what_is_left_for_the_others():
    assert check_bytes_total("Owner", 5, {"a": 2.0}, 3) == 3.0
    assert check_bytes_total("Owner", 2, {"a": 2.0}, 1) == 0.0
