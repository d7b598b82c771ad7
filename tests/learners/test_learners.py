"""What every learner must do: one contract, all learners."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
import torch

from fedonce import FedOnceClassifier, InputError
from fedonce.learners import LEARNERS, NAT, PCA, Learner, configured, make, register
from tests.conftest import make_table

CPU = torch.device("cpu")
ALL = ["nat", "pca", "autoencoder", "cooccurrence", "random", "auto", "cells", "hinted"]
TABLE = [*ALL, "quantiles"]
IMAGE = [*ALL, "patches"]
CASES = (
    [(name, (6,)) for name in TABLE]
    + [(name, (1, 8, 8)) for name in IMAGE]
    + [("patches", (3, 12, 12)), ("auto", (1, 12, 12))]
)


def rows_of(shape, n=120, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, 3)) @ rng.standard_normal((3, int(np.prod(shape))))
    return rows.reshape(n, *shape).astype(np.float32)


def fitted(name, shape, seed=0, dim=4):
    learner = make(name, epochs=2)
    learner.fit(rows_of(shape), dim, np.random.default_rng(seed), CPU)
    return learner


@pytest.mark.parametrize(("name", "shape"), CASES)
class TestContract:
    def test_shape_and_repeatability(self, name, shape):
        rows = rows_of(shape)
        first = fitted(name, shape).transform(rows, CPU)
        assert first.shape[0] == len(rows)
        assert 1 <= first.shape[1] <= 4
        assert first.dtype == np.float32
        np.testing.assert_array_equal(first, fitted(name, shape).transform(rows, CPU))

    def test_a_row_does_not_depend_on_its_company(self, name, shape):
        learner, rows = fitted(name, shape), rows_of(shape)
        np.testing.assert_array_equal(learner.transform(rows[7:8], CPU), learner.transform(rows, CPU)[7:8])

    def test_state_and_back(self, name, shape):
        learner, rows = fitted(name, shape), rows_of(shape, seed=1)
        state = learner.state()
        assert all(isinstance(value, np.ndarray) for value in state.values())
        restored = make(name)
        restored.restore({key: value.copy() for key, value in state.items()})
        np.testing.assert_array_equal(restored.transform(rows, CPU), learner.transform(rows, CPU))

    def test_global_randomness_is_left_alone(self, name, shape):
        torch.manual_seed(0)
        np.random.seed(0)
        fitted(name, shape)
        after = torch.rand(1).item(), np.random.rand()
        torch.manual_seed(0)
        np.random.seed(0)
        assert after == (torch.rand(1).item(), np.random.rand())

    def test_before_fit(self, name, shape):
        with pytest.raises(InputError, match="has not learnt yet"):
            make(name).transform(rows_of(shape), CPU)


def test_names_objects_and_epochs():
    assert isinstance(make("nat"), NAT)
    assert make("nat", epochs=7).epochs == 7
    own = NAT(rate=0.5)
    copy = make(own)
    assert copy is not own
    assert copy.rate == 0.5
    assert isinstance(make("pca", epochs=7), PCA)


def test_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(InputError, match=r"\(did you mean 'autoencoder'\?\). Got 'autoencodr' instead"):
        make("autoencodr", owner="FedOnceClassifier")


def test_a_user_s_own_learner():
    @register
    @dataclass(eq=False)
    class First(Learner):
        name: ClassVar[str] = "first"
        dim_: int = field(default=0, init=False)

        def fit(self, rows, dim, rng, device):
            self.dim_ = min(dim, rows.shape[1])
            return []

        def transform(self, rows, device):
            return rows[:, : self.dim_]

        def state(self):
            return {"dim": np.array(self.dim_)}

        def restore(self, tensors):
            self.dim_ = int(tensors["dim"])

    X, y = make_table()
    try:
        model = FedOnceClassifier(learner="first", dim=2, host_epochs=2, random_state=0).fit(X, y)
    finally:
        del LEARNERS["first"]
    assert model.representations_["party2"].learner == "first"
    assert model.representations_["party2"].dim == 2


def test_settings_of_a_learner_as_texts():
    cells = configured("cells", {"least": "50", "cells": "30", "together": "true"})
    assert (cells.least, cells.cells, cells.together, cells.layers) == (50, 30, True, None)
    assert configured("quantiles", {"bins": "4"}).bins == 4
    assert configured("auto", {"readable": "true"}).readable is True
    assert configured("cooccurrence", {"values_per_byte": "3"}).values_per_byte == 3.0


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("cells", {"leest": "5"}, "'cells' has no setting 'leest' that can be given; it has: cells, centres, layers"),
        ("cells", {"bytes_per_row": "5"}, "no setting 'bytes_per_row'"),
        ("nat", {"network": "cnn0"}, "no setting 'network'"),
        ("random", {"x": "1"}, "it has: none"),
        ("cells", {"least": "many"}, "'least' parameter of the learner 'cells' must be a whole number. Got 'many'"),
        ("cells", {"together": "1"}, "true or false"),
        ("cells", {"least": "0"}, "'least' parameter of Cells must be an integer from 1"),
        ("cell", {}, "one of auto"),
    ],
)
def test_settings_that_cannot_be_given(name, options, said):
    with pytest.raises(InputError, match=said):
        configured(name, options)
