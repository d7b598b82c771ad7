from __future__ import annotations

from dataclasses import replace

import pytest

from fedonce import InputError, Recipe
from fedonce.hostmodels.recipe import IMAGES, PAPER, TABLES, find_recipe


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
