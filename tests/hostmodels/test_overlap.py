from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedonce.hostmodels import Examples, NetworkModel
from fedonce.hostmodels.network import outputs
from fedonce.hostmodels.overlap import ByOverlap, partial_guests
from fedonce.hostmodels.recipe import TABLES

CPU = torch.device("cpu")


def fit(examples, dims, n_outputs, recipe):
    model = NetworkModel(recipe)
    history = model.fit(examples, dims, n_outputs, np.random.default_rng(0), CPU)
    return model.module(), history


def half_present(n=400, seed=0):
    """A guest with half of the rows, whose one value is the class where it is present; the host's columns say little."""
    rng = np.random.default_rng(seed)
    target = rng.integers(0, 2, n)
    own = (rng.standard_normal((n, 2)) + 0.5 * target[:, None]).astype(np.float32)
    present = (rng.random((n, 1)) < 0.5).astype(np.float32)
    values = (present * (2 * target[:, None] - 1 + 0.1 * rng.standard_normal((n, 1)))).astype(np.float32)
    return Examples(own, values, present, target.astype(np.int64))


def test_which_guests_are_partial():
    present = np.ones((100, 4), np.float32)
    present[:50, 1], present[:5, 2], present[:, 3] = 0, 0, 0
    assert partial_guests(present) == (False, True, False, False)  # one that never answers is not partial, but absent


def test_a_guest_with_half_of_the_rows_gets_a_second_model():
    examples = half_present()
    model, history = fit(examples, (1,), 2, replace(TABLES, epochs=10))
    assert isinstance(model, ByOverlap)
    assert len(history) == 10
    assert model.trust[1] >= 0.5  # where the guest is present it tells the class
    test = half_present(seed=1)
    right = outputs(model, test.own, test.values, test.present, CPU).argmax(axis=1) == test.target
    has = test.present[:, 0] > 0
    assert right[has].mean() > 0.97 > right[~has].mean()
    whole = replace(examples, present=np.ones_like(examples.present))
    assert not isinstance(fit(whole, (1,), 2, replace(TABLES, epochs=1))[0], ByOverlap)


def test_both_models_are_mixed_by_trust():
    class Says(nn.Module):
        def __init__(self, number):
            super().__init__()
            self.number = number

        def forward(self, own, values, present):
            return torch.full((len(own), 1), self.number) + present.sum(dim=1, keepdim=True)

    model = ByOverlap(Says(0.0), Says(100.0), (True, False))
    model.trust.copy_(torch.tensor([0.25, 0.75]))
    present = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    mixed = model(torch.zeros(2, 1), torch.zeros(2, 2), present)
    # Row 0: both see one guest. Row 1: the model without partial guests sees one, the other two.
    assert mixed[:, 0].tolist() == pytest.approx([0.25 * 101 + 0.75 * 1, 0.75 * 102 + 0.25 * 1])


@pytest.mark.parametrize(("good", "expected"), [("with_all", 1.0), ("without", 0.0)])
def test_trust_goes_to_the_model_that_is_right_on_rows_held_back(good, expected):
    class Knows(nn.Module):
        def __init__(self, right):
            super().__init__()
            self.right = right

        def forward(self, own, values, present):
            return own if self.right else torch.zeros_like(own)

    rng = np.random.default_rng(0)
    target = rng.standard_normal(200)
    present = (rng.random((200, 1)) < 0.5).astype(np.float32)
    rest = Examples(target[:, None].astype(np.float32), present, present, target)
    model = ByOverlap(Knows(good == "without"), Knows(good == "with_all"), (True,))
    model.choose_trust(rest)
    assert model.trust.tolist() == [expected, expected]
    few = ByOverlap(Knows(True), Knows(False), (True,))
    few.choose_trust(rest.take(np.arange(10)))
    assert few.trust.tolist() == [0.0, 1.0]  # too few rows to choose by


def test_rows_of_no_weight_have_no_say_in_whom_to_trust():
    class Says(nn.Module):
        def __init__(self, number):
            super().__init__()
            self.number = number

        def forward(self, own, values, present):
            return torch.full((len(own), 1), self.number)

    target = np.where(np.arange(200) < 150, 0.0, 1.0)
    own, present = np.zeros((200, 1), np.float32), np.ones((200, 1), np.float32)
    rest = Examples(own, own, present, target)
    trust = []
    for weight in (None, np.where(target == 1, 4.0, 0.0)):
        both = ByOverlap(Says(0.0), Says(1.0), [True])
        both.choose_trust(replace(rest, weight=weight))
        trust.append(float(both.trust[1]))
    assert trust == [0.25, 1.0]
