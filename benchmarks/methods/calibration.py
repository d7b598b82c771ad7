"""How far probabilities of FedOnce can be believed on test rows, before and after calibration by rows held back.

Both are of one training: to calibrate changes nothing of the model.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.config import Config
from benchmarks.methods.fedonce import one_shot
from benchmarks.problem import Problem, Result
from benchmarks.rows import take
from fedonce import Host
from fedonce.assess.evaluation import scores

TOLD = ("calibration error", "log loss")


def run(problem: Problem, config: Config, seed: int) -> Result:
    """Train, and score probabilities as they are without calibration, and as `calibrate="auto"` leaves them."""
    problem = problem if config.rare is None else thinned(problem, config.rare, seed)
    done = one_shot(problem, config, seed)
    plain = Host.from_settings(done.host.settings, replace(done.host.state, temperature=1.0))
    table, messages = problem.table(problem.host, test=True), [one.test for one in done.guests]
    found = {
        name: scores(host, problem.y_test, host.outputs(table, messages))
        for name, host in {"before": plain, "after": done.host}.items()
    }
    told = {each: {name: found[name][each] for name in found} for each in TOLD}
    return Result(
        100 * found["after"]["accuracy"],
        done.traffic.messages,
        done.traffic.payload_bytes,
        done.traffic.bytes,
        seconds=done.seconds,
        cpu=done.cpu,
        detail={"temperature": done.host.temperature, "test_rows": len(problem.y_test), **told},
    )


def thinned(problem: Problem, share: float, seed: int) -> Problem:
    """Return a problem whose rarer class is this share of the training rows, and of the test rows."""
    names, counts = np.unique(problem.y, return_counts=True)
    rare = names[counts.argmin()]
    rng = np.random.default_rng(seed)
    train, test = (_kept(y == rare, share, rng) for y in (problem.y, problem.y_test))
    return replace(
        problem,
        X=take(problem.X, train),
        X_test=take(problem.X_test, test),
        y=problem.y[train],
        y_test=problem.y_test[test],
        memory=problem.memory.setdefault(("thinned", share), {}),
    )


def _kept(is_rare: NDArray[np.bool_], share: float, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return all rows of the others, and so many of the rare class that they are this share."""
    rare, others = np.flatnonzero(is_rare), np.flatnonzero(~is_rare)
    count = min(len(rare), round(share / (1 - share) * len(others)))
    return np.sort(np.concatenate([others, rng.choice(rare, count, replace=False)]))
