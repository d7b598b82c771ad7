"""SplitNN (Vepakomma et al., 2018): every batch goes to the host as values and comes back as gradients, by default in float32.

It is FedOnce's multi-round training without the one message: guests' networks and the host's model start from random
weights. SplitNN-Comm stops when FedOnce's float32 payload is spent.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.config import Config
from benchmarks.methods import settings
from benchmarks.problem import Problem, Result, clocked
from fedonce import NCF, Guest, Host, Rounds, Traffic, hostmodels
from fedonce.data.table import Table
from fedonce.engine.local import LocalEngine
from fedonce.hostmodels.recipe import LARGE_IMAGES
from fedonce.learners import Random
from fedonce.messages.received import Received
from fedonce.rounds import split_learning

GUEST_HIDDEN = (128, 64)
MOVIELENS = {"ids": settings.IDS.network, "auxiliary": NCF((1, 4, 10, 4, 15, 5), (128,))}


def run(problem: Problem, config: Config, seed: int) -> Result:
    """Train for so many epochs."""
    shift = LARGE_IMAGES.shift if _large(problem, config) else None  # guests' images, as the recipe moves the host's
    rounds = Rounds(epochs=_epochs(problem, config), bits=config.split_bits, start="random", shift=shift)
    return _run(problem, config, seed, rounds)


def run_comm(problem: Problem, config: Config, seed: int) -> Result:
    """Train until the bytes of FedOnce's float32 payload are spent."""
    dim = settings.dim(problem, config)
    budget = len(problem.y) * dim * 4 * len(problem.guests)
    training = Rounds(epochs=1, start="random").training(_model(problem, config), len(problem.y))
    round_payload = 2 * training.batch * dim * 4 * len(problem.guests)
    rounds = budget // round_payload
    if not rounds:
        return Result(None, note=f"not even one round fits into {budget:,} bytes: it takes {round_payload:,}")
    return _run(problem, config, seed, Rounds(rounds=rounds, bits=32, start="random"))


def _run(problem: Problem, config: Config, seed: int, rounds: Rounds) -> Result:
    dim, tables = settings.dim(problem, config), {name: problem.table(name) for name in problem.guests}
    guests = {
        name: Guest(
            name,
            _network(problem, config, name),
            dim,
            32,
            shape=problem.shape(name),
            random_state=seed,
            device=config.device,
        )
        for name in problem.guests
    }
    host = Host(
        problem.host,
        problem.data.task,
        settings.recipe(problem, config),
        config.host_epochs,
        problem.shape(problem.host),
        random_state=seed,
        device=config.device,
    )
    return play(problem, host, TimedEngine(guests, tables), rounds, Traffic())


def play(problem: Problem, host: Host, engine: TimedEngine, rounds: Rounds, traffic: Traffic) -> Result:
    """Train by rounds, and score."""
    with clocked() as clock:
        split_learning.fit(host, problem.table(problem.host), problem.y, engine, rounds, traffic)
    messages = [guest.represent(problem.table(name, test=True)) for name, guest in engine.parties.items()]
    predicted = host.predict(problem.table(problem.host, test=True), messages)
    # As if guests worked side by side: the host's time and the busiest guest's.
    busy = engine.busy.values()
    return Result(
        problem.score(predicted),
        traffic.messages,
        traffic.payload_bytes,
        traffic.bytes,
        seconds=clock.seconds - sum(busy) + max(busy, default=0.0),
        cpu=clock.cpu,
        detail={"rounds": traffic.rounds},
    )


class TimedEngine(LocalEngine):
    """The local engine, which also notes how long each guest was busy."""

    def __init__(self, guests: dict[str, Guest], tables: Mapping[str, Any]) -> None:
        super().__init__(guests, {name: Table.of(table) for name, table in tables.items()}, {})
        self.busy: dict[str, float] = defaultdict(float)

    def forward(self) -> dict[str, Received]:
        """Return the guests' values."""
        return self._received({name: self._timed(name, side.forward) for name, side in self.sides.items()})

    def backward(self, gradients: Any) -> None:
        """Hand each guest its gradient."""
        for name, gradient in gradients.items():
            self._timed(name, lambda name=name, gradient=gradient: self.sides[name].backward(gradient))

    def _timed(self, name: str, work: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        done = work()
        self.busy[name] += time.perf_counter() - started
        return done


def _model(problem: Problem, config: Config) -> Any:
    """Return the host's model untrained, which knows how it will train on columns of this shape."""
    shape = problem.shape(problem.host) or (len(problem.positions(problem.host)),)
    model = hostmodels.make("network", settings.recipe(problem, config), config.host_epochs)
    model.start(np.zeros((1, *shape), dtype=np.float32), (), 1)
    return model


def _epochs(problem: Problem, config: Config) -> float:
    """Return how many epochs to train: as asked, or as many as the host trains in FedOnce."""
    return config.epochs or _model(problem, config).training(len(problem.y)).epochs


def _network(problem: Problem, config: Config, guest: str) -> Any:
    """Return a guest's network, as a learner that does not learn by itself."""
    if config.settings == "paper":
        found = settings.learner(problem, config, guest)
        return replace(found)  # its network with its last activation, and none of its training
    if problem.data.name == "movielens":
        return Random(network=MOVIELENS[guest])
    return Random(hidden=GUEST_HIDDEN, network="cnn3" if _large(problem, config) else None)


def _large(problem: Problem, config: Config) -> bool:
    """Tell whether networks are the larger ones for images."""
    return config.recipe == "large" and problem.data.image is not None
