"""Protections by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedonce import AgreedRows, FedOnceClassifier, Guest, InputError, Privacy
from fedonce.data.table import Table
from fedonce.learners import Cells
from fedonce.learners.names import protection_in
from fedonce.party.protecting import protected
from fedonce.rows.alignment import agreed_rows
from tests.conftest import make_table

X, Y = make_table(600)
COLUMNS = {"parties": {"bank": [0, 1, 2, 3], "shop": [4, 5, 6, 7]}, "host": "bank", "random_state": 0}


def test_protected_rows_share_a_number_in_an_order_by_chance(tmp_path):
    guests = [Guest("shop", protect="cells:20") for _ in range(3)]
    sent = [guest.learn(X).values[:, 0].astype(int) for guest in guests]
    for numbers in sent:
        assert np.bincount(numbers).min() >= 20
        assert set(numbers) == set(range(numbers.max() + 1))
    first = X @ guests[0].learner.base_.state()["directions"][0]
    order = [abs(np.corrcoef(first, numbers)[0, 1]) for numbers in sent]
    plain = Guest("shop", Cells(centres=False)).learn(X).values[:, 0]
    assert abs(np.corrcoef(first, plain)[0, 1]) > 0.9
    assert min(order) < 0.8
    assert len({tuple(numbers) for numbers in sent}) == 3  # the same rows and seed
    guests[0].save(tmp_path)
    np.testing.assert_array_equal(Guest.load(tmp_path).represent(X).values[:, 0], sent[0])


def ties(seed, n=3000):
    """A table of whole numbers, most rows of which are rare: many are equally near to several cells."""
    rng = np.random.default_rng(seed)
    return rng.choice([-1, 0, 1], (n, 6), p=[0.55, 0.1, 0.35]).astype(float)


def ids(n):
    return np.array([f"client {place}" for place in range(n)], object)


def agreement(names):
    return AgreedRows.from_bytes(agreed_rows(names, "bank", "shop", "local"))


def fewest(message):
    return np.unique(message.values, axis=0, return_counts=True)[1].min()


@pytest.mark.parametrize("seed", range(8))
def test_rows_that_are_equally_near_to_two_cells_are_counted_where_they_are_sent(seed):
    message = Guest("shop", protect="cells:20", random_state=seed).learn(ties(seed))
    assert fewest(message) >= 20
    assert len(np.unique(message.values)) > 20


@pytest.mark.parametrize("given", [{"protect": "cells:20"}, {"learner": "cells"}, {"bytes_per_row": 0.5}])
def test_rows_that_an_alignment_leaves_share_their_values(given):
    rows, names = ties(0), ids(3000)
    # Customers of one branch and a few others: cells of all rows would have few of them, or one.
    kept = np.union1d(np.flatnonzero(rows[:, :3].sum(axis=1) == 1), np.arange(0, 3000, 50))
    guest = Guest("shop", **given)
    message = guest.learn(replace(Table.of(rows), ids=names), agreed=agreement(names[kept]))
    assert len(message.values) == len(kept)
    assert guest.learner_name == "cells"
    assert fewest(message) >= 20
    assert len(np.unique(message.values, axis=0)) > 5


def test_fewer_agreed_rows_than_must_share_a_value():
    rows, names = ties(0), ids(3000)
    guest = Guest("shop", protect="cells:20")
    wanted = (
        r"message of party 'shop' would have a value that 12 of its rows share, and 20 or more are promised \(protect\)"
    )
    with pytest.raises(InputError, match=wanted) as error:
        guest.learn(replace(Table.of(rows), ids=names), agreed=agreement(names[:12]))
    assert error.value.parameters == ("protect",)
    assert guest.codec is None  # nothing was learnt


@pytest.mark.parametrize(
    ("given", "parameter"), [({"protect": "cells:20"}, "protect"), ({"learner": "cells"}, "least")]
)
def test_a_message_is_counted_before_it_leaves(monkeypatch, given, parameter):
    honest = Cells.transform

    def astray(self, rows, device):  # as if rows went to other cells than when they were counted
        values = honest(self, rows, device)
        with_first = (values == values[0]).all(axis=1)
        values[np.flatnonzero(with_first)[1:]] = values[~with_first][0]
        return values

    monkeypatch.setattr(Cells, "transform", astray)
    with pytest.raises(InputError, match=rf"1 of its rows share, and 20 or more are promised \({parameter}\)"):
        Guest("shop", **given).learn(X)


def test_rows_of_a_prediction_may_be_alone_and_the_note_speaks_of_training_rows():
    guest = Guest("shop", protect="cells:20")
    learnt, predicted = guest.learn(X), guest.represent(X[:1])
    assert fewest(predicted) == 1
    assert learnt.note == predicted.note == "protect cells:20 (training rows)"
    assert protection_in(predicted.note) == "cells:20"


def test_an_estimator_protects_all_guests_or_some():
    found = FedOnceClassifier(protect="cells:20", model="trees", **COLUMNS).fit(X, Y)
    assert found.learners_ == {"shop": "cells"}
    assert found.representations_["shop"].dim == 1
    some = FedOnceClassifier(protect={"shop": None}, model="trees", **COLUMNS).fit(X, Y)
    assert some.representations_["shop"].dim > 1


def test_cells_keep_their_settings():
    assert protected("Guest", Cells(cells=9), "cells:30").cells == 9
    assert protected("Guest", "nat", None) == "nat"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"protect": "cells"}, "'protect' parameter of Guest must be \"cells:\" and how many rows"),
        ({"protect": "cells:0"}, "'protect'"),
        ({"protect": 20}, "'protect'"),
        ({"noise": 0.1}, "'noise' parameter of Guest must be 0 with protect"),
        ({"local_epsilon": 4.0}, "'local_epsilon' parameter of Guest must be None with protect"),
        ({"learner": "pca"}, "'learner' parameter of Guest must be \"auto\" with protect"),
    ],
)
def test_what_cannot_be_meant_is_refused(given, told):
    with pytest.raises(InputError, match=told):
        Guest("shop", **({"protect": "cells:20"} | given))


@pytest.mark.parametrize("given", [{"rounds": 2}, {"representation_noise": 0.1}, {"privacy": Privacy(epsilon=1.0)}])
def test_an_estimator_refuses_what_does_not_go_together(given):
    with pytest.raises(InputError, match="with protect|budget"):
        FedOnceClassifier(protect="cells:20", **given, **COLUMNS).fit(X, Y)


def test_centres_are_not_shuffled():
    with pytest.raises(InputError, match="'shuffled' parameter of Cells must be false"):
        Guest("shop", Cells(shuffled=True)).learn(X)
