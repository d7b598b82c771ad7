"""Rounds over any transport: jobs that stay, one word of the host and one of the guest after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fedonce.errors import FederationError, MessageError
from fedonce.federation.jobqueue import JobQueue
from fedonce.federation.request import Request
from fedonce.federation.status import DONE, GuestStatus, plain, whole
from fedonce.federation.transport import RoundsTransport
from fedonce.messages.received import Received
from fedonce.training.settings import Training

PAUSE = 0.3  # seconds between two looks
READY = 60.0  # seconds for a guest to get ready for rounds
POSTS = 3  # times that a word is posted
LAST_WORD, LAST_PAUSE = 5.0, 0.1  # seconds for a guest to say how its rounds went, and between two looks for it


@dataclass
class Conversation:
    """Rounds with the guests that take part.

    Parameters
    ----------
    transport : RoundsTransport
        Carries the words.
    queue : JobQueue
        The host's jobs.
    dims : dict by guest
        How many values per row a guest may send.
    silence : float
        Seconds, twice over, in which a guest must answer.
    max_memory : int, optional
        Bytes of memory that a guest's values of a round may take.
    sleep : callable
        How time passes; the clock is the queue's.
    """

    transport: RoundsTransport
    queue: JobQueue
    dims: Mapping[str, int]
    silence: float
    max_memory: int | None
    sleep: Callable[[float], None]
    live: dict[str, GuestStatus] = field(default_factory=dict, init=False, repr=False)
    gradients: dict[str, bytes] = field(default_factory=dict, init=False, repr=False)
    turn: int = field(default=0, init=False, repr=False)  # how many words there were
    wire: dict[str, int] = field(default_factory=dict, init=False)  # bytes that the wire carried, by guest

    def open(self, asked: Mapping[str, Request]) -> dict[str, Received]:
        """Start a job at each guest, wait until it is ready, and return what the guests open with."""
        self.queue.stop_others(asked)
        self.live = {name: GuestStatus(name, request.fingerprint, what="rounds") for name, request in asked.items()}
        end = self.queue.clock() + READY
        for name, status in self.live.items():
            self.queue.submit(status, asked[name])
        while self.queue.clock() < end and self._getting_ready():
            for status in self._getting_ready():
                self._look(status)
            self.sleep(PAUSE)
        for status in list(self.live.values()):
            if status.state != "rounds":
                self._lose(status, status.reason or "it did not get ready for rounds in time")
        return self._words({name: {"word": "open"} for name in self.live})

    def begin(self, training: Training, order: int) -> None:
        """Tell each guest how everyone trains, in which order of rows."""
        self._words({name: {"word": "begin", "training": asdict(training), "order": str(order)} for name in self.live})

    def forward(self) -> dict[str, Received]:
        """Hand each guest the gradient of its last values, and return its next ones."""
        return self._words({name: {"word": "forward"} for name in self.live})

    def backward(self, gradients: Mapping[str, bytes]) -> None:
        """Keep the gradients: they travel with the next word."""
        self.gradients = dict(gradients)

    def finish(self) -> tuple[dict[str, Received], dict[str, str]]:
        """Let each guest freeze its model; return what they close with, and the fingerprints of the new models."""
        closing = self._words({name: {"word": "close"} for name in self.live})
        tuned = {name: self.live[name].fingerprint for name in closing}
        self._count()
        for status in self.live.values():
            self.queue.release(status)
            self.queue.write_down(status)
        self.live = {}
        return closing, tuned

    def abandon(self) -> None:
        """End rounds that were not finished."""
        for status in self.live.values():
            self.queue.stop(status)
        self.live = {}

    def _getting_ready(self) -> list[GuestStatus]:
        return [status for status in self.live.values() if status.state not in ("rounds", *DONE)]

    def _look(self, status: GuestStatus) -> None:
        """See whether a guest is ready for rounds, or will not be."""
        if status.job is None:
            return
        seen, claims = self.queue.look(status), None
        if seen.phase == "running" and seen.claims is not None and seen.claims.get("done"):
            claims = seen.claims
        elif seen.phase == "ended" and status.job is not None:
            left = self.transport.left(status.guest, status.job, self._part(status))
            claims = {} if left is None else left.claims
        if claims is not None:
            status.state, status.reason = "refused", plain(claims.get("reason")) or "its job for rounds ended"

    def _part(self, status: GuestStatus) -> Path:
        return self.queue.folder / f".{status.fingerprint}.part"

    def _count(self) -> None:
        """Count what the wire carried during rounds, which each guest says at the end of its job."""
        end = self.queue.clock() + LAST_WORD
        waiting = dict(self.live)
        while waiting and self.queue.clock() < end:
            for name, status in list(waiting.items()):
                claims = None if status.job is None else self.queue.look(status).claims
                if claims is not None and claims.get("done"):
                    self.wire[name] = whole(claims.get("wire")) or 0
                    del waiting[name]
            self.sleep(LAST_PAUSE)

    def _words(self, words: Mapping[str, dict[str, Any]]) -> dict[str, Received]:
        """Send a word to each guest, then collect their answers: guests work side by side."""
        answers, end = {}, self.queue.clock() + 2 * self.silence
        self.turn += 1
        for name, word in words.items():
            self._post(self.live[name], {"gradient": self.gradients.get(name, b""), **word})
        self.gradients = {}
        for name, word in words.items():
            answer = self._fetch(self.live[name], end, word["word"] != "begin")
            if answer is not None:
                answers[name] = answer
        if words and not self.live:
            raise FederationError(
                "All guests were lost during rounds. Their messages are kept: the same command trains again from there; or leave "
                "rounds out of the run file."
            )
        return answers

    def _post(self, status: GuestStatus, word: Mapping[str, Any]) -> None:
        """Hand a word over. The same turn counts once there: what may have been lost can be posted again."""
        for _ in range(POSTS):
            if status.job is not None and self.transport.post(status.guest, status.job, self.turn, word):
                return

    def _fetch(self, status: GuestStatus, end: float, wanted: bool) -> Received | None:
        """Return a guest's answer, where a message is wanted; a guest that gives none is out of the rounds."""
        while True:  # once at least: what an earlier guest took long for, this one may have long since answered
            reply = None if status.job is None else self.transport.fetch(status.guest, status.job, self.turn)
            reason = "" if reply is None else plain(reply.reason)
            if reply is not None and reply.state == "here":
                try:
                    return self._received(status.guest, reply.data) if wanted else None
                except MessageError as error:  # it costs the guest its place, not the training
                    reason = plain(error)
            if (reply is not None and reply.state != "waiting") or self.queue.clock() >= end:
                break
            self.sleep(0.0 if reply else PAUSE)  # the connection failed, or the job did; one of them may come back
        self._lose(status, reason or "it no longer answers")
        return None

    def _received(self, guest: str, data: bytes) -> Received:
        return Received.of(data, guest, self.dims[guest], self.max_memory)

    def _lose(self, status: GuestStatus, reason: str) -> None:
        """Go on without a guest."""
        self.queue.stop(status)
        self.live.pop(status.guest, None)
        self.queue.watch(replace(status, state="lost", reason=reason))
