from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedonce import InputError, Recipe
from fedonce.hostmodels import Examples, NetworkModel
from fedonce.hostmodels.network import AggregationModel, drop_guests, outputs, stated
from fedonce.hostmodels.recipe import TABLES

CPU = torch.device("cpu")


def data(n=400, seed=0):
    rng = np.random.default_rng(seed)
    own, values = (
        rng.standard_normal((n, 3)).astype(np.float32),
        rng.standard_normal((n, 4)).astype(np.float32),
    )
    return (
        own,
        values,
        np.ones((n, 2), np.float32),
        (own[:, 0] + values[:, 0] + values[:, 2] > 0).astype(np.int64),
    )


def fit(examples, dims, n_outputs, recipe, rng, device):
    model = NetworkModel(recipe)
    history = model.fit(examples, dims, n_outputs, rng, device)
    return model.module(), history


def test_learns_from_own_columns_and_from_representations():
    own, values, present, target = data()
    model, history = fit(
        Examples(own, values, present, target), (2, 2), 2, replace(TABLES, epochs=15), np.random.default_rng(0), CPU
    )
    accuracy = (outputs(model, own, values, present, CPU).argmax(axis=1) == target).mean()
    assert accuracy > 0.9
    assert len(history) == 15


def test_an_absent_guest_s_values_do_not_matter():
    own, values, present, target = data()
    model, _ = fit(
        Examples(own, values, present, target), (2, 2), 2, replace(TABLES, epochs=1), np.random.default_rng(0), CPU
    )
    present[:, 1] = 0
    other = values.copy()
    other[:, 2:] = 99
    np.testing.assert_array_equal(outputs(model, own, values, present, CPU), outputs(model, own, other, present, CPU))


def test_scale_is_that_of_present_rows():
    model = AggregationModel((3,), (1, 2), 2, TABLES)
    values = torch.tensor([[1.0, 5.0, 0.0], [3.0, 7.0, 0.0], [99.0, 9.0, 0.0]])
    model.fit_scale(values, torch.tensor([[1.0, 1.0], [1.0, 1.0], [0.0, 1.0]]))
    torch.testing.assert_close(model.representations.mean, torch.tensor([2.0, 7.0, 0.0]))
    torch.testing.assert_close(model.representations.scale, torch.tensor([1.0, (8 / 3) ** 0.5, 1.0]))


def test_dropping_guests_copes_with_absence():
    """Two guests know the same; a model trained with drops relies on neither alone."""
    rng = np.random.default_rng(0)
    signal = rng.standard_normal((1500, 1)).astype(np.float32)
    own = rng.standard_normal((1500, 2)).astype(np.float32)
    values = np.hstack([signal, signal]) + 0.01 * rng.standard_normal((1500, 2)).astype(np.float32)
    target = (signal[:, 0] > 0).astype(np.int64)
    model, _ = fit(
        Examples(own, values, np.ones((1500, 2), np.float32), target), (1, 1), 2, replace(TABLES, epochs=10), rng, CPU
    )
    for absent in (0, 1):
        present = np.ones((1500, 2), np.float32)
        present[:, absent] = 0
        assert (outputs(model, own, values, present, CPU).argmax(axis=1) == target).mean() > 0.95


def test_share_of_rows_with_dropped_guests():
    torch.manual_seed(0)
    present = torch.ones(20_000, 4)
    assert drop_guests(present, 0.0) is present
    dropped = 1 - drop_guests(present, 0.1).mean().item()
    assert dropped == pytest.approx(0.05, abs=0.005)  # a tenth of the rows, half of the guests of those


def test_the_host_s_own_network():
    recipe = Recipe(network=nn.Linear(3, 5), encoder_dim=5, epochs=1)
    own, values, present, target = data(50)
    model, _ = fit(Examples(own, values, present, target), (2, 2), 2, recipe, np.random.default_rng(0), CPU)
    assert isinstance(model.encoder, nn.Linear)


def test_label_smoothing_makes_probabilities_less_extreme():
    own, values, present, target = data(200)
    examples = Examples(own, values, present, target)
    spreads = []
    for smoothing in (0.0, 0.2):
        recipe = Recipe(epochs=20, smoothing=smoothing)
        model, _ = fit(examples, (2, 2), 2, recipe, np.random.default_rng(0), CPU)
        raw = outputs(model, own, values, present, CPU)
        spreads.append(np.abs(raw[:, 0] - raw[:, 1]).mean())
    assert spreads[1] < spreads[0]


def test_several_members_are_averaged_and_the_first_is_the_one_alone():
    own, values, present, target = data(100)
    examples = Examples(own, values, present, target)
    one, history = fit(examples, (2, 2), 2, Recipe(epochs=2), np.random.default_rng(0), CPU)
    three, same = fit(examples, (2, 2), 2, Recipe(epochs=2, members=3), np.random.default_rng(0), CPU)
    assert history == same
    apart = [outputs(member, own, values, present, CPU) for member in three.members]
    np.testing.assert_array_equal(apart[0], outputs(one, own, values, present, CPU))
    assert not np.allclose(apart[0], apart[1])
    np.testing.assert_allclose(outputs(three, own, values, present, CPU), np.mean(apart, axis=0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("members", [0, 1.5])
def test_there_is_at_least_one_member(members):
    own, values, present, target = data(50)
    with pytest.raises(InputError, match="'members' parameter of Recipe"):
        fit(Examples(own, values, present, target), (2, 2), 2, Recipe(members=members), np.random.default_rng(0), CPU)


def test_a_weight_of_zero_is_as_good_as_leaving_rows_out():
    """A third of the labels are wrong on purpose: with a weight of 0 they do no harm, with none they do."""
    own, values, present, target = data(600)
    wrong = own[:, 1] > 0.5
    label = np.where(wrong, 1 - target, target)
    weight = np.where(wrong, 0.0, 1.0)
    given = Examples(own, values, present, label)
    found = {}
    for name, examples in {
        "weighed": replace(given, weight=weight / weight.mean()),
        "left out": given.take(np.flatnonzero(~wrong)),
        "alike": given,
    }.items():
        model, _ = fit(examples, (2, 2), 2, replace(TABLES, epochs=15), np.random.default_rng(0), CPU)
        found[name] = (outputs(model, own, values, present, CPU).argmax(axis=1) == target)[wrong].mean()
    assert found["weighed"] > found["left out"] - 0.05
    assert found["weighed"] > found["alike"] + 0.3


def test_without_weights_rows_count_alike_by_the_old_way():
    own, values, present, target = data(80)
    model = AggregationModel((3,), (2, 2), 2, TABLES)
    assert stated(model, Examples(own, values, present, target), TABLES, CPU).weight is None
    weighed = stated(model, Examples(own, values, present, target, np.ones(80)), TABLES, CPU)
    assert weighed.weight.dtype == torch.float32
