"""Settings as JSON values, and back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fedonce import NCF, InputError, Recipe
from fedonce.learners import NAT
from fedonce.training.stored import restored_settings, settings_of


def test_settings_come_back_with_their_types():
    learner = NAT(hidden=(3, np.int64(4)), network=NCF((8, 0), (16,), 0.5))
    kept = json.loads(json.dumps(settings_of(learner, "It")))
    again = NAT(**restored_settings(kept))
    assert again.hidden == (3, 4)
    assert again.network == learner.network
    recipe = Recipe(network=NCF((8,), (16,)), drift=0.5)
    assert Recipe(**restored_settings(settings_of(recipe, "It"))) == recipe


def test_settings_that_a_file_cannot_hold():
    with pytest.raises(
        InputError, match="It cannot be saved: its 'network' is a object of your own, which a file without"
    ):
        settings_of(Recipe(network=object()), "It")
    with pytest.raises(InputError, match="It cannot be saved: object must be a dataclass"):
        settings_of(object(), "It")
