"""FedOnce, Solo and Combine by the estimators, as users run them: `fit` and `predict`, all parties on one machine.

Seconds are those of the whole `fit`. (`benchmarks.methods.fedonce` times each party as if it had a machine of its own. An
estimator draws the parties' seed from its `random_state`, so that values differ a little.)
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import public
from benchmarks.config import Config
from benchmarks.methods import settings
from benchmarks.problem import Problem, Result, clocked
from fedonce import FedOnceClassifier, FedOnceRegressor, FedOnceWarning, Hinting, Pixels

BINS = 10  # of numbers between public bounds


def run(problem: Problem, config: Config, seed: int) -> Result:
    """Train host and guests."""
    return measured(problem, make(problem, config, seed, problem.parties, problem.host))


def solo(problem: Problem, config: Config, seed: int) -> Result:
    """Train the host alone."""
    return measured(problem, make(problem, config, seed, {problem.host: problem.parties[problem.host]}, problem.host))


def combine(problem: Problem, config: Config, seed: int) -> Result:
    """Train one party that holds every column."""
    every = tuple(range(len(problem.data.feature_names)))
    columns = Pixels(every, problem.data.image) if problem.data.image else list(every)
    return measured(problem, make(problem, config, seed, {"all": columns}, "all"))


def make(problem: Problem, config: Config, seed: int, parties: Mapping[str, Any], host: str) -> Any:
    """Return an estimator with these settings."""
    kind = FedOnceClassifier if problem.classes else FedOnceRegressor
    return kind(
        parties=dict(parties),
        host=host,
        learner={guest: settings.learner(problem, config, guest) for guest in parties if guest != host},
        dim=settings.dim(problem, config),
        bits=settings.bits(config),
        host_epochs=config.host_epochs,
        recipe=settings.recipe(problem, config, combine=host not in problem.parties),
        model=config.model,
        bytes_per_row=config.bytes_per_row if len(parties) > 1 else None,
        bytes_total=config.bytes_total if len(parties) > 1 else None,
        representation_noise=config.noise,
        local_epsilon=config.local_epsilon,
        bounds=None if config.local_epsilon is None else public.bounds(problem.data),
        hints=_hints(problem, config, seed) if len(parties) > 1 else None,
        protect=config.protect,
        device=config.device,
        random_state=seed,
        validate=config.model == "auto",  # the default, as users get it; of the others the training alone is timed
    )


def _hints(problem: Problem, config: Config, seed: int) -> Hinting | None:
    """Return how the host hints at its labels: at numbers by even bins between public bounds."""
    if config.hints is None:
        return None
    bins = None
    if not problem.classes:
        low, high = problem.data.target_range(seed)  # a problem's labels are scaled by it
        bins = (np.linspace(*public.target_bounds(problem.data), BINS + 1)[1:-1] - low) / (high - low)
    return Hinting(config.hints, bins, label="the label")


def measured(problem: Problem, model: Any) -> Result:
    """Train an estimator, and score it."""
    with warnings.catch_warnings(), clocked() as clock:
        warnings.simplefilter("ignore", FedOnceWarning)  # Solo and Combine are one party alone
        model.fit(problem.X, problem.y)
    return Result(
        problem.score(np.asarray(model.predict(problem.X_test))),
        model.traffic_.messages,
        model.traffic_.payload_bytes,
        model.traffic_.bytes,
        seconds=clock.seconds,
        cpu=clock.cpu,
        detail={"learners": sorted(set(model.learners_.values())), "test_rows": len(problem.y_test)} | _by_hints(model),
    )


def _by_hints(model: Any) -> dict[str, Any]:
    """Return what guests' messages say of hints, where there were any."""
    return {} if model.hints_ is None else {"notes": [message.note for message in model.representations_.values()]}
