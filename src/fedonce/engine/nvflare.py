"""Guests as clients of an NVIDIA FLARE server that the host operates: a thin skin over jobs.

One job a guest: who is offline leaves its job in the queue, and nobody waits for it but the host, until its deadline. A job that
ends without an answer (a guest was killed, the server was) is followed by another: the guest then sends what it has finished, or
goes on learning where it was. What arrived is kept in a folder, so that a host that starts again asks nobody twice.
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
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fedonce.disk import write_file
from fedonce.errors import AbsentPartyError, FederationError, FedOnceError, MessageError
from fedonce.federation.asking import Request
from fedonce.federation.jobs import ANSWERS, SILENCE, write_job
from fedonce.federation.kits import Kit
from fedonce.federation.sites import close_session, open_session
from fedonce.multiround import Rounds
from fedonce.storage import model_folder
from fedonce.training import Training

PAUSE = 0.3  # seconds between two looks at the jobs
AGAIN = 3.0  # seconds before a job is submitted anew
READY = 60.0  # seconds for a guest to get ready for rounds
POSTS = 3  # times that a word is posted
LAST_WORD = 5.0  # seconds for a guest to say how its rounds went
DONE = ("received", "refused", "late")
JOBS = "jobs.json"

logger = logging.getLogger(__name__)


@dataclass
class Stand:
    """Where a guest stands.

    `state` is "queued", "starting", "reading", "learning", "sending", "rounds" and the like, then "received", "refused" or
    "late"; "failed" is tried again until the deadline.
    """

    guest: str
    fingerprint: str = ""
    job: str | None = None
    state: str = "asked"
    epoch: int | None = None
    epochs: int | None = None
    reason: str = ""
    tries: int = 0
    data: bytes | None = field(default=None, repr=False)
    wire: int | None = None
    seconds: float | None = None  # of the job, at the guest
    waited: float | None = None  # from asking to receiving, at the host
    what: str = field(default="learn", repr=False)
    again: float = field(default=0.0, repr=False)  # when to ask again
    heard: float = field(default=0.0, repr=False)  # when the server last had something to say of the job

    @property
    def told(self) -> dict[str, Any]:
        """What there is to say, as JSON values."""
        names = ("guest", "state", "epoch", "epochs", "reason", "tries", "job", "wire", "seconds", "waited")
        return {name: getattr(self, name) for name in names} | {"bytes": None if self.data is None else len(self.data)}

    def __str__(self) -> str:
        """One line."""
        epoch = f" (epoch {self.epoch} of {self.epochs})" if self.epoch is not None and self.state == "learning" else ""
        size = f": {len(self.data):,} bytes" if self.data is not None else ""
        return f"{self.guest}: {self.state}{epoch}{size}{f': {self.reason}' if self.reason else ''}"


def no_check(guest: str, data: bytes) -> None:
    """Take every file as it is."""


@dataclass
class NvflareEngine:
    """Asks guests through jobs, and collects what they answer.

    Parameters
    ----------
    kit : Kit
        The host's.
    asked : dict by guest
        The requests for `learn` or `represent`.
    deadline : float
        When to stop waiting (`time.monotonic`).
    folder : path
        Where jobs and what arrived are kept.
    least : int
        As many guests must have answered; fewer are an error.
    check : callable
        Raises MessageError where a guest's file cannot be used.
    watch : callable
        Is told of every change.
    ask_rounds : callable, optional
        Makes the requests for rounds: of the guests that take part, by name.
    silence : float
        Seconds without a sign after which a job is given up.
    """

    kit: Kit
    asked: Mapping[str, Request]
    deadline: float
    folder: Path
    least: int = 1
    check: Callable[[str, bytes], None] = no_check
    watch: Callable[[Stand], None] = lambda stand: None
    ask_rounds: Callable[[Rounds], Mapping[str, Request]] | None = None
    silence: float = SILENCE
    stands: dict[str, Stand] = field(default_factory=dict, init=False)
    tuned: dict[str, str] = field(default_factory=dict, init=False)  # guests that closed rounds, and their new model
    gradients: dict[str, bytes] = field(default_factory=dict, init=False, repr=False)
    live: dict[str, Stand] = field(default_factory=dict, init=False, repr=False)
    turn: int = field(default=0, init=False, repr=False)  # of rounds: how many words there were
    _session: Any = field(default=None, init=False, repr=False)

    @property
    def guests(self) -> tuple[str, ...]:
        """Who is asked."""
        return tuple(self.asked)

    @property
    def moved(self) -> dict[str, int]:
        """Nothing but the messages themselves counts as sent; what the wire carried is in the stands."""
        return {}

    def learn(self) -> dict[str, bytes]:
        """Let guests learn, wait for their messages until the deadline, and return those that came."""
        return self.collect(self.asked)

    represent = learn

    def collect(self, asked: Mapping[str, Request]) -> dict[str, bytes]:
        """Ask, wait until all have answered or the deadline has come, and return the files by guest."""
        model_folder(self.folder)
        self._session = self._session or open_session(self.kit)  # a server that is not there is told at once
        began = time.monotonic()
        self._stop_others(asked)
        self.stands = {name: self._stand(name, request) for name, request in asked.items()}
        try:
            while self._open() and time.monotonic() < self.deadline:
                for stand in self._open():
                    if time.monotonic() < self.deadline:  # a server that does not answer costs seconds a guest
                        self._look(stand, asked[stand.guest], began)
                if self._open():
                    time.sleep(max(0.0, min(PAUSE, self.deadline - time.monotonic())))
        finally:
            self._give_up()
        received = {name: stand.data for name, stand in self.stands.items() if stand.data is not None}
        if len(received) < self.least:
            raise AbsentPartyError(self._too_few(received))
        return received

    def close(self) -> None:
        """End the connection."""
        session, self._session = self._session, None
        if session is not None:
            close_session(session)

    def _open(self) -> list[Stand]:
        return [stand for stand in self.stands.values() if stand.state not in DONE]

    def _stand(self, name: str, request: Request) -> Stand:
        """Return where a guest stands at the start: what arrived before is taken, and a job that was asked before goes on."""
        stand = Stand(name, request.fingerprint, what=request.what, heard=time.monotonic())
        stand.job = self._kept().get(stand.fingerprint, {}).get("job")
        kept = self.folder / f"{stand.fingerprint}.fedonce"
        if kept.exists():
            self._accept(stand, kept.read_bytes())
        return stand

    def _look(self, stand: Stand, request: Request, began: float) -> None:
        """See how a guest's job goes, and do what is next."""
        if stand.job is None:
            if time.monotonic() >= stand.again:
                self._submit(stand, request)
            return
        meta = self._call("get_job_meta", stand.job)
        if meta is None:  # it is the server that is away, not the job
            stand.heard = time.monotonic()
            return
        status = str(meta.get("status", ""))
        if status.startswith("FINISHED"):
            self._collect_ended(stand, status, began)
        elif status != "RUNNING":
            stand.heard = time.monotonic()
            self._note(stand, "queued")
        elif told := self._ask_progress(stand):
            if told["state"] == "sent" and (data := self._take(stand)) is not None:
                self._conclude(stand, told, data, began)
            elif told.get("done") and told["state"] != "sent":
                if told["state"] == "silent":
                    self._stop_job(stand)  # FLARE would wait for the guest's process
                self._conclude(stand, told, None, began)
        elif self._is_dumb(stand):  # its process at the server is gone, and the server has not noticed
            self._stop_job(stand)
            self._conclude(stand, {"reason": "the job did not answer"}, None, began)

    def _is_dumb(self, stand: Stand) -> bool:
        return time.monotonic() - stand.heard > self.silence

    def _submit(self, stand: Stand, request: Request) -> None:
        with tempfile.TemporaryDirectory() as folder:
            name = f"{request.what} {request.run} {stand.guest}"
            job = self._call(
                "submit_job", str(write_job(Path(folder), name, {stand.guest: request.to_bytes()}, self.silence))
            )
        if job is not None:
            stand.job, stand.tries, stand.heard = job, stand.tries + 1, time.monotonic()
            self._keep(stand)
            self._note(stand, "queued")

    def _ask_progress(self, stand: Stand) -> dict[str, Any] | None:
        """Return what the server says of a guest; None where it says nothing."""
        told = self._call("do_app_command", stand.job, "progress", {"guest": stand.guest})
        state = ((told or {}).get("guests") or {}).get(stand.guest)
        if not isinstance(state, dict) or not isinstance(state.get("state"), str):
            return None
        stand.heard = time.monotonic()
        if not state.get("done"):
            self._note(stand, _plain(state["state"]), epoch=(_whole(state.get("epoch")), _whole(state.get("epochs"))))
        return state

    def _take(self, stand: Stand) -> bytes | None:
        """Take a message out of a job that has it, piece by piece; the job need not have ended."""
        pieces: list[bytes] = []
        while True:
            asked = {"guest": stand.guest, "start": sum(map(len, pieces))}
            told = self._call("do_app_command", stand.job, "take", asked)
            if not isinstance(told, dict) or told.get("state") not in ("here", "taken"):
                return None
            if told["state"] == "taken":
                return b"".join(pieces)
            pieces.append(base64.b64decode(told["piece"]))

    def _collect_ended(self, stand: Stand, status: str, began: float) -> None:
        """Take what an ended job left behind; the server then keeps nothing that the host has."""
        job, found = stand.job, self._download(stand)
        if found is None and not self._is_dumb(stand):
            return  # try again: the server may have had no time
        told, data = found or ({}, None)
        why = f"the job ended without an answer ({status.partition(':')[2].lower()})"
        self._conclude(stand, {"reason": why} | told, data, began)
        self._call("delete_job", job)

    def _conclude(self, stand: Stand, told: Mapping[str, Any], data: bytes | None, began: float) -> None:
        """Note how a job went; without an answer, the guest is asked again."""
        stand.job, stand.wire, stand.seconds = None, _whole(told.get("wire")), _seconds(told.get("seconds"))
        state = told.get("state")
        if state == "sent" and data is not None:
            stand.waited = round(time.monotonic() - began, 3)
            self._accept(stand, data)
            if stand.data is not None:
                write_file(self.folder / f"{stand.fingerprint}.fedonce", data, private=True)
        elif state == "refused":
            self._note(stand, "refused", _plain(told.get("reason")))
        else:
            stand.again = time.monotonic() + AGAIN
            self._note(stand, "failed", _plain(told.get("reason")) or f"the guest went {_plain(state) or 'away'}")
        self._keep(stand)

    def _download(self, stand: Stand) -> tuple[dict[str, Any], bytes | None] | None:
        """Return what the server noted of a job, and the guest's file; None: not to be had now."""
        with tempfile.TemporaryDirectory() as folder:
            place = self._call("download_job_result", stand.job, folder)
            if place is None:
                return None
            answers = Path(place) / "workspace" / ANSWERS
            try:
                told = json.loads((answers / f"{stand.guest}.json").read_text(encoding="utf-8"))
            except (OSError, ValueError):
                told = {}
            file = answers / f"{stand.guest}.fedonce"
            data = file.read_bytes() if file.exists() else None
            shutil.rmtree(place, ignore_errors=True)
        return (told if isinstance(told, dict) else {}), data

    def _accept(self, stand: Stand, data: bytes) -> None:
        """Take a file that can be used; the guest whose file cannot is refused, with the reason."""
        try:
            self.check(stand.guest, data)
        except FedOnceError as error:
            self._note(stand, "refused", str(error))
            return
        stand.data = data
        self._note(stand, "received")

    def _give_up(self) -> None:
        """Stop waiting, and leave no job behind."""
        there = True  # a server that is away is not sought for every guest
        for stand in self._open():
            if there:
                self._stop_job(stand)
                there = self._session is not None
            self._note(stand, "late", stand.reason)

    def _stop_job(self, stand: Stand) -> None:
        """End a job. One that cannot be ended now stays written down: who starts again finds it."""
        if stand.job is not None and self._call("abort_job", stand.job) is not None:
            stand.job = None
        self._keep(stand)

    def _stop_others(self, asked: Mapping[str, Request]) -> None:
        """End jobs of an earlier start of this host that ask the same guests for something that is not wanted any more."""
        for fingerprint, job in self._kept().items():
            request = asked.get(str(job.get("guest")))
            if request is not None and request.what == job.get("what") and request.fingerprint != fingerprint:
                self._call("abort_job", str(job.get("job")))
                self._keep(Stand(request.guest, fingerprint))

    def _note(
        self, stand: Stand, state: str, reason: str = "", epoch: tuple[int | None, int | None] = (None, None)
    ) -> None:
        before = (stand.state, stand.reason, stand.epoch, stand.epochs)
        stand.state, stand.reason, stand.epoch, stand.epochs = state, reason, *epoch
        if before != (state, reason, *epoch):
            self.watch(stand)

    def _kept(self) -> dict[str, dict[str, Any]]:
        """Return the jobs that are written down, by the fingerprints of their requests."""
        try:
            found = json.loads((self.folder / JOBS).read_text(encoding="utf-8"))
            return {name: job for name, job in found.items() if isinstance(job, dict)}
        except (OSError, ValueError, AttributeError):
            return {}

    def _keep(self, stand: Stand) -> None:
        """Write down which job asks whom, so that a host that starts again finds it."""
        jobs = {name: job for name, job in self._kept().items() if name != stand.fingerprint}
        if stand.job is not None:
            jobs[stand.fingerprint] = {"guest": stand.guest, "what": stand.what, "job": stand.job}
        write_file(self.folder / JOBS, json.dumps(jobs).encode(), private=True)

    def _call(self, method: str, *arguments: Any) -> Any:
        """Call FLARE; None where it did not work: a server that is away may come back, and the deadline ends all waiting."""
        from nvflare.fuel.flare_api.api_spec import JobNotFound

        try:
            if self._session is None:
                self._session = open_session(self.kit)
            return getattr(self._session, method)(*arguments)
        except JobNotFound:
            for stand in (*self.stands.values(), *self.live.values()):
                if stand.job in arguments:
                    stand.job = None  # the server lost it: ask again
        except FederationError as error:
            logger.info("%s: %s", method, error)
        except Exception as error:  # FLARE raises many kinds
            logger.info("%s: %s: %s", method, type(error).__name__, error)
            if method in ("get_job_meta", "submit_job") or not _is_about_job(error):
                self._drop_session()
        return None

    def _drop_session(self) -> None:
        """Leave a connection that is broken. Nobody waits for its end, which takes long where the server hangs."""
        session, self._session = self._session, None
        if session is not None:
            threading.Thread(target=_close_quietly, args=(session,), daemon=True).start()

    def _too_few(self, received: Mapping[str, bytes]) -> str:
        came = f"only {', '.join(received)}" if received else "nobody"
        why = "".join(f" {stand}." for stand in self.stands.values() if stand.data is None)
        return (
            f"At least {self.least} guest{'' if self.least == 1 else 's'} must answer, and {came} did.{why} Wait longer "
            "(deadline), or train with fewer guests (min_guests). What arrived is kept: the same command goes on from there."
        )

    # Rounds: jobs that stay, one word of the host and one of the guest after the other.

    def open_rounds(self, rounds: Rounds, n_rows: int, host: str) -> dict[str, bytes]:
        """Start a job at each guest, wait until it is ready, and return what the guests open with."""
        assert self.ask_rounds is not None
        asked = self.ask_rounds(rounds)
        self._stop_others(asked)
        self.live = {name: Stand(name, request.fingerprint, what="rounds") for name, request in asked.items()}
        end = time.monotonic() + READY
        for stand in self.live.values():
            self._submit_live(stand, asked[stand.guest])
        while time.monotonic() < end and any(stand.state not in ("rounds", *DONE) for stand in self.live.values()):
            for stand in self.live.values():
                if stand.state not in ("rounds", *DONE):
                    self._look_live(stand)
            time.sleep(PAUSE)
        for stand in list(self.live.values()):
            if stand.state != "rounds":
                self._lose(stand, stand.reason or "it did not get ready for rounds in time")
        return self._words({name: {"word": "open"} for name in self.live})

    def begin_rounds(self, training: Training, order: int) -> None:
        """Tell each guest how everyone trains, in which order of rows."""
        self._words({name: {"word": "begin", "training": asdict(training), "order": str(order)} for name in self.live})

    def forward(self) -> dict[str, bytes]:
        """Hand each guest the gradient of its last values, and return its next ones."""
        return self._words({name: {"word": "forward"} for name in self.live})

    def backward(self, gradients: Mapping[str, bytes]) -> None:
        """Keep the gradients: they travel with the next word."""
        self.gradients = dict(gradients)

    def close_rounds(self) -> dict[str, bytes]:
        """Let each guest freeze its model."""
        closing = self._words({name: {"word": "close"} for name in self.live})
        self.tuned = {name: self.live[name].fingerprint for name in closing}
        self._count_rounds()
        for stand in self.live.values():
            stand.job = None
            self._keep(stand)
        return closing

    def _count_rounds(self) -> None:
        """Add what the wire carried during rounds, which each guest says at the end of its job."""
        end = time.monotonic() + LAST_WORD
        waiting = dict(self.live)
        while waiting and time.monotonic() < end:
            for name, stand in list(waiting.items()):
                told = self._ask_progress(stand)
                if told is not None and told.get("done"):
                    self.stands[name].wire = (self.stands[name].wire or 0) + (_whole(told.get("wire")) or 0)
                    del waiting[name]
            time.sleep(0.1)

    def _words(self, words: Mapping[str, dict[str, Any]]) -> dict[str, bytes]:
        """Send a word to each guest, then collect their answers: guests work side by side."""
        answers, end = {}, time.monotonic() + 2 * self.silence
        self.turn += 1
        for name, word in words.items():
            gradient = base64.b64encode(self.gradients.get(name, b"")).decode()
            self._post(self.live[name], {"gradient": gradient, **word})
        self.gradients = {}
        for name in words:
            answer = self._fetch(self.live[name], end)
            if answer is not None:
                answers[name] = answer
        if words and not self.live:
            raise FederationError(
                "All guests were lost during rounds. Their messages are kept: the same command trains again from there; or leave "
                "rounds out of the run file."
            )
        return answers

    def _post(self, stand: Stand, word: dict[str, Any]) -> None:
        """Hand a word to the server. The same turn counts once there: what may have been lost can be posted again."""
        for _ in range(POSTS):
            if self._call("do_app_command", stand.job, "post", {"guest": stand.guest, "turn": self.turn, **word}):
                return

    def _fetch(self, stand: Stand, end: float) -> bytes | None:
        """Return a guest's answer; a guest that gives none is out of the rounds."""
        reason = ""
        while time.monotonic() < end:
            told = self._call("do_app_command", stand.job, "fetch", {"guest": stand.guest, "turn": self.turn})
            if not isinstance(told, dict):  # the connection failed, or the job did; one of them may come back
                time.sleep(PAUSE)
            elif told.get("state") == "here":
                return base64.b64decode(told.get("message") or "")
            elif told.get("state") != "waiting":
                reason = _plain(told.get("reason"))
                break
        self._lose(stand, reason or "it no longer answers")
        return None

    def _submit_live(self, stand: Stand, request: Request) -> None:
        self._submit(stand, request)
        if stand.job is None:
            stand.reason = "the job could not be submitted"

    def _look_live(self, stand: Stand) -> None:
        meta = self._call("get_job_meta", stand.job) if stand.job else None
        status = str((meta or {}).get("status", ""))
        told: Mapping[str, Any] | None = None
        if status == "RUNNING":
            told = self._ask_progress(stand)
        elif status.startswith("FINISHED"):
            told, _ = self._download(stand) or ({}, None)
        if told is not None and (told.get("done") or status != "RUNNING"):
            stand.state, stand.reason = "refused", _plain(told.get("reason")) or "its job for rounds ended"

    def _lose(self, stand: Stand, reason: str) -> None:
        """Go on without a guest."""
        self._stop_job(stand)
        self.live.pop(stand.guest, None)
        self.watch(replace(stand, state="lost", reason=reason))


def _close_quietly(session: Any) -> None:
    """End a connection without a farewell."""
    with suppress(Exception):  # it was broken already
        session.api.close()


def _is_about_job(error: Exception) -> bool:
    """Tell whether an error is about the job alone, and the connection is good: not running yet, or no longer."""
    return type(error).__name__ in ("JobNotRunning", "NoReply", "InternalError", "JobNotDone", "ClientsStillRunning")


def _plain(text: object) -> str:
    """Return a guest's text without what could upset a terminal or a log."""
    return "".join(letter for letter in str(text or "")[:1000] if letter.isprintable())


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62 else None


__all__ = ["MessageError", "NvflareEngine", "Stand"]
