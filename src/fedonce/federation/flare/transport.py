"""NVIDIA FLARE as a transport: a request is a FLARE job at the host's server, whose commands fetch what guests sent."""

from __future__ import annotations

import base64
import json
import logging
import shutil
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedonce.errors import FederationError
from fedonce.federation.flare.jobs import ANSWERS, TOKEN, write_job
from fedonce.federation.flare.kits import Kit
from fedonce.federation.flare.sessions import close_session, open_session
from fedonce.federation.request import Request
from fedonce.federation.status import SILENCE
from fedonce.federation.transport import Left, Reply, Seen
from fedonce.system.sizes import MESSAGE_LIMIT

# Errors of FLARE that are about the job alone: it is not running yet, or no longer, and the connection is good.
_ABOUT_JOB = ("JobNotRunning", "NoReply", "InternalError", "JobNotDone", "ClientsStillRunning")
_GONE = object()  # the server does not know the job

logger = logging.getLogger(__name__)


@dataclass
class FlareTransport:
    """Jobs at a host's FLARE server.

    Parameters
    ----------
    kit : Kit
        The host's.
    silence : float
        Seconds without a sign of a guest after which its job ends.
    limit : int
        Bytes of the largest message that the server takes.
    """

    kit: Kit
    silence: float = SILENCE
    limit: int = MESSAGE_LIMIT
    _session: Any = field(default=None, init=False, repr=False)

    @property
    def connected(self) -> bool:
        """Whether the server was there at the last call."""
        return self._session is not None

    def connect(self) -> None:
        """Connect to the server; raise FederationError where it is not there."""
        self._session = self._session or open_session(self.kit)

    def close(self) -> None:
        """End the connection."""
        session, self._session = self._session, None
        if session is not None:
            close_session(session)

    def submit(self, request: Request, token: str) -> str | None:
        """Put a request into the queue of a guest."""
        with tempfile.TemporaryDirectory() as folder:
            name = f"{request.what} {request.run} {request.guest}"
            data = {request.guest: request.to_bytes()}
            job = write_job(Path(folder), name, data, self.silence, self.limit, token)
            return _text(self._call("submit_job", str(job)))

    def find(self, token: str) -> str | None:
        """Return the job with a token among those that the server has."""
        jobs = self._call("list_jobs", True)
        found = [job for job in jobs if job.get(TOKEN) == token] if isinstance(jobs, list) else []
        return _text(found[-1].get("job_id")) if found else None

    def look(self, guest: str, job: str) -> Seen:
        """See how a job goes, by FLARE's word for it; where it runs, also what it says of its guest."""
        meta = self._call("get_job_meta", job)
        if meta is _GONE:
            return Seen("gone")
        if meta is None:
            return Seen("away")
        word = str(meta.get("status", ""))
        if word.startswith("FINISHED"):
            return Seen("ended", how=word.partition(":")[2].lower())
        if word != "RUNNING":
            return Seen("queued")
        claims = (self._say(guest, job, "progress").get("guests") or {}).get(guest)
        return Seen("running", claims if isinstance(claims, dict) else None)

    def take(self, guest: str, job: str, path: Path, limit: int) -> bool:
        """Take a message out of a running job into a file, piece by piece; tell whether all of it is there."""
        _empty(path)
        with path.open("wb") as file:
            while True:
                answer = self._say(guest, job, "take", start=file.tell())
                if answer.get("state") != "here":
                    return answer.get("state") == "taken"
                file.write(base64.b64decode(answer["piece"]))
                if file.tell() > limit:
                    return True  # no more of it: whoever reads it refuses it by its size

    def left(self, guest: str, job: str, path: Path) -> Left | None:
        """Return what an ended job noted, and whether the guest's file was there, which is then `path`; None: not now."""
        with tempfile.TemporaryDirectory() as folder:
            place = _text(self._call("download_job_result", job, folder))
            if place is None:
                return None
            answers = Path(place) / "workspace" / ANSWERS
            try:
                claims = json.loads((answers / f"{guest}.json").read_text(encoding="utf-8"))
            except (OSError, ValueError):
                claims = {}
            file = answers / f"{guest}.fedonce"
            here = file.exists()
            if here:
                _empty(path)
                shutil.copyfile(file, path)
            shutil.rmtree(place, ignore_errors=True)
        return Left(claims if isinstance(claims, dict) else {}, here)

    def stop(self, job: str) -> bool:
        """End a job; tell whether it is over."""
        return self._call("abort_job", job) is not None

    def forget(self, job: str) -> None:
        """Remove a job, as far as the server lets go of it."""
        self._call("delete_job", job)

    def post(self, guest: str, job: str, turn: int, word: Mapping[str, Any]) -> bool:
        """Hand a word of rounds to the server."""
        gradient = base64.b64encode(word["gradient"]).decode()
        return bool(self._say(guest, job, "post", turn=turn, **{**word, "gradient": gradient}))

    def fetch(self, guest: str, job: str, turn: int) -> Reply | None:
        """Return a guest's answer; the server waits for it for a short while."""
        answer = self._say(guest, job, "fetch", turn=turn)
        if not answer:
            return None
        data = base64.b64decode(answer.get("message") or "")
        return Reply(str(answer.get("state")), data, str(answer.get("reason") or ""))

    def _say(self, guest: str, job: str, command: str, **content: Any) -> dict[str, Any]:
        """Give a running job a command, and return its answer; empty where there is none."""
        answer = self._call("do_app_command", job, command, {"guest": guest, **content})
        return answer if isinstance(answer, dict) else {}

    def _call(self, method: str, *arguments: Any) -> Any:
        """Call FLARE; None where it did not work, `_GONE` where the server does not know the job."""
        from nvflare.fuel.flare_api.api_spec import JobNotFound

        try:
            self.connect()
            return getattr(self._session, method)(*arguments)
        except JobNotFound:
            return _GONE
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


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _empty(path: Path) -> None:
    """Make an empty file that is closed to others."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)


def _close_quietly(session: Any) -> None:
    """End a connection without a farewell."""
    with suppress(Exception):  # it was broken already
        session.api.close()
