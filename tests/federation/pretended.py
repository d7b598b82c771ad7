"""A transport and a clock without a machine behind them: jobs go as a test says, and time passes when somebody waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedonce.errors import FederationError
from fedonce.federation.request import Request
from fedonce.federation.transport import Left, Reply, Seen

START = 1.0  # seconds from the asking to the first sign of a guest


class Clock:
    """Time that passes only where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)


class Killed(BaseException):
    """The host's process is gone: no word of its own comes after."""


@dataclass(frozen=True)
class Play:
    """How a job goes: `seen` by the seconds since the asking, and the file that it has then, or leaves."""

    seen: Callable[[float], Seen]
    data: bytes | None = None
    left: Left | None = None
    speak: Callable[[Mapping[str, Any]], bytes] | None = None  # rounds: the guest's answer to a word


def _then(after: float, last: Seen, state: str = "learning") -> Callable[[float], Seen]:
    def seen(elapsed: float) -> Seen:
        if elapsed < START:
            return Seen("queued")
        return last if elapsed >= after else Seen("running", {"state": state, "epoch": 1, "epochs": 9})

    return seen


def sends(data: bytes, after: float = 5.0, **claims: Any) -> Play:
    """Answer while the job runs."""
    return Play(_then(after, Seen("running", {"state": "sent", "done": True, **claims})), data)


def refuses(reason: str, after: float = 5.0) -> Play:
    return Play(_then(after, Seen("running", {"state": "refused", "done": True, "reason": reason})))


def ends(after: float = 5.0, data: bytes | None = None, how: str = "completed", **claims: Any) -> Play:
    """End, with what the guest said last and its file, if any."""
    return Play(_then(after, Seen("ended", how=how)), data, Left(claims, data is not None))


def never() -> Play:
    return Play(_then(float("inf"), Seen("away")))


def falls_silent(after: float = 5.0) -> Play:
    return Play(_then(after, Seen("running")))


def vanishes(after: float = 5.0) -> Play:
    return Play(_then(after, Seen("gone")))


def serves(speak: Callable[[Mapping[str, Any]], bytes]) -> Play:
    return Play(_then(START, Seen("running", {"state": "rounds"})), speak=speak)


@dataclass
class Pretended:
    """A transport whose jobs go as they are played: for each guest one play after the other; then nothing comes.

    It outlives the hosts that use it, as a server does.
    """

    clock: Clock
    plays: Mapping[str, list[Play]]
    away: Callable[[float], bool] = lambda now: False
    losing: int = 0  # submissions whose answer does not come through
    dying: bool = False  # the host is killed in the middle of its next submission
    killing: float = float("inf")  # when the host is killed
    submitted: list[tuple[str, float]] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    words: list[tuple[str, int, Mapping[str, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.jobs: dict[str, tuple[Play, float]] = {}
        self.tokens: dict[str, str] = {}
        self.played: dict[str, int] = defaultdict(int)
        self.answers: dict[tuple[str, int], bytes] = {}

    @property
    def connected(self) -> bool:
        return not self._away()

    def connect(self) -> None:
        if self._away():
            raise FederationError("nobody is there")

    def submit(self, request: Request, token: str) -> str | None:
        if self._away():
            return None
        guest, count = request.guest, self.played[request.guest]
        plays = self.plays.get(guest, [])
        job = f"{guest}-{count + 1}"
        self.jobs[job] = (plays[count] if count < len(plays) else never(), self.clock())
        self.played[guest] += 1
        self.tokens[token] = job
        self.submitted.append((guest, self.clock()))
        if self.dying:
            self.killing = self.clock()
            raise Killed
        if self.losing:
            self.losing -= 1
            return None
        return job

    def find(self, token: str) -> str | None:
        return None if self._away() else self.tokens.get(token)

    def look(self, guest: str, job: str) -> Seen:
        if self._away():
            return Seen("away")
        if job not in self.jobs or job in self.stopped:
            return Seen("gone")
        play, since = self.jobs[job]
        return play.seen(self.clock() - since)

    def take(self, guest: str, job: str, path: Path, limit: int) -> bool:
        data = self.jobs[job][0].data
        if self._away() or data is None:
            return False
        path.write_bytes(data)
        self.taken.append(job)
        return True

    def left(self, guest: str, job: str, path: Path) -> Left | None:
        if self._away():
            return None
        play, _ = self.jobs[job]
        if play.data is not None:
            path.write_bytes(play.data)
            self.taken.append(job)
        return play.left

    def stop(self, job: str) -> bool:
        if self._away():
            return False
        self.stopped.append(job)
        return True

    def forget(self, job: str) -> None:
        self._away()
        self.forgotten.append(job)

    def close(self) -> None:
        self._away()

    def post(self, guest: str, job: str, turn: int, word: Mapping[str, Any]) -> bool:
        if self._away() or job in self.stopped:
            return False
        if (job, turn) not in self.answers:
            self.words.append((guest, turn, word))
            speak = self.jobs[job][0].speak
            assert speak is not None
            self.answers[job, turn] = speak(word)
        return True

    def fetch(self, guest: str, job: str, turn: int) -> Reply | None:
        if self._away() or job in self.stopped:
            return None
        self.clock.now += 0.1
        data = self.answers.get((job, turn))
        return Reply("unknown") if data is None else Reply("here", data)

    def _away(self) -> bool:
        if self.clock() >= self.killing:
            raise Killed
        return self.away(self.clock())
