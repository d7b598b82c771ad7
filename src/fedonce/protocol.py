"""FedOnce: vertical federated learning with one message per guest.

Wu, Li and He, "Practical Vertical Federated Learning with Unsupervised Representation Learning", IEEE Transactions on
Big Data, 2022. Line numbers are those of its Algorithms 1 and 2. Engines reach guests, learners learn, hosts train.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedonce.messages.received import Received, collect
from fedonce.messages.representation import Representation
from fedonce.messages.traffic import Traffic
from fedonce.party import Host
from fedonce.rounds import split_learning
from fedonce.rounds.settings import Rounds
from fedonce.rows.matching import Matching
from fedonce.training.settings import Epoch


class Engine(Protocol):
    """How messages travel; who does not answer is not in the result. For more rounds than one, also a `RoundsEngine`.

    The engine decodes each message, once and within the limits that it knows.
    """

    @property
    def guests(self) -> tuple[str, ...]:
        """Names of all guests, present or not."""

    def learn(self) -> Mapping[str, Received]:
        """Let each guest learn from its training rows; return its one message, by name."""

    def represent(self) -> Mapping[str, Received]:
        """Let each guest represent the rows to be predicted; return its one message, by name."""


@dataclass(frozen=True)
class Fitted:
    """What a training left behind, beside the parties' models."""

    representations: dict[str, Representation]
    traffic: Traffic
    absent: tuple[str, ...]
    overlap: dict[str, float]
    history: list[Epoch]


@dataclass(frozen=True)
class Prediction:
    """Probabilities (classification) or numbers (regression), and how they came about."""

    outputs: NDArray[np.float64]
    traffic: Traffic
    absent: tuple[str, ...]
    representations: dict[str, Representation]
    present: dict[str, NDArray[np.bool_]]  # by guest of the training: which rows it has

    @property
    def overlap(self) -> dict[str, float]:
        """Share of the rows that each guest with a message has."""
        return {guest: float(self.present[guest].mean()) for guest in self.representations}


def fit(
    host: Host,
    table: Any,
    label: Any,
    engine: Engine,
    rounds: Rounds | None = None,
    matching: Matching | None = None,
    weight: Any = None,
) -> Fitted:
    """Algorithm 1: guests learn without labels; the host learns from labels and one message per guest.

    With `rounds`, all parties then go on together (Section 5.3). `matching` and `weight` are as for `Host.aggregate`.
    """
    matching = matching or host.matching
    host.weights(weight, table, rounds is not None)  # looked at before anybody learns
    if rounds is not None:
        split_learning.check(engine, host)  # before anybody learns
        if rounds.start == "random":
            return _split_learning(host, table, label, engine, rounds, matching)
    # Lines 1-17, in parallel, no guest knowing of another:
    #   theta_j, P  <-  argmin (1/2n) || f_theta_j(x^j) - P C_j ||^2      for NAT; other learners likewise without labels
    #   send R_j = f_theta_j(x^j) to the host                           the only communication
    received = engine.learn()
    # Line 19: collect R_j. A laggy guest (Appendix C) is left out, and known by name.
    representations, traffic = collect(received, matching.max_memory)
    # Lines 20-31:  w  <-  argmin L(f_w(x^1, R_2..R_k), y)
    history = host.aggregate(table, label, list(representations.values()), matching, weight, rounds is not None)
    overlap = dict(host.overlap)
    traffic.absent = absent = tuple(guest for guest in engine.guests if guest not in representations)
    if rounds is not None:
        history = history + split_learning.fit(host, table, label, engine, rounds, traffic, matching)
    return Fitted(representations, traffic, absent, overlap | dict.fromkeys(absent, 0.0), history)


def _split_learning(host: Host, table: Any, label: Any, engine: Engine, rounds: Rounds, matching: Matching) -> Fitted:
    """Train by rounds alone, from random weights and without the one message: SplitNN, FedOnce's rival."""
    traffic = Traffic()
    history = split_learning.fit(host, table, label, engine, rounds, traffic, matching)
    traffic.absent = absent = tuple(guest for guest in engine.guests if guest not in host.dims)
    return Fitted({}, traffic, absent, {guest: float(guest in host.dims) for guest in engine.guests}, history)


def predict(host: Host, table: Any, engine: Engine, matching: Matching | None = None) -> Prediction:
    """Algorithm 2: one message per guest and set of rows, then the host predicts. `matching` is as for `fit`."""
    matching = matching or host.matching
    # Lines 1-5:  R_j = f_theta_j(x^j), sent to the host
    representations, traffic = collect(engine.represent(), matching.max_memory)
    # Line 7:  y = f_w(x^1, R_2..R_k), zeros for a guest that did not answer
    outputs, present = host.answers(table, list(representations.values()), matching)
    traffic.absent = absent = tuple(guest for guest in engine.guests if guest not in representations)
    return Prediction(outputs, traffic, absent, representations, present)
