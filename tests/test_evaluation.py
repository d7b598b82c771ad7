from __future__ import annotations

import numpy as np
import pytest

from fedonce import Guest, Host, InputError
from fedonce.evaluation import codes_of, scores, worth
from fedonce.tables import Table
from tests.conftest import make_table


def host_of(classes):
    host = Host("bank", "classification" if classes is not None else "regression")
    host.classes = None if classes is None else np.array(classes)
    return host


def test_scores_of_two_classes():
    outputs = np.array([[0.9, 0.1], [0.4, 0.6], [0.6, 0.4], [0.2, 0.8]])
    found = scores(host_of([0, 1]), np.array([0.0, 1.0, 1.0, 1.0]), outputs)
    assert found["accuracy"] == 0.75
    assert found["area under the curve"] == 1.0
    assert found["log loss"] == pytest.approx(-np.log([0.9, 0.6, 0.4, 0.8]).mean())


def test_scores_of_what_cannot_be_compared_are_left_out():
    outputs = np.array([[0.9, 0.1], [0.4, 0.6]])
    assert scores(host_of(["a", "b"]), np.array(["a", "new"], object), outputs) == {"accuracy": 0.5}
    assert set(scores(host_of(["a", "b"]), np.array(["a", "a"], object), outputs)) == {"accuracy", "log loss"}
    three = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    assert set(scores(host_of([1, 2, 3]), np.array([1, 3]), three)) == {"accuracy", "log loss"}


def test_scores_of_numbers():
    found = scores(host_of(None), np.array([1.0, 3.0]), np.array([1.0, 1.0]))
    assert found == {"rmse": pytest.approx(2**0.5), "mae": 1.0, "r2": -1.0}
    assert set(scores(host_of(None), np.array([1.0]), np.array([2.0]))) == {"rmse", "mae"}


def test_classes_are_found_whatever_their_type():
    assert codes_of(host_of([1, 2]), np.array(["2", "1.5", "1"], object)).tolist() == [1, -1, 0]


@pytest.mark.parametrize("gap", [np.nan, np.inf, -np.inf])
def test_labels_that_are_not_there(gap):
    with pytest.raises(InputError, match="1 of 2 rows have no finite label, the first is row 2"):
        scores(host_of(None), np.array([1.0, gap]), np.zeros(2))
    with pytest.raises(InputError, match="1 of 2 rows have no finite label"):
        scores(host_of(["a", "b"]), np.array(["a", None], object), np.zeros((2, 2)))
    with pytest.raises(InputError, match="there are no rows"):
        scores(host_of(None), np.zeros(0), np.zeros(0))


def test_the_party_that_knows_the_label_is_worth_most(rng):
    X, _ = make_table()
    X[:, 4:] = rng.standard_normal((len(X), 4))
    y = (X[:, 4] > 0).astype(int)
    guest = Guest("shop", "pca", 4, 32)
    message = guest.learn(X[:, 4:])
    host = Host("bank", epochs=30)
    host.aggregate(X[:, :4], y, [message])
    own, shop = worth(host, Table.of(X[:, :4]), y, [message], repeats=3)
    assert (own.party, own.absent, shop.party, shop.rows) == ("bank", None, "shop", len(X))
    assert shop.drop > 0.2 > abs(own.drop)
    again = worth(host, Table.of(X[:, :4]), y, [message], repeats=3)
    assert again == [own, shop]
