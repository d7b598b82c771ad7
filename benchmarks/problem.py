"""What every method of the comparison gets, and what it gives back."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.columns import select
from fedonce import Pixels
from fedonce.datasets import Dataset


@dataclass(frozen=True, eq=False)
class Problem:
    """Training and test rows of one split, who holds which columns, and who has the labels.

    Attributes
    ----------
    data : Dataset
        Where the rows come from.
    parties : mapping
        Names to columns, as the estimators take them.
    host : str
        The party with the labels.
    X, X_test, y, y_test
        One split.
    memory : dict
        Guests that have learnt, kept for the problems of the same split, which differ in their host alone.
    """

    data: Dataset
    parties: Mapping[str, Any]
    host: str
    X: Any
    X_test: Any
    y: NDArray[Any]
    y_test: NDArray[Any]
    memory: dict[Any, Any] = field(default_factory=dict)

    @property
    def classes(self) -> bool:
        """Whether the task is classification."""
        return self.data.task == "classification"

    @property
    def guests(self) -> tuple[str, ...]:
        """Every party but the host."""
        return tuple(party for party in self.parties if party != self.host)

    def positions(self, party: str) -> tuple[int, ...]:
        """Return the columns of a party, by position."""
        own = self.parties[party]
        names = self.data.feature_names
        columns = own.columns if isinstance(own, Pixels) else own
        return tuple(column if isinstance(column, int) else names.index(column) for column in columns)

    def shape(self, party: str) -> tuple[int, ...] | None:
        """Return (channels, rows, columns) where a party's columns are pixels."""
        own = self.parties[party]
        return own.shape if isinstance(own, Pixels) else None

    def table(self, party: str, test: bool = False) -> Any:
        """Return a party's own columns of the training rows, or of the test rows."""
        return select(self.X_test if test else self.X, self.positions(party))

    def score(self, predicted: NDArray[Any]) -> float:
        """Return accuracy in per cent, or the root mean squared error, on the test rows."""
        if self.classes:
            return float(100 * np.mean(predicted == self.y_test))
        return float(np.sqrt(np.mean((np.asarray(predicted, dtype=float) - self.y_test) ** 2)))


@dataclass
class Result:
    """What one run of one method gave.

    Attributes
    ----------
    value : float or None
        Accuracy in per cent or root mean squared error, on the test rows; None where nothing could be trained, and the note
        says why.
    messages, payload, bytes, wire
        Messages sent in training; bytes of their values; bytes of the messages; bytes that a network really moved (None
        where there is none).
    seconds, cpu : float
        As if each party had a machine of its own (slowest guest, then host), and the CPU time of all together.
    note : str
        What a reader of the number must know.
    detail : dict
        More, by method.
    """

    value: float | None
    messages: int = 0
    payload: int = 0
    bytes: int = 0
    wire: int | None = None
    seconds: float = 0.0
    cpu: float = 0.0
    note: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass
class Clock:
    """Wall time and CPU time of a block."""

    seconds: float = 0.0
    cpu: float = 0.0


@contextmanager
def clocked() -> Iterator[Clock]:
    """Time a block."""
    clock = Clock()
    wall, cpu = time.perf_counter(), time.process_time()
    yield clock
    clock.seconds, clock.cpu = time.perf_counter() - wall, time.process_time() - cpu
