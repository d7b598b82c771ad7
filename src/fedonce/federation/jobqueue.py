"""The host's jobs, over any transport: ask a guest, see how it goes, end it; told and written down.

Which job asks whom is written down, and that somebody is about to be asked, before it happens: a host that was killed at any
moment finds its jobs again, and asks nobody twice.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedonce.federation.request import Request
from fedonce.federation.status import KNOWN_STATES, GuestStatus, whole
from fedonce.federation.transport import Seen, Transport
from fedonce.system.disk import write_file

JOBS = "jobs.json"
RETRY_SECONDS, LONGEST_RETRY = 3.0, 60.0  # seconds before a guest is asked again; the more often it failed, the more

Watch = Callable[[GuestStatus], None]
Clock = Callable[[], float]


@dataclass
class JobQueue:
    """Jobs of one host.

    Parameters
    ----------
    transport : Transport
        Carries them.
    folder : path
        Where jobs are written down.
    watch : callable
        Is told of every change of where a guest stands.
    clock : callable
        Returns seconds that never go back.
    """

    transport: Transport
    folder: Path
    watch: Watch
    clock: Clock
    ended: list[str] = field(default_factory=list, init=False)  # jobs that ended, or will, and have nothing to give

    def close(self) -> None:
        """Remove the jobs that are done, as far as that works now, and end the connection."""
        for job in self.ended:
            if self.transport.connected:  # who is away keeps them: it is not waited for
                self.transport.forget(job)
        self.ended = []
        self.transport.close()

    def resume(self, status: GuestStatus) -> None:
        """Find the job that an earlier start of this host asked a guest with, or was about to."""
        before = self.written_down().get(status.fingerprint, {})
        status.job, status.token = _text(before.get("job")), _text(before.get("token")) or ""
        self._find(status)

    def submit(self, status: GuestStatus, request: Request) -> None:
        """Ask a guest; what may have been asked before, without an answer that came through, is looked for first."""
        self._find(status)
        if status.job is None:
            status.token = status.token or secrets.token_hex(8)
            self.write_down(status)
            status.job = self.transport.submit(request, status.token)
        if status.job is None:
            status.again = self.clock() + RETRY_SECONDS
            return
        status.token, status.tries, status.heard = "", status.tries + 1, self.clock()
        self.write_down(status)
        self.note(status, "queued")

    def look(self, status: GuestStatus) -> Seen:
        """See how a guest's job goes, and note what it says."""
        assert status.job is not None
        seen = self.transport.look(status.guest, status.job)
        claims = seen.claims if seen.claims is not None and isinstance(seen.claims.get("state"), str) else None
        if seen.phase == "gone":
            status.job = None
        if seen.phase in ("away", "gone", "queued") or claims is not None:  # nobody is silent whom nobody can hear
            status.heard = self.clock()
        if seen.phase == "queued":
            self.note(status, "queued")
        elif claims is not None and not claims.get("done"):
            word = claims["state"] if claims["state"] in KNOWN_STATES else "starting"
            self.note(status, word, epoch=(whole(claims.get("epoch")), whole(claims.get("epochs"))))
        return Seen(seen.phase, claims, seen.how)

    def stop(self, status: GuestStatus) -> None:
        """End a job. One that cannot be ended now stays written down: who starts again finds it."""
        self._find(status)
        if status.job is not None and self.transport.stop(status.job):
            self.release(status)
        self.write_down(status)

    def stop_others(self, asked: Mapping[str, Request]) -> None:
        """End jobs of an earlier start of this host that ask the same guests for something that is not wanted any more."""
        for fingerprint, entry in self.written_down().items():
            request = asked.get(str(entry.get("guest")))
            if request is not None and request.what == entry.get("what") and request.fingerprint != fingerprint:
                other = GuestStatus(request.guest, fingerprint, what=request.what)
                self.resume(other)
                if other.job is not None:
                    self.transport.stop(other.job)
                self.write_down(GuestStatus(request.guest, fingerprint))

    def release(self, status: GuestStatus) -> None:
        """Have no more to do with a guest's job."""
        if status.job is not None:
            self.ended.append(status.job)
        status.job = None

    def note(
        self, status: GuestStatus, state: str, reason: str = "", epoch: tuple[int | None, int | None] = (None, None)
    ) -> None:
        """Note where a guest stands, and tell it where it is news."""
        before = (status.state, status.reason, status.epoch, status.epochs)
        status.state, status.reason, status.epoch, status.epochs = state, reason, *epoch
        if before != (state, reason, *epoch):
            status.changed = self.clock()
            self.watch(status)

    def written_down(self) -> dict[str, dict[str, Any]]:
        """Return the jobs that are written down, by the fingerprints of their requests."""
        try:
            found = json.loads((self.folder / JOBS).read_text(encoding="utf-8"))
            return {name: job for name, job in found.items() if isinstance(job, dict)}
        except (OSError, ValueError, AttributeError):
            return {}

    def write_down(self, status: GuestStatus) -> None:
        """Write down which job asks whom, or with which token somebody may have been asked, or that nobody is."""
        jobs = {name: job for name, job in self.written_down().items() if name != status.fingerprint}
        if status.job is not None or status.token:
            by = {"token": status.token} if status.job is None else {"job": status.job}
            jobs[status.fingerprint] = {"guest": status.guest, "what": status.what, **by}
        write_file(self.folder / JOBS, json.dumps(jobs).encode(), private=True)

    def _find(self, status: GuestStatus) -> None:
        """Find the job of a submission that nobody knows the end of."""
        if status.job is None and status.token:
            status.job = self.transport.find(status.token)
            status.token = "" if status.job is not None else status.token


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
