"""FedOnce with a privacy budget: ours, whose guarantee holds, and the paper's FedOnce-L1 and Priv-Baseline, nominally.

The paper's two use NAT, whose epsilon is not a guarantee; they are repeated for comparison, with the accountant of its figures
and one noise for all parties. Labels are brought back to their own unit first, as scaling by training rows is not private.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import public
from benchmarks.config import Config
from benchmarks.methods.settings import PRESET_OF
from benchmarks.problem import Problem, Result, clocked
from fedonce import FedOnceClassifier, FedOnceRegressor, FedOnceWarning, InputError, Privacy, presets

SMALLEST_IMAGE = 14  # pixels per side that the paper's CNN1 needs


def run(problem: Problem, config: Config, seed: int) -> Result:
    """Train with a sound guarantee."""
    return _run(problem, config, seed, {"learner": config.learner, "dim": config.dim, "bits": config.bits})


def paper(problem: Problem, config: Config, seed: int) -> Result:
    """FedOnce-L1 as published: moments division."""
    return _run(problem, config, seed, _published(problem, config) | {"division": "moments"})


def baseline(problem: Problem, config: Config, seed: int) -> Result:
    """Priv-Baseline as published: simple division."""
    return _run(problem, config, seed, _published(problem, config) | {"division": "simple"})


def _published(problem: Problem, config: Config) -> dict[str, Any]:
    name = PRESET_OF.get(problem.data.name, problem.data.name)
    budget = 8.0 if config.epsilon == float("inf") else config.epsilon  # the paper prints no settings for infinity
    settings = presets.load(name, level=1, epsilon=budget)
    recipe = settings["recipe"]
    if config.host_epochs is not None:
        recipe = replace(recipe, epochs=config.host_epochs)
    learner = replace(settings["learner"], epochs=config.guest_epochs or settings["learner"].epochs)
    shape = problem.shape(problem.host)
    if shape is not None and min(shape[1:]) < SMALLEST_IMAGE:  # smoke runs have small images
        recipe, learner = replace(recipe, network="cnn0"), replace(learner, network="cnn0")
    return {
        "learner": learner,
        "recipe": recipe,
        "dim": settings["dim"],
        "bits": 32,
        "accountant": "reference",
        "privacy": replace(settings["privacy"], budget_shares="common", unsound_paper_reproduction=True),
    }


def _run(problem: Problem, config: Config, seed: int, settings: dict[str, Any]) -> Result:
    if config.epsilon is None:
        raise InputError("A private method needs 'epsilon' in its settings.")
    kind = FedOnceClassifier if problem.classes else FedOnceRegressor
    low, high = problem.data.target_range(seed)
    few_rows = len(problem.y) < 5000  # the small data of smoke runs
    privacy = replace(settings.get("privacy", Privacy()), allow_large_delta=few_rows)
    model = kind(
        parties=problem.parties,
        host=problem.host,
        epsilon=config.epsilon,
        delta=config.delta,
        bounds=public.bounds(problem.data),
        target_bounds=public.target_bounds(problem.data),
        host_epochs=config.host_epochs,
        device=config.device,
        random_state=seed,
        **settings | {"privacy": privacy},
    )
    label = problem.y if problem.classes else problem.y * (high - low) + low
    with warnings.catch_warnings(), clocked() as clock:
        warnings.simplefilter("ignore", FedOnceWarning)  # rows beyond the bounds are set to them
        model.fit(problem.X, label)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedOnceWarning)
        predicted = model.predict(problem.X_test)
    if not problem.classes:
        predicted = (predicted - low) / (high - low)
    ledger = model.ledger_
    detail = {
        "spent": ledger.epsilon(),
        "nominal": ledger.nominal,
        "noises": {entry.party: entry.event.noise for entry in ledger.entries if entry.event is not None},
    }
    return Result(
        problem.score(np.asarray(predicted)),
        model.traffic_.messages,
        model.traffic_.payload_bytes,
        model.traffic_.bytes,
        seconds=clock.seconds,
        cpu=clock.cpu,
        note="nominal epsilon" if ledger.nominal else "",
        detail=detail,
    )
