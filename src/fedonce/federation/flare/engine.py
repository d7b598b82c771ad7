"""Guests as clients of an NVIDIA FLARE server that the host operates: a thin skin over jobs.

One job per guest: who is offline leaves its job in the queue, and nobody waits for it but the host, until its deadline. A job
that ends without an answer (a guest was killed, the server was) is followed by another: the guest then sends what it has
finished, or goes on learning where it was. What arrived is kept in a folder, so that a host that starts again asks nobody twice.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fedonce.errors import AbsentPartyError, FederationError, MessageError
from fedonce.federation.flare.jobqueue import LONGEST_RETRY, RETRY_SECONDS, JobQueue
from fedonce.federation.flare.kits import Kit
from fedonce.federation.request import Request
from fedonce.federation.status import DONE, SILENCE, GuestStatus, advice, plain, seconds, whole
from fedonce.messages.envelope import read_bytes
from fedonce.messages.representation import Representation
from fedonce.party.storage import model_folder
from fedonce.rounds.settings import Rounds
from fedonce.system.sizes import MESSAGE_LIMIT
from fedonce.training.settings import Training

PAUSE, LONG_PAUSE = 0.3, 3.0  # seconds between two looks at the jobs; the longer nothing happens, the longer
READY = 60.0  # seconds for a guest to get ready for rounds
POSTS = 3  # times that a word is posted
LAST_WORD = 5.0  # seconds for a guest to say how its rounds went


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
    max_message : int
        Bytes of the largest file that is taken of a guest: the server cuts off what is larger.
    max_memory : int, optional
        Bytes of memory that a guest's values of a round may take. Default: a quarter of the machine's.
    """

    kit: Kit
    asked: Mapping[str, Request]
    deadline: float
    folder: Path
    least: int = 1
    check: Callable[[str, bytes], None] = no_check
    watch: Callable[[GuestStatus], None] = lambda status: None
    ask_rounds: Callable[[Rounds], Mapping[str, Request]] | None = None
    silence: float = SILENCE
    max_message: int = MESSAGE_LIMIT
    max_memory: int | None = None
    statuses: dict[str, GuestStatus] = field(default_factory=dict, init=False)
    tuned: dict[str, str] = field(default_factory=dict, init=False)  # guests that closed rounds, and their new model
    gradients: dict[str, bytes] = field(default_factory=dict, init=False, repr=False)
    live: dict[str, GuestStatus] = field(default_factory=dict, init=False, repr=False)
    turn: int = field(default=0, init=False, repr=False)  # of rounds: how many words there were

    def __post_init__(self) -> None:
        self.queue = JobQueue(self.kit, self.folder, self.watch, self.silence, self.max_message)

    @property
    def guests(self) -> tuple[str, ...]:
        """Who is asked."""
        return tuple(self.asked)

    @property
    def moved(self) -> dict[str, int]:
        """Nothing but the messages themselves counts as sent; what the wire carried is in the stands."""
        return {}

    @property
    def refused(self) -> dict[str, str]:
        """Who has sent nothing that can be used, and why, or where it stands."""
        return {name: each.reason or each.state for name, each in self.statuses.items() if each.bytes is None}

    def learn(self) -> dict[str, bytes]:
        """Let guests learn, wait for their messages until the deadline, and return those that came."""
        return self.collect(self.asked)

    represent = learn

    def collect(self, asked: Mapping[str, Request]) -> dict[str, bytes]:
        """Ask, wait until all have answered or the deadline has come, and return the files by guest."""
        model_folder(self.folder)
        self.queue.connect()  # a server that is not there is told at once
        began = time.monotonic()
        self.queue.stop_others(asked)
        self.statuses = {name: self._first_status(name, request) for name, request in asked.items()}
        try:
            while self._open() and time.monotonic() < self.deadline:
                for status in self._open():
                    if time.monotonic() < self.deadline:  # a server that does not answer costs seconds per guest
                        self._look(status, asked[status.guest], began)
                self._pause()
        finally:
            self._give_up()
        came = [name for name, status in self.statuses.items() if status.bytes is not None]
        if len(came) < self.least:
            raise AbsentPartyError(self._too_few(came))
        return self.received()

    def received(self) -> dict[str, bytes]:
        """Return the files that came, by guest."""
        came = {name: self._file(status) for name, status in self.statuses.items() if status.bytes is not None}
        return {name: read_bytes(path, f"file of {name}", self.max_message) for name, path in came.items()}

    def close(self) -> None:
        """End the connection; rounds that were not closed end, too."""
        for status in self.live.values():
            self.queue.stop(status)
        self.live = {}
        self.queue.close()

    def _open(self) -> list[GuestStatus]:
        return [status for status in self.statuses.values() if status.state not in DONE]

    def _pause(self) -> None:
        """Wait for a moment, and for a longer one the longer nothing has happened: every look is a line in FLARE's audit."""
        if not self._open():
            return
        now = time.monotonic()
        quiet = now - max(status.changed for status in self._open())
        time.sleep(max(0.0, min(PAUSE + quiet / 20, LONG_PAUSE, self.deadline - now)))

    def _first_status(self, name: str, request: Request) -> GuestStatus:
        """Return where a guest stands at the start: what arrived before is taken, and a job that was asked before goes on."""
        now = time.monotonic()
        status = GuestStatus(name, request.fingerprint, what=request.what, heard=now, changed=now)
        status.job = self.queue.written_down().get(status.fingerprint, {}).get("job")
        if self._file(status).exists():
            self._accept(status, self._file(status))
        return status

    def _file(self, status: GuestStatus) -> Path:
        return self.folder / f"{status.fingerprint}.fedonce"

    def _part(self, status: GuestStatus) -> Path:
        """Where a file is until it is whole and checked; large ones are in memory one at a time."""
        return self.folder / f".{status.fingerprint}.part"

    def _look(self, status: GuestStatus, request: Request, began: float) -> None:
        """See how a guest's job goes, and do what is next."""
        if status.job is None:
            if time.monotonic() >= status.again:
                self.queue.submit(status, request)
            return
        job_status = self.queue.status(status)
        if job_status is None:  # it is the server that is away, not the job
            status.heard = time.monotonic()
        elif job_status.startswith("FINISHED"):
            self._collect_ended(status, job_status, began)
        elif job_status != "RUNNING":
            status.heard = time.monotonic()
            self.queue.note(status, "queued")
        elif told := self.queue.progress(status):
            self._collect_running(status, told, began)
        elif self._is_silent(status):  # its process at the server is gone, and the server has not noticed
            self.queue.stop(status)
            self._conclude(status, {"reason": "the job did not answer"}, False, began)

    def _is_silent(self, status: GuestStatus) -> bool:
        return time.monotonic() - status.heard > self.silence

    def _collect_running(self, status: GuestStatus, told: Mapping[str, Any], began: float) -> None:
        """Take what a running job has; that a job ends takes seconds for which nobody has to wait."""
        if told["state"] == "sent":
            if self.queue.take(status, self._part(status)):
                self._conclude(status, told, True, began)
        elif told.get("done"):
            if told["state"] == "silent":
                self.queue.stop(status)  # FLARE would wait for the guest's process
            self._conclude(status, told, False, began)

    def _collect_ended(self, status: GuestStatus, job_status: str, began: float) -> None:
        """Take what an ended job left behind."""
        found = self.queue.download(status, self._part(status))
        if found is None and not self._is_silent(status):
            return  # try again: the server may have had no time
        told, here = found or ({}, False)
        why = f"the job ended without an answer ({job_status.partition(':')[2].lower()})"
        self._conclude(status, {"reason": why} | told, here, began)

    def _conclude(self, status: GuestStatus, told: Mapping[str, Any], here: bool, began: float) -> None:
        """Note how a job went; without an answer, the guest is asked again."""
        self.queue.release(status)
        status.wire, status.seconds, state = whole(told.get("wire")), seconds(told.get("seconds")), told.get("state")
        if state == "sent" and here:
            status.waited = round(time.monotonic() - began, 3)
            self._accept(status, self._part(status))
        elif state == "refused":
            self.queue.note(status, "refused", plain(told.get("reason")))
        else:
            status.again = time.monotonic() + min(RETRY_SECONDS * 2.0 ** min(status.tries - 1, 10), LONGEST_RETRY)
            status.failure = plain(told.get("reason")) or (
                "it went silent" if state == "silent" else "its answer was lost"
            )
            self.queue.note(status, "failed", status.failure)
        self.queue.write_down(status)

    def _accept(self, status: GuestStatus, path: Path) -> None:
        """Keep a file that can be used; the guest whose file cannot is refused, with the reason."""
        try:
            self.check(status.guest, read_bytes(path, f"file of {status.guest}", self.max_message))
        except MessageError as error:
            path.unlink()
            self.queue.note(status, "refused", str(error))
            return
        path.replace(self._file(status))
        status.bytes = self._file(status).stat().st_size
        self.queue.note(status, "received")

    def _give_up(self) -> None:
        """Stop waiting, and leave no job behind."""
        there = True  # a server that is away is not sought for every guest
        for status in self._open():
            if there:
                self.queue.stop(status)
                there = self.queue.connected
            self.queue.note(status, "late", status.failure)

    def _too_few(self, answered: Sequence[str]) -> str:
        came = f"only {', '.join(answered)}" if answered else "nobody"
        missing = [status for status in self.statuses.values() if status.bytes is None]
        why = "".join(f" {str(status).rstrip('.')}." for status in missing)
        return (
            f"At least {self.least} guest{'' if self.least == 1 else 's'} must answer, and {came} did.{why} {advice(missing)} "
            "What arrived is kept: the same command goes on from there."
        )

    # Rounds: jobs that stay, one word of the host and one of the guest after the other.

    def open_rounds(self, rounds: Rounds, n_rows: int, host: str) -> dict[str, bytes]:
        """Start a job at each guest, wait until it is ready, and return what the guests open with."""
        assert self.ask_rounds is not None
        asked = self.ask_rounds(rounds)
        self.queue.stop_others(asked)
        self.live = {name: GuestStatus(name, request.fingerprint, what="rounds") for name, request in asked.items()}
        end = time.monotonic() + READY
        for name, status in self.live.items():
            self.queue.submit(status, asked[name])
        while time.monotonic() < end and self._getting_ready():
            for status in self._getting_ready():
                self._look_live(status)
            time.sleep(PAUSE)
        for status in list(self.live.values()):
            if status.state != "rounds":
                self._lose(status, status.reason or "it did not get ready for rounds in time")
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
        for status in self.live.values():
            self.queue.release(status)
            self.queue.write_down(status)
        self.live = {}
        return closing

    def _getting_ready(self) -> list[GuestStatus]:
        return [status for status in self.live.values() if status.state not in ("rounds", *DONE)]

    def _look_live(self, status: GuestStatus) -> None:
        """See whether a guest is ready for rounds, or will not be."""
        job_status = self.queue.status(status) or ""
        told: Mapping[str, Any] | None = None
        if job_status == "RUNNING":
            told = self.queue.progress(status)
        elif job_status.startswith("FINISHED"):
            told, _ = self.queue.download(status, self._part(status)) or ({}, False)
        if told is not None and (told.get("done") or job_status != "RUNNING"):
            status.state, status.reason = "refused", plain(told.get("reason")) or "its job for rounds ended"

    def _count_rounds(self) -> None:
        """Add what the wire carried during rounds, which each guest says at the end of its job."""
        end = time.monotonic() + LAST_WORD
        waiting = dict(self.live)
        while waiting and time.monotonic() < end:
            for name, status in list(waiting.items()):
                told = self.queue.progress(status)
                if told is not None and told.get("done"):
                    self.statuses[name].wire = (self.statuses[name].wire or 0) + (whole(told.get("wire")) or 0)
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

    def _post(self, status: GuestStatus, word: dict[str, Any]) -> None:
        """Hand a word to the server. The same turn counts once there: what may have been lost can be posted again."""
        for _ in range(POSTS):
            if self.queue.say(status, "post", turn=self.turn, **word):
                return

    def _fetch(self, status: GuestStatus, end: float) -> bytes | None:
        """Return a guest's answer; a guest that gives none is out of the rounds."""
        reason = ""
        while True:  # once at least: what an earlier guest took long for, this one may have long since answered
            told = self.queue.say(status, "fetch", turn=self.turn)
            if told is not None and told.get("state") == "here":
                values = base64.b64decode(told.get("message") or "")
                answer, reason = _readable(values, status.guest, self.asked[status.guest].dim, self.max_memory)
                if not reason:
                    return answer
            if (told is not None and told.get("state") != "waiting") or time.monotonic() >= end:
                reason = reason or plain((told or {}).get("reason"))
                break
            time.sleep(0.0 if told else PAUSE)  # the connection failed, or the job did; one of them may come back
        self._lose(status, reason or "it no longer answers")
        return None

    def _lose(self, status: GuestStatus, reason: str) -> None:
        """Go on without a guest."""
        self.queue.stop(status)
        self.live.pop(status.guest, None)
        self.watch(replace(status, state="lost", reason=reason))


def _readable(answer: bytes, guest: str, dim: int, max_memory: int | None) -> tuple[bytes, str]:
    """Return a guest's answer, and what is wrong with it; one that cannot be read costs the guest its place, not the training."""
    try:
        if answer:
            Representation.from_bytes(answer, guest, dim, max_memory)
        return answer, ""
    except MessageError as error:
        return answer, plain(error)
