"""How a guest answers what a host asks: its own policy first, then its own tables, then one file; kept, to be sent again.

Before an answer leaves, it is written to the guest's record, by which the policy counts (`record`, `allowance`).
Under the request's fingerprint the guest keeps its answer and the model that made it. Asked again, it gives the same bytes
without looking at its table; killed in the middle of learning, it goes on from its last epoch. What the host is told of a refusal
or a failure is made for its eyes: no path, no value of the data, no column that the host did not name itself.

The work itself is in `tasks`, which is imported when there is any: an answer that is kept needs neither torch nor a table.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedonce.federation.record import MESSAGE
from fedonce.federation.request import Request
from fedonce.federation.workplace import Failed, Tell, Workplace
from fedonce.system.locks import hold

if TYPE_CHECKING:
    from fedonce.federation.tasks import RoundsResponder

KITS = "FEDONCE_KITS"  # in the environment of a simulation: the folder with all guests' kits

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Responder(Workplace):
    """A guest that answers: from what it kept, or by work at its tables."""

    @classmethod
    def of(cls, workspace: Path, name: str, tell: Tell, stopped: Callable[[], bool]) -> Responder:
        """Return who answers for the kit that a FLARE client was started from; in FLARE's simulator, of a kit by its name."""
        kits = os.environ.get(KITS)
        return cls(workspace.resolve().parent if kits is None else Path(kits) / name, name, tell, stopped)

    def answer(self, request: Request) -> Path:
        """Return the file with the answer: the one kept from before, or a new one; it is in the record by then."""
        folder = self.kept(request.fingerprint)
        with self.discreet(), hold(self._lock(request, folder), self._wait):
            message = folder / MESSAGE
            if message.exists():
                if request.what == "learn":
                    self.check_again(request, folder)
                else:
                    self.check_policy(request, ())
                logger.info("%s of run %s was answered before: the same file again", request.what, request.run)
            else:
                from fedonce.federation import tasks

                make = {"learn": tasks.learn, "represent": tasks.represent, "align": tasks.align}[request.what]
                make(self, request, folder)
            self._write_down(request, folder)
            return message

    def open_rounds(self, request: Request) -> RoundsResponder:
        """Get ready for training on together."""
        with self.discreet():
            from fedonce.federation import tasks

            return tasks.open_rounds(self, request)

    def _wait(self) -> None:
        """Wait while another process of this guest works at the same: an earlier job that was given up, say."""
        self.tell("waiting")
        if self.stopped():
            raise Failed("an earlier process of this guest is still at work")
