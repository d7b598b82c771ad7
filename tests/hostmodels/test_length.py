from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedonce.hostmodels import Examples, NetworkModel
from fedonce.hostmodels.length import choose_epochs
from fedonce.hostmodels.network import outputs
from fedonce.hostmodels.recipe import TABLES

CPU = torch.device("cpu")


def fit(examples, dims, n_outputs, recipe):
    model = NetworkModel(recipe)
    history = model.fit(examples, dims, n_outputs, np.random.default_rng(0), CPU)
    return model.module(), history


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
        model, _ = fit(train, (), 1, recipe)
        raw = outputs(model, test.own, test.values, test.present, CPU)[:, 0]
        errors.append(np.square(raw - test.target).mean())
    assert errors[0] < 0.9 * errors[1]
    assert errors[0] < 1.05 * test.target.var()


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
    chosen = choose_epochs(examples, TABLES, once, np.random.default_rng(0), CPU)
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

    assert choose_epochs(examples, TABLES, once, np.random.default_rng(0), CPU) == 100
    odds[100] = 50.0
    assert choose_epochs(examples, TABLES, once, np.random.default_rng(0), CPU) == 25


def test_noise_in_many_rows_is_not_learnt_by_heart_either():
    rng = np.random.default_rng(0)
    own = rng.standard_normal((6000, 5)).astype(np.float32)
    target = (own[:, 0] + 2 * rng.standard_normal(6000) > 0).astype(np.int64)
    nothing = np.zeros((6000, 0), np.float32)
    _, history = fit(Examples(own, nothing, nothing, target), (), 2, TABLES)
    assert len(history) < TABLES.training(6000).epochs


def test_rows_of_no_weight_have_no_say_in_how_long_to_train():
    own = np.zeros((600, 1), np.float32)
    target = (np.arange(600) % 4 == 0).astype(np.int64)  # one row in four is of class 1
    odds = {8: 1.1, 25: -3.0, 100: -9.0}  # the longer, the surer of class 1

    def once(part, recipe, rng):
        return Certain(odds[recipe.epochs]), []

    examples = Examples(own, own[:, :0], own[:, :0], target)
    heavy = replace(examples, weight=np.where(target == 1, 4.0, 0.0))
    assert choose_epochs(examples, TABLES, once, np.random.default_rng(0), CPU) == 8
    assert choose_epochs(heavy, TABLES, once, np.random.default_rng(0), CPU) == 100
