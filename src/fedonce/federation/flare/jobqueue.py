"""The host's jobs at its FLARE server: submit, ask how they go, take what they left, end them.

No call raises because of the server: one that is away may come back, and the caller's deadline ends all waiting. Which job asks
whom is written down, so that a host that starts again finds its jobs.
"""

from __future__ import annotations

import base64
import json
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedonce.errors import FederationError
from fedonce.federation.flare.jobs import ANSWERS, write_job
from fedonce.federation.flare.kits import Kit
from fedonce.federation.flare.sessions import close_session, open_session
from fedonce.federation.request import Request
from fedonce.federation.status import KNOWN_STATES, SILENCE, GuestStatus, whole
from fedonce.system.disk import write_file
from fedonce.system.sizes import MESSAGE_LIMIT

JOBS = "jobs.json"
RETRY_SECONDS, LONGEST_RETRY = 3.0, 60.0  # seconds before a job is submitted anew; the more often it failed, the more
# Errors of FLARE that are about the job alone: it is not running yet, or no longer, and the connection is good.
_ABOUT_JOB = ("JobNotRunning", "NoReply", "InternalError", "JobNotDone", "ClientsStillRunning")

logger = logging.getLogger(__name__)


@dataclass
class JobQueue:
    """Jobs of one host.

    Parameters
    ----------
    kit : Kit
        The host's.
    folder : path
        Where jobs are written down.
    watch : callable
        Is told of every change of where a guest stands.
    silence : float
        Seconds without a sign of a guest after which its job ends.
    limit : int
        Bytes of the largest message that is taken.
    """

    kit: Kit
    folder: Path
    watch: Callable[[GuestStatus], None]
    silence: float = SILENCE
    limit: int = MESSAGE_LIMIT
    ended: list[str] = field(default_factory=list, init=False)  # jobs that ended, or will, and have nothing to give
    _session: Any = field(default=None, init=False, repr=False)

    @property
    def connected(self) -> bool:
        """Whether the server was there at the last call."""
        return self._session is not None

    def connect(self) -> None:
        """Connect to the server; raise FederationError where it is not there."""
        self._session = self._session or open_session(self.kit)

    def close(self) -> None:
        """Remove the jobs that are done, as far as the server lets go of them, and end the connection."""
        for job in self.ended:
            if self.connected:  # a server that is away keeps them: it is not waited for
                self._call("delete_job", job)
        self.ended = []
        session, self._session = self._session, None
        if session is not None:
            close_session(session)

    def submit(self, status: GuestStatus, request: Request) -> None:
        """Put a request into the queue of a guest."""
        with tempfile.TemporaryDirectory() as folder:
            name = f"{request.what} {request.run} {status.guest}"
            job = write_job(Path(folder), name, {status.guest: request.to_bytes()}, self.silence, self.limit)
            submitted = self._call("submit_job", str(job))
        if submitted is None:
            status.again = time.monotonic() + RETRY_SECONDS
            return
        status.job, status.tries, status.heard = submitted, status.tries + 1, time.monotonic()
        self.write_down(status)
        self.note(status, "queued")

    def status(self, status: GuestStatus) -> str | None:
        """Return FLARE's word for where a job is; None: not known now."""
        meta = self._call_about(status, "get_job_meta")
        return None if meta is None else str(meta.get("status", ""))

    def progress(self, status: GuestStatus) -> dict[str, Any] | None:
        """Return what a running job says of its guest, and note it; None where it says nothing."""
        told = self._call_about(status, "do_app_command", "progress", {"guest": status.guest})
        state = ((told or {}).get("guests") or {}).get(status.guest)
        if not isinstance(state, dict) or not isinstance(state.get("state"), str):
            return None
        status.heard = time.monotonic()
        if not state.get("done"):
            word = state["state"] if state["state"] in KNOWN_STATES else "starting"
            self.note(status, word, epoch=(whole(state.get("epoch")), whole(state.get("epochs"))))
        return state

    def take(self, status: GuestStatus, path: Path) -> bool:
        """Take a message out of a running job into a file, piece by piece; tell whether all of it is there."""
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        with path.open("wb") as file:
            while True:
                told = self.say(status, "take", start=file.tell()) or {}
                if told.get("state") != "here":
                    return told.get("state") == "taken"
                file.write(base64.b64decode(told["piece"]))
                if file.tell() > self.limit:
                    return True  # no more of it: whoever reads it refuses it by its size

    def download(self, status: GuestStatus, path: Path) -> tuple[dict[str, Any], bool] | None:
        """Return what an ended job noted, and whether the guest's file was there, which is then `path`; None: not now."""
        with tempfile.TemporaryDirectory() as folder:
            place = self._call_about(status, "download_job_result", folder)
            if place is None:
                return None
            answers = Path(place) / "workspace" / ANSWERS
            try:
                told = json.loads((answers / f"{status.guest}.json").read_text(encoding="utf-8"))
            except (OSError, ValueError):
                told = {}
            file = answers / f"{status.guest}.fedonce"
            here = file.exists()
            if here:
                path.unlink(missing_ok=True)
                path.touch(mode=0o600)
                shutil.copyfile(file, path)
            shutil.rmtree(place, ignore_errors=True)
        return (told if isinstance(told, dict) else {}), here

    def say(self, status: GuestStatus, command: str, **content: Any) -> dict[str, Any] | None:
        """Give a running job a command, and return its answer; None where there is none."""
        told = self._call_about(status, "do_app_command", command, {"guest": status.guest, **content})
        return told if isinstance(told, dict) else None

    def stop(self, status: GuestStatus) -> None:
        """End a job. One that cannot be ended now stays written down: who starts again finds it."""
        job = status.job
        if job is not None and self._call_about(status, "abort_job") is not None:
            self.release(status)
        self.write_down(status)

    def stop_others(self, asked: Mapping[str, Request]) -> None:
        """End jobs of an earlier start of this host that ask the same guests for something that is not wanted any more."""
        for fingerprint, job in self.written_down().items():
            request = asked.get(str(job.get("guest")))
            if request is not None and request.what == job.get("what") and request.fingerprint != fingerprint:
                self._call("abort_job", str(job.get("job")))
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
            status.changed = time.monotonic()
            self.watch(status)

    def written_down(self) -> dict[str, dict[str, Any]]:
        """Return the jobs that are written down, by the fingerprints of their requests."""
        try:
            found = json.loads((self.folder / JOBS).read_text(encoding="utf-8"))
            return {name: job for name, job in found.items() if isinstance(job, dict)}
        except (OSError, ValueError, AttributeError):
            return {}

    def write_down(self, status: GuestStatus) -> None:
        """Write down which job asks whom, or that none does."""
        jobs = {name: job for name, job in self.written_down().items() if name != status.fingerprint}
        if status.job is not None:
            jobs[status.fingerprint] = {"guest": status.guest, "what": status.what, "job": status.job}
        write_file(self.folder / JOBS, json.dumps(jobs).encode(), private=True)

    def _call_about(self, status: GuestStatus, method: str, *arguments: Any) -> Any:
        """Call FLARE about a guest's job; None where it did not work."""
        job = status.job
        if job is None:
            return None
        return self._call(method, job, *arguments, lost=lambda: setattr(status, "job", None))

    def _call(self, method: str, *arguments: Any, lost: Callable[[], None] = lambda: None) -> Any:
        """Call FLARE; None where it did not work. `lost` is called where the server does not know the job."""
        from nvflare.fuel.flare_api.api_spec import JobNotFound

        try:
            self.connect()
            return getattr(self._session, method)(*arguments)
        except JobNotFound:
            lost()
        except FederationError as error:
            logger.info("%s: %s", method, error)
        except Exception as error:  # FLARE raises many kinds
            logger.info("%s: %s: %s", method, type(error).__name__, error)
            if method in ("get_job_meta", "submit_job") or type(error).__name__ not in _ABOUT_JOB:
                self._drop_session()
        return None

    def _drop_session(self) -> None:
        """Leave a connection that is broken. Nobody waits for its end, which takes long where the server hangs."""
        session, self._session = self._session, None
        if session is not None:
            threading.Thread(target=_close_quietly, args=(session,), daemon=True).start()


def _close_quietly(session: Any) -> None:
    """End a connection without a farewell."""
    with suppress(Exception):  # it was broken already
        session.api.close()
