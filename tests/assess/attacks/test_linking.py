from __future__ import annotations

import numpy as np

from fedonce import Guest
from fedonce.assess.attacks.base import Exposed
from fedonce.assess.attacks.linking import Linking
from fedonce.data.table import Table


def linked(first, second, X):
    found = Linking().run(Exposed(first, Table.of(X), second=second), np.random.default_rng(0))
    return {each.way: each for each in found}


def test_two_messages_of_one_guest_are_linked_row_by_row():
    X = np.random.default_rng(0).lognormal(size=(3000, 8))
    first, second = (
        Guest("shop", "autoencoder", dim=4, epochs=2, random_state=seed).learn(X).values for seed in (0, 1)
    )
    same = linked(first, first, X)
    assert same["as they are"].score > 0.9
    assert same["by moments"].score > 0.9
    assert linked(first, second, X)["by known pairs"].low > 10 / 2000  # ten times what guessing finds
    assert all(each.control < 0.01 for each in same.values())


def test_messages_that_are_turned_against_each_other_are_linked_by_a_few_known_pairs():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 6))
    first, second = (np.round(X @ np.linalg.qr(rng.standard_normal((6, 6)))[0] * 30) / 30 for _ in range(2))
    found = linked(first, second, X)
    assert found["by known pairs"].score > 0.9
    assert found["as they are"].score < 0.01


def test_messages_of_other_rows_are_not_linked():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 4))
    found = linked(X, rng.standard_normal((1000, 4)), X)
    assert all(each.verdict == "not by these attacks" for each in found.values())


def test_rows_with_the_same_values_cannot_be_told_apart():
    values = np.repeat(np.arange(10.0), 100)[:, None]
    assert linked(values, values, values)["as they are"].score < 0.02
