from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedonce import InputError, Recipe
from fedonce.hostmodels.network import (
    IMAGES,
    PAPER,
    TABLES,
    AggregationModel,
    ByOverlap,
    Examples,
    _choose_epochs,
    drop_guests,
    find_recipe,
    fit,
    outputs,
    partial_guests,
)

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


def test_recipes_by_name_shape_and_epochs():
    assert find_recipe("default", None, (7,), "Host") == TABLES
    assert find_recipe("default", None, (1, 14, 14), "Host") == IMAGES
    assert find_recipe("default", None, (1, 4, 4), "Host") == TABLES
    assert find_recipe("paper", 7, (7,), "Host") == replace(PAPER, epochs=7)
    own = Recipe(head=(5,))
    assert find_recipe(own, None, (7,), "Host") is own
    with pytest.raises(InputError, match="'recipe' parameter of FedOnceClassifier must be .* Got 'papr' instead"):
        find_recipe("papr", None, (7,), "FedOnceClassifier")


def test_the_paper_s_recipe_is_adam_at_a_constant_rate():
    training = PAPER.training(10_000)
    assert training.optimizer == "adam"
    assert training.rate_at(0.0) == training.rate_at(1.0) == 1e-4
    assert (training.batch, PAPER.guest_dropout, PAPER.marks, PAPER.standardise) == (100, 0.0, False, False)


def test_the_host_s_own_network():
    recipe = Recipe(network=nn.Linear(3, 5), encoder_dim=5, epochs=1)
    own, values, present, target = data(50)
    model, _ = fit(Examples(own, values, present, target), (2, 2), 2, recipe, np.random.default_rng(0), CPU)
    assert isinstance(model.encoder, nn.Linear)


def test_few_noisy_rows_are_not_learnt_by_heart():
    """Mostly noise: training long is worse than predicting the mean, and a part of the training rows shows it."""
    rng = np.random.default_rng(0)
    own = rng.standard_normal((600, 6)).astype(np.float32)
    target = 0.5 * own[:, 0] + rng.standard_normal(600)
    nothing = np.zeros((600, 0), np.float32)
    train, test = (
        Examples(own[rows], nothing[rows], nothing[rows], target[rows]) for rows in (slice(300), slice(300, 600))
    )
    errors = []
    for recipe in (TABLES, replace(TABLES, epochs=100)):
        model, _ = fit(train, (), 1, recipe, np.random.default_rng(0), CPU)
        raw = outputs(model, test.own, test.values, test.present, CPU)[:, 0]
        errors.append(np.square(raw - test.target).mean())
    assert errors[0] < 0.9 * errors[1]
    assert errors[0] < 1.05 * test.target.var()


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


class Certain(nn.Module):
    """Says of every row that it is of class 0, the surer the larger `odds`; own columns add a little to that."""

    def __init__(self, odds: float) -> None:
        super().__init__()
        self.odds = odds

    def forward(self, own, values, present):
        return torch.stack([self.odds + own[:, 0], torch.zeros(len(own))], dim=1)


@pytest.mark.parametrize(
    ("n_rows", "odds", "expected", "tried"),
    [
        (600, {8: 0.1, 25: 0.2, 100: 3.0}, 100, [8, 25, 100]),
        (600, {8: 0.1, 25: -1.0, 100: 3.0}, 100, [8, 25, 100]),  # with few rows all are tried
        (600, {8: 0.2, 25: 0.1, 100: -1.0}, 8, [8, 25, 100]),
        (600, {8: 0.2, 25: 0.2, 100: -1.0}, 25, [8, 25, 100]),  # the longest that is as good
        (12_800, {8: 0.1, 25: 1.0, 100: -9.0}, 100, [8, 25]),  # clearly better so far: on to all
        (12_800, {8: 0.2, 25: 0.1, 100: 9.0}, 8, [8, 25]),  # worse: not longer
        (12_800, {8: 0.1, 25: 0.11, 100: -1.0}, 25, [8, 25, 100]),
        (12_800, {8: 0.1, 25: 0.11, 100: 3.0}, 100, [8, 25, 100]),
    ],
)
def test_how_long_to_train_is_what_held_back_rows_speak_for(n_rows, odds, expected, tried):
    own, asked = 0.001 * np.random.default_rng(0).standard_normal((n_rows, 1)).astype(np.float32), []

    def once(part, recipe, rng):
        assert len(part.own) == n_rows - n_rows // 6
        asked.append(recipe.epochs)
        return Certain(odds[recipe.epochs]), []

    examples = Examples(own, own[:, :0], own[:, :0], np.zeros(n_rows, np.int64))
    chosen = _choose_epochs(examples, TABLES, once, np.random.default_rng(0), CPU)
    assert (chosen, asked) == (expected, tried)


def test_a_longer_training_that_is_worse_within_the_noise_is_kept_for_classes():
    class Sure(nn.Module):
        """Right on most rows and wrong on some, surer of both."""

        def __init__(self, odds):
            super().__init__()
            self.odds = odds

        def forward(self, own, values, present):
            return torch.stack([self.odds * own[:, 0], torch.zeros(len(own))], dim=1)

    own = np.where(np.random.default_rng(0).random((600, 1)) < 0.2, -1, 1).astype(np.float32)
    examples = Examples(own, own[:, :0], own[:, :0], np.zeros(600, np.int64))
    odds = {8: 1.4, 25: 1.4, 100: 1.9}  # a little worse

    def once(part, recipe, rng):
        return Sure(odds[recipe.epochs]), []

    assert _choose_epochs(examples, TABLES, once, np.random.default_rng(0), CPU) == 100
    odds[100] = 50.0
    assert _choose_epochs(examples, TABLES, once, np.random.default_rng(0), CPU) == 25


def test_noise_in_many_rows_is_not_learnt_by_heart_either():
    rng = np.random.default_rng(0)
    own = rng.standard_normal((6000, 5)).astype(np.float32)
    target = (own[:, 0] + 2 * rng.standard_normal(6000) > 0).astype(np.int64)
    nothing = np.zeros((6000, 0), np.float32)
    _, history = fit(Examples(own, nothing, nothing, target), (), 2, TABLES, np.random.default_rng(0), CPU)
    assert len(history) < TABLES.training(6000).epochs


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
    model, history = fit(examples, (1,), 2, replace(TABLES, epochs=10), np.random.default_rng(0), CPU)
    assert isinstance(model, ByOverlap)
    assert len(history) == 10
    assert model.trust[1] >= 0.5  # where the guest is present it tells the class
    test = half_present(seed=1)
    right = outputs(model, test.own, test.values, test.present, CPU).argmax(axis=1) == test.target
    has = test.present[:, 0] > 0
    assert right[has].mean() > 0.97 > right[~has].mean()
    whole = replace(examples, present=np.ones_like(examples.present))
    assert not isinstance(fit(whole, (1,), 2, replace(TABLES, epochs=1), np.random.default_rng(0), CPU)[0], ByOverlap)


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
