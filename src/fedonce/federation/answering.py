"""How a guest answers what a host asks: its own policy first, then its own tables, then one file; kept, to be sent again.

Under the request's fingerprint the guest keeps its answer and the model that made it. Asked again, it gives the same bytes
without looking at its table; killed in the middle of learning, it goes on from its last epoch. What the host is told of a refusal
or a failure is made for its eyes: no path, no value of the data, no column that the host did not name itself.

The work itself is in `work`, which is imported when there is any: an answer that is kept needs neither torch nor a table.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import fedonce
from fedonce.errors import FedOnceError, MessageError, MissingPackageError
from fedonce.federation.asking import Request
from fedonce.federation.kits import GuestTables
from fedonce.federation.policy import Policy

if TYPE_CHECKING:
    from fedonce.federation.work import RoundsDesk

KITS = "FEDONCE_KITS"  # in the environment of a simulation: the folder with all guests' kits
ANSWERS, MESSAGE, ASKED, COLUMNS, STATE = "answers", "message.fedonce", "request.fedonce", "columns.json", "state"

logger = logging.getLogger(__name__)


class Refused(FedOnceError):  # noqa: N818  # what it is: an answer
    """The guest does not do what it is asked; the text is for the host's eyes."""


class Failed(FedOnceError):  # noqa: N818
    """The guest could not do what it is asked; the text is for the host's eyes, the cause for the guest's."""


class Tell(Protocol):
    """Where the guest stands: a word, and which epoch of how many."""

    def __call__(self, state: str, epoch: int | None = None, epochs: int | None = None) -> None:
        """Tell it."""


@dataclass(frozen=True)
class Desk:
    """A guest at its own tables.

    Parameters
    ----------
    kit : path
        The guest's kit: its tables and policy are named there, and its answers kept.
    name : str
        The guest's name.
    tell : callable
        Is told where the guest stands.
    stopped : callable
        Whether nobody waits for the answer any more.
    """

    kit: Path
    name: str
    tell: Tell
    stopped: Callable[[], bool] = lambda: False

    @classmethod
    def of(cls, workspace: Path, name: str, tell: Tell, stopped: Callable[[], bool]) -> Desk:
        """Return the desk of the kit that a FLARE client was started from; in FLARE's simulator, of a kit by its name."""
        kits = os.environ.get(KITS)
        return cls(workspace.resolve().parent if kits is None else Path(kits) / name, name, tell, stopped)

    def read(self, data: bytes) -> Request:
        """Read a request, and refuse one that is not for this guest or from another version."""
        try:
            host, version = Request.maker_of(data)
            if version != fedonce.__version__:
                raise Refused(
                    f"{self.name} has fedonce {fedonce.__version__}, {host} has {version}; install the same version at both."
                )
            request = Request.from_bytes(data)
        except MessageError as error:
            raise Refused(str(error)) from None
        own_host = self._host()
        if request.guest != self.name or own_host not in (None, request.host):
            raise Refused(
                f"the request is of {request.host!r} for {request.guest!r}; this is {self.name!r}, whose host is {own_host!r}."
            )
        return request

    def _host(self) -> str | None:
        """Return whose guest this is, by the kit; in a simulation there is none."""
        facts = self.kit / "kit.toml"
        return tomllib.loads(facts.read_text(encoding="utf-8"))["host"] if facts.exists() else None

    def answer(self, request: Request) -> Path:
        """Return the file with the answer: the one kept from before, or a new one."""
        folder = self.kept(request.fingerprint)
        with self.discreet(), self._only_one(folder):
            message = folder / MESSAGE
            if message.exists():
                if request.what == "learn":
                    self.check_again(request, folder)
                else:
                    self.check_policy(request, ())
                logger.info("%s of run %s was answered before: the same file again", request.what, request.run)
                return message
            from fedonce.federation import work

            make = {"learn": work.learn, "represent": work.represent, "align": work.align}[request.what]
            make(self, request, folder)
            return message

    def open_rounds(self, request: Request) -> RoundsDesk:
        """Get ready for training on together."""
        with self.discreet():
            from fedonce.federation import work

            return work.open_rounds(self, request)

    def kept(self, fingerprint: str) -> Path:
        """Return the folder in which the answer to a request is kept, and the model that made it."""
        return self.kit / ANSWERS / fingerprint

    def tables(self) -> GuestTables:
        """Return where the guest's tables are."""
        return GuestTables.from_file(self.kit / "guest.toml")

    def check_policy(self, request: Request, columns: Sequence[str]) -> Policy:
        """Refuse what the guest's policy does not allow; `columns` are those of its table."""
        policy = Policy.read(self.tables().policy or self.kit / "policy.toml")
        reason = policy.refusal(request, list(columns))
        if reason is not None:
            raise Refused(reason)
        return policy

    def check_again(self, request: Request, folder: Path) -> None:
        """Refuse what was learnt with what the policy, as it is now, does not allow; its words name columns, and stay here."""
        used = json.loads((folder / COLUMNS).read_text(encoding="utf-8"))
        try:
            self.check_policy(replace(request, columns=tuple(used)), used)
        except Refused as refused:
            logger.warning("what was learnt for run %s is no longer allowed: %s", request.run, refused)
            self.check_policy(request, request.columns or ())  # where the host's own words tell why
            raise Refused(f"the policy of {self.name} no longer allows what was learnt for this.") from None

    @contextmanager
    def discreet(self) -> Iterator[None]:
        """Let nothing out that was not made for the host's eyes."""
        try:
            yield
        except (Refused, Failed):
            raise
        except MissingPackageError as error:
            raise Failed(f"{self.name} lacks a package for this; its log says which.") from error
        except FedOnceError as error:
            raise Failed(f"{self.name} cannot do this with its table; its log says why.") from error
        except Exception as error:
            raise Failed(f"{self.name} failed; its log says why.") from error

    @contextmanager
    def _only_one(self, folder: Path) -> Iterator[None]:
        """Wait while another process of this guest works at the same request: an earlier job that was given up, say."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / "lock").open("w") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    self.tell("waiting")
                    if self.stopped():
                        raise Failed("an earlier process of this guest is still at work") from None
                    time.sleep(0.5)
            yield
