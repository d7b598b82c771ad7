"""Solo: the host learns from its own columns alone."""

from __future__ import annotations

from typing import Any

from benchmarks.config import Config
from benchmarks.methods import settings
from benchmarks.problem import Problem, Result, clocked
from fedonce import Host


def run(problem: Problem, config: Config, seed: int) -> Result:
    """Train the host's model without guests."""
    return alone(problem, settings.recipe(problem, config), config, seed)


def alone(problem: Problem, recipe: Any, config: Config, seed: int) -> Result:
    """Train a host by a recipe on the columns that it has."""
    host = Host(
        problem.host,
        problem.data.task,
        recipe,
        config.host_epochs,
        problem.shape(problem.host),
        random_state=seed,
        device=config.device,
        model=config.model,
        validate=config.validate,
    )
    with clocked() as clock:
        host.aggregate(problem.table(problem.host), problem.y, [])
    predicted = host.predict(problem.table(problem.host, test=True), [])
    return Result(problem.score(predicted), seconds=clock.seconds, cpu=clock.cpu)
