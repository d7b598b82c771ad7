"""Multi-round FedOnce: the one-shot models, trained further together. Its first point is FedOnce itself."""

from __future__ import annotations

import copy
from dataclasses import replace

from benchmarks.config import Config
from benchmarks.methods.fedonce import one_shot
from benchmarks.methods.splitnn import TimedEngine, play
from benchmarks.problem import Problem, Result
from fedonce import Rounds


def run(problem: Problem, config: Config, seed: int) -> Result:
    """Go on from FedOnce for some epochs (1 where none are given), in both directions."""
    done = one_shot(problem, config, seed)
    guests = {one.guest.name: copy.deepcopy(one.guest) for one in done.guests}
    engine = TimedEngine(guests, {name: problem.table(name) for name in guests})
    rounds = Rounds(epochs=config.epochs or 1)
    result = play(problem, copy.deepcopy(done.host), engine, rounds, copy.deepcopy(done.traffic))
    return replace(result, seconds=result.seconds + done.seconds, cpu=result.cpu + done.cpu)


def paper(problem: Problem, config: Config, seed: int) -> Result:
    """Go on from FedOnce-L0: NAT and the paper's settings."""
    return run(problem, replace(config, settings="paper", learner="nat"), seed)
