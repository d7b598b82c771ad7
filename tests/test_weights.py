"""Weights of rows and of classes as users of the estimators give them."""

from __future__ import annotations

import numpy as np
import pytest

from fedonce import FedOnceClassifier, FedOnceRegressor, InputError
from fedonce.estimators.weights import weights_of
from tests.conftest import make_table

X, Y = make_table(90)
COLUMNS = {"parties": {"bank": [0, 1, 2, 3], "shop": [4, 5, 6, 7]}, "host": "bank", "learner": "pca", "model": "linear"}
LABEL = np.array(["a", "b", "b", "b"])


def weights(sample=None, by_class=None, label=LABEL, task="classification"):
    return weights_of(sample, by_class, np.zeros((len(label), 2)), label, task, "FedOnceClassifier")


def test_weights_of_rows_and_of_classes_are_multiplied():
    assert weights() is None
    assert weights([1, 2, 3, 4]).tolist() == [1, 2, 3, 4]
    assert weights(None, {"a": 3}).tolist() == [3, 1, 1, 1]
    assert weights(None, "balanced") == pytest.approx([2, 2 / 3, 2 / 3, 2 / 3])
    assert weights([1, 2, 3, 4], {"a": 3, "b": 0.5}).tolist() == [3, 1, 1.5, 2]


@pytest.mark.parametrize("wrong", ["heavy", 5, [1.0, 2.0], {"a": "much"}, {"a": [1, 2]}])
def test_weights_of_classes_that_cannot_be_meant(wrong):
    with pytest.raises(InputError, match="'class_weight'"):
        weights(None, wrong)


def test_a_class_that_there_is_not():
    with pytest.raises(
        InputError, match="'class_weight' of FedOnceClassifier names the class 'c', which y does not have"
    ):
        weights(None, {"a": 1, "c": 2})


def test_numbers_have_no_classes():
    with pytest.raises(InputError, match="'class_weight'.*left out for numbers"):
        weights(None, "balanced", np.arange(4.0), "regression")


@pytest.mark.parametrize(
    "wrong",
    [[4321.0, 1.0], [[4321.0]] * 90, [-4321.0] + [1.0] * 89, [0.0] * 90, [np.nan] + [4321.0] * 89, ["4321x"] * 90],
    ids=["too few", "a table", "below 0", "all 0", "not a number", "text"],
)
@pytest.mark.parametrize("made", [FedOnceClassifier, FedOnceRegressor])
def test_weights_of_rows_that_cannot_be_meant(made, wrong):
    with pytest.raises(ValueError, match=r"(?i)weight") as told:
        made(**COLUMNS).fit(X, Y, sample_weight=wrong)
    assert "4321" not in str(told.value)


def test_a_rare_class_counts_as_much_as_the_other():
    rare = np.where((Y == 1) & (np.arange(90) % 4 > 0), 0, Y)
    plain, balanced = (FedOnceClassifier(**COLUMNS, class_weight=each).fit(X, rare) for each in (None, "balanced"))
    assert balanced.predict(X).sum() > plain.predict(X).sum()
