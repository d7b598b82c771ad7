"""Ask guests, wait until a deadline, keep what they send: over any transport, and by any clock.

One job per guest: who is offline leaves its job in the queue, and nobody waits for it but the host, until its deadline. A job
that ends without an answer (a guest was killed, the server was) is followed by another: the guest then sends what it has
finished, or goes on learning where it was. What arrived is kept in a folder, so that a host that starts again asks nobody twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from fedonce.errors import AbsentPartyError, MessageError
from fedonce.federation.jobqueue import LONGEST_RETRY, RETRY_SECONDS, Clock, JobQueue, Watch
from fedonce.federation.request import Request
from fedonce.federation.status import DONE, SILENCE, GuestStatus, advice, plain, seconds, whole
from fedonce.federation.transport import Left, Transport
from fedonce.messages.envelope import read_bytes
from fedonce.party.storage import model_folder
from fedonce.system.sizes import MESSAGE_LIMIT

PAUSE, LONG_PAUSE = 0.3, 3.0  # seconds between two looks at the jobs; the longer nothing happens, the longer

Content = TypeVar("Content")


@dataclass(frozen=True)
class Terms:
    """How long to wait, for how many, and how much to take of each.

    Parameters
    ----------
    deadline : float
        When to stop waiting, by the clock of whoever waits.
    least : int
        As many guests must have answered; fewer are an error.
    silence : float
        Seconds without a sign after which a job is given up.
    max_message : int
        Bytes of the largest file that is taken of a guest.
    max_memory : int, optional
        Bytes of memory that a guest's values may take. Default: a quarter of the machine's.
    """

    deadline: float
    least: int = 1
    silence: float = SILENCE
    max_message: int = MESSAGE_LIMIT
    max_memory: int | None = None


@dataclass
class Collector(Generic[Content]):
    """Collects one file from each guest.

    Parameters
    ----------
    transport : Transport
        Carries requests and files.
    folder : path
        Where jobs and what arrived are kept.
    terms : Terms
        How long to wait, for how many, and how much to take of each.
    read : callable
        Returns what a guest's file says; raises MessageError where it cannot be used. Each file is read once.
    watch : callable
        Is told of every change.
    clock, sleep : callable
        How time passes.
    """

    transport: Transport
    folder: Path
    terms: Terms
    read: Callable[[str, bytes], Content]
    watch: Watch = lambda status: None
    clock: Clock = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    statuses: dict[str, GuestStatus] = field(default_factory=dict, init=False)
    found: dict[str, Content] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self.queue = JobQueue(self.transport, self.folder, self.watch, self.clock)

    def collect(self, asked: Mapping[str, Request]) -> dict[str, Content]:
        """Ask, wait until all have answered or the deadline has come, and return what came, by guest."""
        model_folder(self.folder)
        self.transport.connect()  # a server that is not there is told at once
        began, self.found = self.clock(), {}
        self.queue.stop_others(asked)
        self.statuses = {name: self._first_status(name, request) for name, request in asked.items()}
        try:
            while self._open() and self._in_time():
                for status in self._open():
                    if self._in_time():  # a server that does not answer costs seconds per guest
                        self._look(status, asked[status.guest], began)
                self._pause()
        finally:
            self._give_up()
        if len(self.found) < self.terms.least:
            raise AbsentPartyError(self._too_few())
        return {name: self.found[name] for name in asked if name in self.found}

    def files(self) -> dict[str, bytes]:
        """Return the files that came, by guest, as they were sent."""
        came = {name: self._file(status) for name, status in self.statuses.items() if status.bytes is not None}
        return {name: self._bytes(name, path) for name, path in came.items()}

    def close(self) -> None:
        """End the connection."""
        self.queue.close()

    def _open(self) -> list[GuestStatus]:
        return [status for status in self.statuses.values() if status.state not in DONE]

    def _in_time(self) -> bool:
        return self.clock() < self.terms.deadline

    def _pause(self) -> None:
        """Wait for a moment, and for a longer one the longer nothing has happened: a look may be a line in somebody's log."""
        if not self._open():
            return
        now = self.clock()
        quiet = now - max(status.changed for status in self._open())
        self.sleep(max(0.0, min(PAUSE + quiet / 20, LONG_PAUSE, self.terms.deadline - now)))

    def _first_status(self, name: str, request: Request) -> GuestStatus:
        """Return where a guest stands at the start: what arrived before is taken, and a job that was asked before goes on."""
        now = self.clock()
        status = GuestStatus(name, request.fingerprint, what=request.what, heard=now, changed=now)
        kept = self._file(status)
        if kept.exists():
            try:
                self._accept(status, kept)
                return status
            except MessageError:  # damaged since, or the host's limits are others: the guest has it, too
                kept.unlink()
        self.queue.resume(status)
        return status

    def _file(self, status: GuestStatus) -> Path:
        return self.folder / f"{status.fingerprint}.fedonce"

    def _part(self, status: GuestStatus) -> Path:
        """Where a file is until it is whole and checked; large ones are in memory one at a time."""
        return self.folder / f".{status.fingerprint}.part"

    def _look(self, status: GuestStatus, request: Request, began: float) -> None:
        """See how a guest's job goes, and do what is next."""
        if status.job is None:
            if self.clock() >= status.again:
                self.queue.submit(status, request)
            return
        seen = self.queue.look(status)
        if seen.phase == "ended":
            self._collect_ended(status, seen.how, began)
        elif seen.phase == "running" and seen.claims is not None:
            self._collect_running(status, seen.claims, began)
        elif seen.phase == "running" and self._is_silent(status):  # its process is gone, and nobody has noticed
            self.queue.stop(status)
            self._conclude(status, Left({"reason": "the job did not answer"}), began)

    def _is_silent(self, status: GuestStatus) -> bool:
        return self.clock() - status.heard > self.terms.silence

    def _collect_running(self, status: GuestStatus, claims: Mapping[str, Any], began: float) -> None:
        """Take what a running job has; that a job ends takes seconds for which nobody has to wait."""
        assert status.job is not None
        if claims["state"] == "sent":
            if self.transport.take(status.guest, status.job, self._part(status), self.terms.max_message):
                self._conclude(status, Left(claims, here=True), began)
        elif claims.get("done"):
            if claims["state"] == "silent":
                self.queue.stop(status)  # else it would wait for the guest's process
            self._conclude(status, Left(claims), began)

    def _collect_ended(self, status: GuestStatus, how: str, began: float) -> None:
        """Take what an ended job left behind."""
        assert status.job is not None
        left = self.transport.left(status.guest, status.job, self._part(status))
        if left is None and not self._is_silent(status):
            return  # try again: the server may have had no time
        left = left or Left()
        why = f"the job ended without an answer ({how})"
        self._conclude(status, Left({"reason": why} | dict(left.claims), left.here), began)

    def _conclude(self, status: GuestStatus, left: Left, began: float) -> None:
        """Note how a job went; without an answer, the guest is asked again."""
        self.queue.release(status)
        claims, state = left.claims, left.claims.get("state")
        status.wire, status.seconds = whole(claims.get("wire")), seconds(claims.get("seconds"))
        if state == "sent" and left.here:
            status.waited = round(self.clock() - began, 3)
            self._receive(status)
        elif state == "refused":
            self.queue.note(status, "refused", plain(claims.get("reason")))
        else:
            status.again = self.clock() + min(RETRY_SECONDS * 2.0 ** min(max(status.tries - 1, 0), 10), LONGEST_RETRY)
            gone = "it went silent" if state == "silent" else "its answer was lost"
            status.failure = plain(claims.get("reason")) or gone
            self.queue.note(status, "failed", status.failure)
        self.queue.write_down(status)

    def _receive(self, status: GuestStatus) -> None:
        """Keep a file that can be used; the guest whose file cannot is refused, with the reason."""
        try:
            self._accept(status, self._part(status))
        except MessageError as error:
            self._part(status).unlink()
            self.queue.note(status, "refused", str(error))

    def _accept(self, status: GuestStatus, path: Path) -> None:
        """Read a file, and keep it; raise MessageError where it cannot be used."""
        self.found[status.guest] = self.read(status.guest, self._bytes(status.guest, path))
        path.replace(self._file(status))
        status.bytes = self._file(status).stat().st_size
        self.queue.note(status, "received")

    def _bytes(self, guest: str, path: Path) -> bytes:
        """Read a file, unless it is too large."""
        return read_bytes(path, f"file of {guest}", self.terms.max_message)

    def _give_up(self) -> None:
        """Stop waiting, and leave no job behind."""
        there = True  # a server that is away is not sought for every guest
        for status in self._open():
            if there:
                self.queue.stop(status)
                there = self.transport.connected
            self.queue.note(status, "late", status.failure)

    def _too_few(self) -> str:
        came = f"only {', '.join(self.found)}" if self.found else "nobody"
        missing = [status for name, status in self.statuses.items() if name not in self.found]
        why = "".join(f" {str(status).rstrip('.')}." for status in missing)
        least = self.terms.least
        return (
            f"At least {least} guest{'' if least == 1 else 's'} must answer, and {came} did.{why} {advice(missing)} "
            "What arrived is kept: the same command goes on from there."
        )
