"""A guest that has a random half of the host's rows, in training and in test: kept, left out, or training on common rows alone.

Which guest that is says `config.half`; without `config.others` it is the only one. Scores are on all test rows.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.config import Config
from benchmarks.methods import estimator
from benchmarks.problem import Problem, Result, clocked
from benchmarks.rows import take
from fedonce import FedOnceWarning

SHARE = 0.5


def kept(problem: Problem, config: Config, seed: int) -> Result:
    """Train with the guest, where it has a row."""
    guest, has, has_test = _half(problem, config, seed)
    return _run(problem, config, seed, {guest: has}, {guest: has_test})


def left_out(problem: Problem, config: Config, seed: int) -> Result:
    """Train without the guest."""
    guest, _, _ = _half(problem, config, seed)
    return _run(problem, config, seed, {guest: False}, {guest: False})


def common(problem: Problem, config: Config, seed: int) -> Result:
    """Train on the rows that the guest has; test as in `kept`."""
    guest, has, has_test = _half(problem, config, seed)
    return _run(problem, config, seed, None, {guest: has_test}, has)


def _half(problem: Problem, config: Config, seed: int) -> tuple[str, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the guest, and which training and test rows it has."""
    rng = np.random.default_rng([seed, config.half])
    has, has_test = (rng.random(len(label)) < SHARE for label in (problem.y, problem.y_test))
    return f"party{config.half}", has, has_test


def _run(
    problem: Problem, config: Config, seed: int, present: Any, later: Any, rows: NDArray[np.bool_] | None = None
) -> Result:
    guests = problem.parties if config.others else (problem.host, *later)
    parties = {party: problem.parties[party] for party in guests}
    model = estimator.make(problem, config, seed, parties, problem.host)
    own = np.arange(len(problem.y)) if rows is None else np.flatnonzero(rows)
    with warnings.catch_warnings(), clocked() as clock:
        warnings.simplefilter("ignore", FedOnceWarning)  # the only guest may be left out
        model.fit(take(problem.X, own), problem.y[own], present=present)
        predicted = model.predict(problem.X_test, present=later)
    return Result(
        problem.score(np.asarray(predicted)),
        model.traffic_.messages,
        model.traffic_.payload_bytes,
        model.traffic_.bytes,
        seconds=clock.seconds,
        cpu=clock.cpu,
    )
