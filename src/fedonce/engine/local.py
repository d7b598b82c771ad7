"""All parties in one process or on one machine's cores: for experiments, tests and debugging.

Messages take the same way as between machines: encoded to bytes by the guest, checked and decoded by the host.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from fedonce.data.table import Table
from fedonce.messages.hints import Hints
from fedonce.messages.received import Received
from fedonce.party import Guest
from fedonce.rounds.guest import GuestSide
from fedonce.rounds.settings import Rounds
from fedonce.training.settings import Training

logger = logging.getLogger(__name__)


@dataclass
class LocalEngine:
    """Guests, each with its own rows.

    Parameters
    ----------
    parties : dict
        Guests by name.
    tables : dict
        Each guest's columns for all agreed rows; what a guest lacks is cut out before the guest sees it.
    present : dict
        Which of the agreed rows a guest has. Not listed: all of them.
    n_jobs : int or None
        Processes that learn side by side, as in joblib.
    max_memory : int, optional
        Messages that would take more bytes of memory are refused. Default: a quarter of the machine's.
    hints : Hints, optional
        What the host has published of its labels; they reach guests as bytes, too.
    """

    parties: dict[str, Guest]
    tables: Mapping[str, Table]
    present: Mapping[str, NDArray[np.bool_]]
    n_jobs: int | None = None
    max_memory: int | None = None
    hints: Hints | None = None
    sides: dict[str, GuestSide] = field(default_factory=dict, init=False, repr=False)

    @property
    def guests(self) -> tuple[str, ...]:
        """Names of all guests."""
        return tuple(self.parties)

    def learn(self) -> dict[str, Received]:
        """Let each guest that has any row learn; return the messages."""
        answering = self._answering()
        # With a privacy budget in threads: each purse's ledger is then here, also when a guest fails.
        where = "sharedmem" if any(guest.purse is not None for guest in answering) else None
        hints = None if self.hints is None else self.hints.to_bytes()
        done = Parallel(n_jobs=self.n_jobs, require=where)(
            delayed(_learn)(guest, *self.rows_of(guest.name), hints) for guest in answering
        )
        for guest, _ in done:  # logged here, as the guests' processes have no log of ours
            logger.info("guest %s: learnt with %s", guest.name, guest.learner.name)
        self.parties = self.parties | {guest.name: guest for guest, _ in done}
        return self._received({guest.name: message for guest, message in done})

    def represent(self) -> dict[str, Received]:
        """Let each guest that has any row, and has learnt, represent its rows; return the messages."""
        answering = [guest for guest in self._answering() if guest.codec is not None]
        return self._received({each.name: each.represent(*self.rows_of(each.name)).to_bytes() for each in answering})

    def open_rounds(self, rounds: Rounds, n_rows: int, host: str) -> dict[str, Received]:
        """Let each guest that takes part get ready for rounds."""
        learnt = [guest for guest in self._answering() if guest.codec is not None or rounds.start == "random"]
        self.sides = {guest.name: GuestSide(guest, *self.rows_of(guest.name), rounds, n_rows, host) for guest in learnt}
        return self._received({name: side.opening() for name, side in self.sides.items()})

    def begin_rounds(self, training: Training, order: int) -> None:
        """Tell each guest how everyone trains, in which order of rows."""
        for side in self.sides.values():
            side.begin(training, order)

    def forward(self) -> dict[str, Received]:
        """Return the guests' values of the next batch's rows."""
        return self._received({name: side.forward() for name, side in self.sides.items()})

    def backward(self, gradients: Mapping[str, bytes]) -> None:
        """Hand each guest its gradient."""
        for name, gradient in gradients.items():
            self.sides[name].backward(gradient)

    def close_rounds(self) -> dict[str, Received]:
        """Let each guest freeze its model; its rows are not kept."""
        closing = {name: side.close() for name, side in self.sides.items()}
        self.sides = {}
        return self._received(closing)

    def _received(self, messages: Mapping[str, bytes]) -> dict[str, Received]:
        """Decode messages; the host compares how many values they have with what it knows of the guest."""
        return {name: Received.of(data, name, max_memory=self.max_memory) for name, data in messages.items()}

    def _answering(self) -> list[Guest]:
        return [
            guest for guest in self.parties.values() if guest.name not in self.present or self.present[guest.name].any()
        ]

    def rows_of(self, name: str) -> tuple[Table, NDArray[np.bool_] | None]:
        """Return the rows that a guest has, and which of the agreed ones they are (None: all)."""
        mask = self.present.get(name)
        if mask is None or mask.all():
            return self.tables[name], None
        return self.tables[name].take(mask), mask


def _learn(guest: Guest, table: Table, mask: NDArray[np.bool_] | None, hints: bytes | None) -> tuple[Guest, bytes]:
    """Run in the guest's process; the fitted guest comes back so that it can represent rows later."""
    try:
        message = guest.learn(table, mask, hints=None if hints is None else Hints.from_bytes(hints))
    except Exception as error:
        error.add_note(f"(party {guest.name!r} failed in learn)")
        raise
    return guest, message.to_bytes()
