"""Guests as clients of an NVIDIA FLARE server that the host operates: a thin skin over jobs.

One job a guest: who is offline leaves its job in the queue, and nobody waits for it but the host, until its deadline. A job that
ends without an answer (a guest was killed, the server was) is followed by another: the guest then sends what it has finished, or
goes on learning where it was. What arrived is kept in a folder, so that a host that starts again asks nobody twice.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fedonce.errors import AbsentPartyError, FederationError, MessageError
from fedonce.federation.flare.jobqueue import AGAIN, AGAIN_AT_MOST, JobQueue
from fedonce.federation.flare.kits import Kit
from fedonce.federation.request import Request
from fedonce.federation.status import DONE, SILENCE, Stand, advice, plain, seconds, whole
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
    max_message: int = MESSAGE_LIMIT
    stands: dict[str, Stand] = field(default_factory=dict, init=False)
    tuned: dict[str, str] = field(default_factory=dict, init=False)  # guests that closed rounds, and their new model
    gradients: dict[str, bytes] = field(default_factory=dict, init=False, repr=False)
    live: dict[str, Stand] = field(default_factory=dict, init=False, repr=False)
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
        self.stands = {name: self._stand(name, request) for name, request in asked.items()}
        try:
            while self._open() and time.monotonic() < self.deadline:
                for stand in self._open():
                    if time.monotonic() < self.deadline:  # a server that does not answer costs seconds a guest
                        self._look(stand, asked[stand.guest], began)
                self._pause()
        finally:
            self._give_up()
        came = [name for name, stand in self.stands.items() if stand.bytes is not None]
        if len(came) < self.least:
            raise AbsentPartyError(self._too_few(came))
        return self.received()

    def received(self) -> dict[str, bytes]:
        """Return the files that came, by guest."""
        came = {name: self._file(stand) for name, stand in self.stands.items() if stand.bytes is not None}
        return {name: read_bytes(path, f"file of {name}", self.max_message) for name, path in came.items()}

    def close(self) -> None:
        """End the connection; rounds that were not closed end, too."""
        for stand in self.live.values():
            self.queue.stop(stand)
        self.live = {}
        self.queue.close()

    def _open(self) -> list[Stand]:
        return [stand for stand in self.stands.values() if stand.state not in DONE]

    def _pause(self) -> None:
        """Wait for a moment, and for a longer one the longer nothing has happened: every look is a line in FLARE's audit."""
        if not self._open():
            return
        now = time.monotonic()
        quiet = now - max(stand.changed for stand in self._open())
        time.sleep(max(0.0, min(PAUSE + quiet / 20, LONG_PAUSE, self.deadline - now)))

    def _stand(self, name: str, request: Request) -> Stand:
        """Return where a guest stands at the start: what arrived before is taken, and a job that was asked before goes on."""
        now = time.monotonic()
        stand = Stand(name, request.fingerprint, what=request.what, heard=now, changed=now)
        stand.job = self.queue.written_down().get(stand.fingerprint, {}).get("job")
        if self._file(stand).exists():
            self._accept(stand, self._file(stand))
        return stand

    def _file(self, stand: Stand) -> Path:
        return self.folder / f"{stand.fingerprint}.fedonce"

    def _part(self, stand: Stand) -> Path:
        """Where a file is until it is whole and checked; large ones are in memory one at a time."""
        return self.folder / f".{stand.fingerprint}.part"

    def _look(self, stand: Stand, request: Request, began: float) -> None:
        """See how a guest's job goes, and do what is next."""
        if stand.job is None:
            if time.monotonic() >= stand.again:
                self.queue.submit(stand, request)
            return
        status = self.queue.status(stand)
        if status is None:  # it is the server that is away, not the job
            stand.heard = time.monotonic()
        elif status.startswith("FINISHED"):
            self._collect_ended(stand, status, began)
        elif status != "RUNNING":
            stand.heard = time.monotonic()
            self.queue.note(stand, "queued")
        elif told := self.queue.progress(stand):
            self._collect_running(stand, told, began)
        elif self._is_dumb(stand):  # its process at the server is gone, and the server has not noticed
            self.queue.stop(stand)
            self._conclude(stand, {"reason": "the job did not answer"}, False, began)

    def _is_dumb(self, stand: Stand) -> bool:
        return time.monotonic() - stand.heard > self.silence

    def _collect_running(self, stand: Stand, told: Mapping[str, Any], began: float) -> None:
        """Take what a running job has; that a job ends takes seconds for which nobody has to wait."""
        if told["state"] == "sent":
            if self.queue.take(stand, self._part(stand)):
                self._conclude(stand, told, True, began)
        elif told.get("done"):
            if told["state"] == "silent":
                self.queue.stop(stand)  # FLARE would wait for the guest's process
            self._conclude(stand, told, False, began)

    def _collect_ended(self, stand: Stand, status: str, began: float) -> None:
        """Take what an ended job left behind."""
        found = self.queue.download(stand, self._part(stand))
        if found is None and not self._is_dumb(stand):
            return  # try again: the server may have had no time
        told, here = found or ({}, False)
        why = f"the job ended without an answer ({status.partition(':')[2].lower()})"
        self._conclude(stand, {"reason": why} | told, here, began)

    def _conclude(self, stand: Stand, told: Mapping[str, Any], here: bool, began: float) -> None:
        """Note how a job went; without an answer, the guest is asked again."""
        self.queue.release(stand)
        stand.wire, stand.seconds, state = whole(told.get("wire")), seconds(told.get("seconds")), told.get("state")
        if state == "sent" and here:
            stand.waited = round(time.monotonic() - began, 3)
            self._accept(stand, self._part(stand))
        elif state == "refused":
            self.queue.note(stand, "refused", plain(told.get("reason")))
        else:
            stand.again = time.monotonic() + min(AGAIN * 2.0 ** min(stand.tries - 1, 10), AGAIN_AT_MOST)
            stand.failure = plain(told.get("reason")) or (
                "it went silent" if state == "silent" else "its answer was lost"
            )
            self.queue.note(stand, "failed", stand.failure)
        self.queue.write_down(stand)

    def _accept(self, stand: Stand, path: Path) -> None:
        """Keep a file that can be used; the guest whose file cannot is refused, with the reason."""
        try:
            self.check(stand.guest, read_bytes(path, f"file of {stand.guest}", self.max_message))
        except MessageError as error:
            path.unlink()
            self.queue.note(stand, "refused", str(error))
            return
        path.replace(self._file(stand))
        stand.bytes = self._file(stand).stat().st_size
        self.queue.note(stand, "received")

    def _give_up(self) -> None:
        """Stop waiting, and leave no job behind."""
        there = True  # a server that is away is not sought for every guest
        for stand in self._open():
            if there:
                self.queue.stop(stand)
                there = self.queue.connected
            self.queue.note(stand, "late", stand.failure)

    def _too_few(self, answered: Sequence[str]) -> str:
        came = f"only {', '.join(answered)}" if answered else "nobody"
        missing = [stand for stand in self.stands.values() if stand.bytes is None]
        why = "".join(f" {str(stand).rstrip('.')}." for stand in missing)
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
        self.live = {name: Stand(name, request.fingerprint, what="rounds") for name, request in asked.items()}
        end = time.monotonic() + READY
        for name, stand in self.live.items():
            self.queue.submit(stand, asked[name])
        while time.monotonic() < end and self._getting_ready():
            for stand in self._getting_ready():
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
            self.queue.release(stand)
            self.queue.write_down(stand)
        self.live = {}
        return closing

    def _getting_ready(self) -> list[Stand]:
        return [stand for stand in self.live.values() if stand.state not in ("rounds", *DONE)]

    def _look_live(self, stand: Stand) -> None:
        """See whether a guest is ready for rounds, or will not be."""
        status = self.queue.status(stand) or ""
        told: Mapping[str, Any] | None = None
        if status == "RUNNING":
            told = self.queue.progress(stand)
        elif status.startswith("FINISHED"):
            told, _ = self.queue.download(stand, self._part(stand)) or ({}, False)
        if told is not None and (told.get("done") or status != "RUNNING"):
            stand.state, stand.reason = "refused", plain(told.get("reason")) or "its job for rounds ended"

    def _count_rounds(self) -> None:
        """Add what the wire carried during rounds, which each guest says at the end of its job."""
        end = time.monotonic() + LAST_WORD
        waiting = dict(self.live)
        while waiting and time.monotonic() < end:
            for name, stand in list(waiting.items()):
                told = self.queue.progress(stand)
                if told is not None and told.get("done"):
                    self.stands[name].wire = (self.stands[name].wire or 0) + (whole(told.get("wire")) or 0)
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
            if self.queue.say(stand, "post", turn=self.turn, **word):
                return

    def _fetch(self, stand: Stand, end: float) -> bytes | None:
        """Return a guest's answer; a guest that gives none is out of the rounds."""
        reason = ""
        while True:  # once at least: what an earlier guest took long for, this one may have long since answered
            told = self.queue.say(stand, "fetch", turn=self.turn)
            if told is not None and told.get("state") == "here":
                values = base64.b64decode(told.get("message") or "")
                answer, reason = _readable(values, stand.guest, self.asked[stand.guest].dim)
                if not reason:
                    return answer
            if (told is not None and told.get("state") != "waiting") or time.monotonic() >= end:
                reason = reason or plain((told or {}).get("reason"))
                break
            time.sleep(0.0 if told else PAUSE)  # the connection failed, or the job did; one of them may come back
        self._lose(stand, reason or "it no longer answers")
        return None

    def _lose(self, stand: Stand, reason: str) -> None:
        """Go on without a guest."""
        self.queue.stop(stand)
        self.live.pop(stand.guest, None)
        self.watch(replace(stand, state="lost", reason=reason))


def _readable(answer: bytes, guest: str, dim: int) -> tuple[bytes, str]:
    """Return a guest's answer, and what is wrong with it; one that cannot be read costs the guest its place, not the training."""
    try:
        if answer:
            Representation.from_bytes(answer, guest, dim)
        return answer, ""
    except MessageError as error:
        return answer, plain(error)
