"""Combine: one party holds every column. What learning together would reach if there were no walls."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.config import Config
from benchmarks.methods import settings
from benchmarks.methods.solo import alone
from benchmarks.problem import Problem, Result
from fedonce import Pixels


def run(problem: Problem, config: Config, seed: int) -> Result:
    """Train the host's model on all columns."""
    every = tuple(range(len(problem.data.feature_names)))
    columns = Pixels(every, problem.data.image) if problem.data.image else every
    whole = replace(problem, parties={"all": columns}, host="all")
    return alone(whole, settings.recipe(problem, config, combine=True), config, seed)
