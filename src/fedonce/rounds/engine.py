"""How the messages of rounds travel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from fedonce.errors import InputError
from fedonce.messages.received import Received
from fedonce.rounds.settings import Rounds
from fedonce.training.settings import Training


@runtime_checkable
class RoundsEngine(Protocol):
    """How the messages of rounds travel. The engine decodes them; a guest that does not answer is not in the result."""

    def open_rounds(self, rounds: Rounds, n_rows: int, host: str) -> Mapping[str, Received]:
        """Let each guest get ready; return a message without rows that says how many values it will send."""

    def begin_rounds(self, training: Training, order: int) -> None:
        """Tell each guest how everyone trains, and the seed by which all draw the same order of rows."""

    def forward(self) -> Mapping[str, Received]:
        """Let each guest send its values of the next batch's rows."""

    def backward(self, gradients: Mapping[str, bytes]) -> None:
        """Hand each guest the gradient of its values."""

    def close_rounds(self) -> Mapping[str, Received]:
        """Let each guest freeze its model; return a message without rows that carries its new scale."""


def check_engine(engine: object) -> RoundsEngine:
    """Return an engine that carries rounds; raise where it carries one message only."""
    if not isinstance(engine, RoundsEngine):
        raise InputError(
            f"Rounds need parties that answer at once, which {type(engine).__name__} does not give; leave rounds out."
        )
    return engine
