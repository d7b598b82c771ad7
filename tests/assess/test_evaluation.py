from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from fedonce import Guest, Host, InputError
from fedonce.assess.evaluation import codes_of, scores, worth
from fedonce.data.table import Table

PLAIN = {"accuracy", "log loss", "calibration error"}


def host_of(classes):
    host = Host("bank", "classification" if classes is not None else "regression")
    host.adopt(replace(host.state, classes=None if classes is None else np.array(classes)))
    return host


def test_scores_of_two_classes():
    outputs = np.array([[0.9, 0.1], [0.4, 0.6], [0.6, 0.4], [0.2, 0.8]])
    found = scores(host_of([0, 1]), np.array([0.0, 1.0, 1.0, 1.0]), outputs)
    assert found["accuracy"] == 0.75
    assert found["area under the curve"] == 1.0
    assert found["average precision of 0"] == 1.0  # the rarer class
    # In bins of confidence: 0.9 and right, 0.8 and right, 0.6 twice, once right.
    assert found["calibration error"] == pytest.approx((0.1 + 0.2 + abs(1 - 1.2)) / 4)
    assert found["log loss"] == pytest.approx(-np.log([0.9, 0.6, 0.4, 0.8]).mean())


def test_scores_of_what_cannot_be_compared_are_left_out():
    outputs = np.array([[0.9, 0.1], [0.4, 0.6]])
    assert scores(host_of(["a", "b"]), np.array(["a", "new"], object), outputs) == {"accuracy": 0.5}
    assert set(scores(host_of(["a", "b"]), np.array(["a", "a"], object), outputs)) == PLAIN
    three = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    assert set(scores(host_of([1, 2, 3]), np.array([1, 3]), three)) == PLAIN


def test_scores_of_a_rare_class_and_of_many():
    rng = np.random.default_rng(0)
    rare = (rng.random(400) < 0.1).astype(int)
    sure = np.clip(0.1 + 0.3 * rare + 0.1 * rng.standard_normal(400), 0.01, 0.99)
    label = np.where(rare == 1, "bad", "good").astype(object)
    found = scores(host_of(["bad", "good"]), label, np.column_stack([sure, 1 - sure]))
    assert found["average precision of bad"] == pytest.approx(average_precision_score(rare, sure))
    assert found["area under the curve"] == pytest.approx(roc_auc_score(rare, sure))
    codes = rng.integers(0, 3, 300)
    odds = np.eye(3)[codes] + rng.random((300, 3))
    odds /= odds.sum(axis=1, keepdims=True)
    found = scores(host_of([1, 2, 3]), codes + 1, odds)
    each = [roc_auc_score(codes == code, odds[:, code]) for code in range(3)]
    assert found["area under the curve, mean of classes"] == pytest.approx(np.mean(each))


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


def test_the_party_that_knows_the_label_is_worth_most():
    X = np.random.default_rng(1).standard_normal((700, 8))
    X[:, 4] *= 5
    y = (X[:, 4] > 0).astype(int)
    train, new = X[:500], X[500:]
    guest, host = Guest("shop", "pca", 4, 32), Host("bank", epochs=10)
    host.aggregate(train[:, :4], y[:500], [guest.learn(train[:, 4:])])
    message, own = guest.represent(new[:, 4:]), Table.of(new[:, :4])
    bank, shop = worth(host, own, y[500:], [message], repeats=3)
    assert (bank.party, bank.absent, shop.party, shop.rows) == ("bank", None, "shop", 200)
    assert min(shop.drop, shop.absent) > 0.2 > 0.1 > abs(bank.drop)
    assert worth(host, own, y[500:], [message], repeats=3) == [bank, shop]
