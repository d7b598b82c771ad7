"""The engine of a federation, whatever connects its parties: requests to guests, and their messages decoded."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedonce.federation.collecting import Collector, Terms
from fedonce.federation.conversing import Conversation
from fedonce.federation.jobqueue import Clock, Watch
from fedonce.federation.request import Request
from fedonce.federation.status import GuestStatus
from fedonce.federation.transport import RoundsTransport, Transport
from fedonce.messages.received import Received
from fedonce.messages.representation import Representation
from fedonce.rounds.settings import Rounds
from fedonce.training.settings import Training

Read = Callable[[str, bytes], Representation]


@dataclass
class FederationEngine:
    """Asks guests over a transport, and collects their messages.

    Parameters
    ----------
    transport : Transport
        Carries requests and messages.
    asked : dict by guest
        The requests for `learn` or `represent`.
    folder : path
        Where jobs and what arrived are kept.
    terms : Terms
        How long to wait, for how many, and how much to take of each.
    read : callable, optional
        Decodes a guest's message; raises MessageError where it cannot be used. Default: with the `dim` that it was asked for.
    watch : callable
        Is told of every change.
    clock, sleep : callable
        How time passes.
    """

    transport: Transport
    asked: Mapping[str, Request]
    folder: Path
    terms: Terms
    read: Read | None = None
    watch: Watch = lambda status: None
    clock: Clock = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        read = self.read or self._decode
        self.collector = Collector(self.transport, self.folder, self.terms, read, self.watch, self.clock, self.sleep)

    @property
    def guests(self) -> tuple[str, ...]:
        """Who is asked."""
        return tuple(self.asked)

    @property
    def statuses(self) -> dict[str, GuestStatus]:
        """Where each guest stands."""
        return self.collector.statuses

    @property
    def moved(self) -> dict[str, int]:
        """Nothing: messages come in no files of their own."""
        return {}

    @property
    def refused(self) -> dict[str, str]:
        """Who has sent nothing that can be used, and why, or where it stands."""
        return {name: each.reason or each.state for name, each in self.statuses.items() if each.bytes is None}

    def learn(self) -> dict[str, Received]:
        """Let guests learn, wait for their messages until the deadline, and return those that came."""
        found = self.collector.collect(self.asked)
        return {name: Received(message, self.statuses[name].bytes or 0) for name, message in found.items()}

    represent = learn

    def received(self) -> dict[str, bytes]:
        """Return the messages that came, by guest, as they were sent."""
        return self.collector.files()

    def close(self) -> None:
        """End the connection."""
        self.collector.close()

    def _decode(self, guest: str, data: bytes) -> Representation:
        return Representation.from_bytes(data, guest, self.asked[guest].dim, self.terms.max_memory)


@dataclass
class RoundsFederationEngine(FederationEngine):
    """Also lets guests train on together, over a transport that carries rounds; `ask_rounds` makes the requests for them."""

    transport: RoundsTransport
    ask_rounds: Callable[[Rounds], Mapping[str, Request]] | None = None
    tuned: dict[str, str] = field(default_factory=dict, init=False)  # guests that closed rounds, and their new model

    def __post_init__(self) -> None:
        super().__post_init__()
        dims = {name: request.dim for name, request in self.asked.items()}
        queue, terms = self.collector.queue, self.terms
        self.rounds = Conversation(self.transport, queue, dims, terms.silence, terms.max_memory, self.sleep)

    def open_rounds(self, rounds: Rounds, n_rows: int, host: str) -> dict[str, Received]:
        """Start a job at each guest, wait until it is ready, and return what the guests open with."""
        assert self.ask_rounds is not None
        return self.rounds.open(self.ask_rounds(rounds))

    def begin_rounds(self, training: Training, order: int) -> None:
        """Tell each guest how everyone trains, in which order of rows."""
        self.rounds.begin(training, order)

    def forward(self) -> dict[str, Received]:
        """Hand each guest the gradient of its last values, and return its next ones."""
        return self.rounds.forward()

    def backward(self, gradients: Mapping[str, bytes]) -> None:
        """Keep the gradients: they travel with the next word."""
        self.rounds.backward(gradients)

    def close_rounds(self) -> dict[str, Received]:
        """Let each guest freeze its model."""
        closing, self.tuned = self.rounds.finish()
        for name, carried in self.rounds.wire.items():
            self.statuses[name].wire = (self.statuses[name].wire or 0) + carried
        return closing

    def close(self) -> None:
        """End the connection; rounds that were not closed end, too."""
        self.rounds.abandon()
        super().close()
