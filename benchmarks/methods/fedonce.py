"""FedOnce: one message a guest. FedOnce-L0 is the paper's, with NAT and its settings; FedOnce is ours, with any learner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from benchmarks.config import Config
from benchmarks.methods import settings
from benchmarks.methods.linear import linear
from benchmarks.problem import Clock, Problem, Result, clocked
from fedonce import Guest, Host, Representation, Traffic


@dataclass
class Learnt:
    """A guest that has learnt, what it sent for training and for test rows, and how long it took."""

    guest: Guest
    message: Representation
    test: Representation
    clock: Clock


@dataclass
class OneShot:
    """A host trained on the messages of its guests."""

    host: Host
    guests: list[Learnt]
    traffic: Traffic
    clock: Clock

    @property
    def seconds(self) -> float:
        """Time where every party has a machine of its own."""
        return max((one.clock.seconds for one in self.guests), default=0.0) + self.clock.seconds

    @property
    def cpu(self) -> float:
        """CPU time of all parties."""
        return sum(one.clock.cpu for one in self.guests) + self.clock.cpu


def run(problem: Problem, config: Config, seed: int) -> Result:
    """Let guests learn and send, train the host, and score."""
    done = one_shot(problem, config, seed)
    lost = _drawn(seed, len(done.guests), config.late)
    answers = [one.test for j, one in enumerate(done.guests) if j not in lost]
    predicted = done.host.predict(problem.table(problem.host, test=True), answers)
    detail: dict[str, Any] = {"learners": sorted({one.message.learner for one in done.guests})}
    if config.probe:
        detail["probe"] = probe(problem, done)
    return Result(
        problem.score(predicted),
        done.traffic.messages,
        done.traffic.payload_bytes,
        done.traffic.bytes,
        seconds=done.seconds,
        cpu=done.cpu,
        detail=detail,
    )


def with_learner(name: str) -> Any:
    """Return FedOnce with a learner, whatever the configuration says."""
    return lambda problem, config, seed: run(problem, replace(config, learner=name), seed)


def paper(problem: Problem, config: Config, seed: int) -> Result:
    """FedOnce-L0: NAT and the paper's settings."""
    return run(problem, replace(config, settings="paper", learner="nat"), seed)


def one_shot(problem: Problem, config: Config, seed: int) -> OneShot:
    """Train, or remember what the same settings gave for this split."""
    key = ("one-shot", problem.host, seed, replace(config, epochs=None, probe=False, late=0))
    if key not in problem.memory:
        problem.memory[key] = _train(problem, config, seed)
    found: OneShot = problem.memory[key]
    return found


def _train(problem: Problem, config: Config, seed: int) -> OneShot:
    lost = _drawn(seed, len(problem.guests), config.absent)
    names = [name for j, name in enumerate(problem.guests) if j not in lost]
    guests = [learn(problem, config, seed, name) for name in names]
    host = Host(
        problem.host,
        problem.data.task,
        settings.recipe(problem, config),
        config.host_epochs,
        problem.shape(problem.host),
        random_state=seed,
        device=config.device,
        model=config.model,
        validate=config.validate,
    )
    with clocked() as clock:
        host.aggregate(problem.table(problem.host), problem.y, [one.message for one in guests])
    traffic = Traffic()
    for one in guests:
        traffic.add(one.message, one.message.nbytes)
    return OneShot(host, guests, traffic, clock)


def _drawn(seed: int, n_guests: int, count: int) -> NDArray[np.intp]:
    """Draw guests that do not answer; of more there are those of fewer."""
    return np.random.default_rng(seed).permutation(n_guests)[:count]


def learn(problem: Problem, config: Config, seed: int, name: str) -> Learnt:
    """Let a guest learn: once for a seed, whoever is the host."""
    learner, dim, bits = settings.learner(problem, config, name), settings.dim(problem, config), settings.bits(config)
    key = ("guest", name, seed, repr(learner), dim, bits, config.noise)
    if key not in problem.memory:
        guest = Guest(
            name,
            learner,
            dim,
            bits,
            shape=problem.shape(name),
            noise=config.noise,
            random_state=seed,
            device=config.device,
        )
        with clocked() as clock:
            message = guest.learn(problem.table(name))
        problem.memory[key] = Learnt(guest, message, guest.represent(problem.table(name, test=True)), clock)
    found: Learnt = problem.memory[key]
    return found


def probe(problem: Problem, done: OneShot) -> float:
    """Return the score of a linear model on the guests' representations, side by side, without the host's columns."""
    rows, test = (
        np.hstack([getattr(one, side).values for one in done.guests]).astype(np.float64) for side in ("message", "test")
    )
    scaler = StandardScaler().fit(rows)
    return problem.score(linear(problem.classes).fit(scaler.transform(rows), problem.y).predict(scaler.transform(test)))
