"""Rows held back."""

import numpy as np
import pytest

from fedonce import FedOnceClassifier, FedOnceRegressor, InputError
from fedonce.hostmodels.holding import FEW, splits

TARGETS = {
    "numbers": np.linspace(0, 1, 23),
    "classes": np.arange(23) % 3,
    "a class of one row": (np.arange(23) > 0).astype(np.int64),
    "no class with a second row": np.arange(23),
}


@pytest.mark.filterwarnings("ignore:The least populated class")
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_of_few_rows_each_is_held_back_once(target):
    parts = splits(target, np.random.default_rng(0))
    assert sorted(np.concatenate([part.held for part in parts])) == list(range(23))
    assert all(set(part.held).isdisjoint(part.learn) for part in parts)


def test_of_many_rows_a_seventh_is_held_back():
    (part,) = splits(np.arange(FEW) % 2, np.random.default_rng(0))
    assert (len(part.held), len(part.learn)) == (286, FEW - 286)


@pytest.mark.parametrize(("estimator", "rows"), [(FedOnceRegressor, 1), (FedOnceRegressor, 2), (FedOnceClassifier, 3)])
def test_too_few_rows_to_hold_any_back_are_refused_with_a_remedy(estimator, rows):
    X = np.random.default_rng(0).standard_normal((rows, 4))
    with pytest.raises(InputError, match=rf"n_samples={rows}\. Add rows, or take the network"):
        estimator(2, random_state=0).fit(X, np.arange(rows) % 2)
    estimator(2, random_state=0, model="network", host_epochs=1).fit(X, np.arange(rows) % 2)
