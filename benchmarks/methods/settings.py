"""What a method's settings mean for a data set: the host's recipe, and the guests' learners."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.config import Config
from benchmarks.problem import Problem
from fedonce import NCF, Recipe, presets
from fedonce.hostmodels.recipe import find_recipe
from fedonce.learners import Hinted, make

# MovieLens: embeddings, as nothing else tells one user from another; few epochs, as they soon know the ratings by heart.
IDS = Recipe(network=NCF((32, 32), (128,), dropout=0.3), epochs=6, batch=512, weight_decay=0.0)
EVERY_COLUMN = replace(IDS, network=NCF((32, 32, 1, 4, 10, 4, 15, 5), (128,), dropout=0.3))
AUXILIARY = Recipe(epochs=10, batch=512)
PRESET_OF = {
    "mnist-4-9": "gisette",
    "digits": "mnist",
    "digits-8x8": "mnist",
    "breast-cancer": "phishing",
    "diabetes": "superconduct",
}


def preset(problem: Problem) -> dict[str, Any]:
    """Return the paper's settings for a problem's data; those of the nearest data set where the paper has none."""
    name = PRESET_OF.get(problem.data.name, problem.data.name)
    return presets.load(name, host=problem.host if name == "movielens" else None)


def recipe(problem: Problem, config: Config, combine: bool = False) -> Any:
    """Return how the host trains; `combine`: where one party holds every column."""
    if config.settings == "paper":
        return preset(problem)["recipe"]
    if config.recipe is not None and config.members > 1:
        found = find_recipe(config.recipe, None, problem.shape(problem.host) or (1,), "the experiment")
        return replace(found, members=config.members)
    if config.recipe is not None:
        return config.recipe
    if config.model != "network":
        return "default"  # a recipe is the network's
    if problem.data.name == "movielens":
        return EVERY_COLUMN if combine else {"ids": IDS, "auxiliary": AUXILIARY}[problem.host]
    return "default" if config.members == 1 else Recipe(members=config.members)


def learner(problem: Problem, config: Config, guest: str) -> Any:
    """Return how a guest learns."""
    if config.hint_share is not None:
        return Hinted(base=config.learner, epochs=config.guest_epochs, share=config.hint_share)
    if config.settings != "paper":
        return make(config.learner, config.guest_epochs, bytes_per_row=config.bytes_per_row)
    found = preset(problem)["learner"]
    found = found[guest] if isinstance(found, dict) else found
    return replace(found, epochs=config.guest_epochs or found.epochs)


def dim(problem: Problem, config: Config) -> int:
    """Return how many values a guest sends per row."""
    return int(preset(problem)["dim"]) if config.settings == "paper" else config.dim


def bits(config: Config) -> int:
    """Return the bits of a value."""
    return 32 if config.settings == "paper" else config.bits
