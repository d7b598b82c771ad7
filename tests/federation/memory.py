"""A transport without wires: guests answer in the host's own process, each at its own table, as soon as they are asked.

It is all that a new transport takes: the retries, the deadline and the decoding are `fedonce.federation`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedonce.federation.answer import Responder
from fedonce.federation.request import Request
from fedonce.federation.tasks import RoundsResponder
from fedonce.federation.transport import Left, Reply, Seen
from fedonce.federation.workplace import Failed, Refused


@dataclass
class Job:
    """A request at its guest; `claims` None: nobody is there."""

    claims: dict[str, Any] | None = None
    message: bytes = b""
    rounds: RoundsResponder | None = None
    replies: dict[int, Reply] = field(default_factory=dict)


@dataclass
class MemoryTransport:
    """Guests by name; who is asked and not among them is offline."""

    guests: Mapping[str, Responder]
    jobs: dict[str, Job] = field(default_factory=dict)
    connected: bool = field(default=True, init=False)

    def connect(self) -> None:
        """Nobody is far."""

    def submit(self, request: Request, token: str) -> str | None:
        responder = self.guests.get(request.guest)
        self.jobs[token] = Job() if responder is None else _answered(responder, request.to_bytes())
        return token

    def find(self, token: str) -> str | None:
        return token if token in self.jobs else None

    def look(self, guest: str, job: str) -> Seen:
        if job not in self.jobs:
            return Seen("gone")
        claims = self.jobs[job].claims
        return Seen("queued") if claims is None else Seen("running", claims)

    def take(self, guest: str, job: str, path: Path, limit: int) -> bool:
        path.write_bytes(self.jobs[job].message[: limit + 1])
        return True

    def left(self, guest: str, job: str, path: Path) -> Left | None:
        raise AssertionError("no job ends by itself")

    def stop(self, job: str) -> bool:
        return self.jobs.pop(job, None) is not None

    def forget(self, job: str) -> None:
        self.jobs.pop(job, None)

    def close(self) -> None:
        """There is nothing to end."""

    def post(self, guest: str, job: str, turn: int, word: Mapping[str, Any]) -> bool:
        found = self.jobs[job]
        if turn not in found.replies:
            assert found.rounds is not None
            try:
                found.replies[turn] = Reply("here", found.rounds.answer(dict(word)))
            except (Refused, Failed) as error:
                found.replies[turn] = Reply("refused", reason=str(error))
            if word["word"] == "close":
                found.claims = {"state": "closed", "done": True, "wire": 1}
        return True

    def fetch(self, guest: str, job: str, turn: int) -> Reply | None:
        return self.jobs[job].replies.get(turn)


def _answered(responder: Responder, data: bytes) -> Job:
    try:
        request = responder.read(data)
        if request.what == "rounds":
            return Job({"state": "rounds"}, rounds=responder.open_rounds(request))
        return Job({"state": "sent", "done": True}, responder.answer(request).read_bytes())
    except Refused as error:
        return Job({"state": "refused", "done": True, "reason": str(error)})
    except Failed as error:
        return Job({"state": "failed", "done": True, "reason": str(error)})
