"""Protections by name."""

from __future__ import annotations

import numpy as np
import pytest

from fedonce import FedOnceClassifier, Guest, InputError, Privacy
from fedonce.learners import Cells
from fedonce.party.protecting import protected
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
