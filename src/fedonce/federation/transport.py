"""What the host needs of whatever connects parties: hand a guest a request, see how it goes, fetch its file.

A `Transport` knows nothing of deadlines, retries or messages: those are the business of `collecting` and `conversing`. A request
on its way is a *job*, known by a name that the transport gives. No call but `connect` raises because of the connection: who is
away may come back, and the caller's deadline ends all waiting.

What a guest claims of itself (`Seen.claims`, `Left.claims`) is whatever came over the wire: a mapping of "state", "done",
"reason", "epoch", "epochs", "wire" (bytes) and "seconds", each of which may be missing or odd. The state of a job that is done is
"sent", "refused", "failed" or "silent".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from fedonce.federation.request import Request

# away: nobody can tell now; gone: there is no such job; ended: with an answer or without.
Phase = Literal["away", "gone", "queued", "running", "ended"]


@dataclass(frozen=True)
class Seen:
    """How a job goes; `claims` is what its guest says while it runs (None: nothing), `how` a word for how it ended."""

    phase: Phase
    claims: Mapping[str, Any] | None = None
    how: str = ""


@dataclass(frozen=True)
class Left:
    """What an ended job left: what its guest said last, and whether its file is here."""

    claims: Mapping[str, Any] = field(default_factory=dict)
    here: bool = False


@dataclass(frozen=True)
class Reply:
    """A guest's answer to a word of rounds; `state` is "here", "waiting" (not yet), or what is in the way."""

    state: str
    data: bytes = b""
    reason: str = ""


class Transport(Protocol):
    """Carries requests to guests, and their files to the host."""

    @property
    def connected(self) -> bool:
        """Whether the other end was there at the last call."""

    def connect(self) -> None:
        """Connect; raise FederationError where nobody is there."""

    def submit(self, request: Request, token: str) -> str | None:
        """Ask a guest, and return the job's name; None: not now, or it is not known whether it worked."""

    def find(self, token: str) -> str | None:
        """Return the job that was submitted with a token; None: there is none, or it is not known."""

    def look(self, guest: str, job: str) -> Seen:
        """See how a job goes."""

    def take(self, guest: str, job: str, path: Path, limit: int) -> bool:
        """Write the file of a job that runs; tell whether all of it is there. No more than a piece beyond `limit` is written."""

    def left(self, guest: str, job: str, path: Path) -> Left | None:
        """Write the file of a job that ended, where there is one; None: not now."""

    def stop(self, job: str) -> bool:
        """End a job; tell whether it is over."""

    def forget(self, job: str) -> None:
        """Remove a job from which nothing more is wanted."""

    def close(self) -> None:
        """End the connection."""


class RoundsTransport(Transport, Protocol):
    """Carries also the words of rounds, to and from jobs that stay."""

    def post(self, guest: str, job: str, turn: int, word: Mapping[str, Any]) -> bool:
        """Hand a guest the host's word of a turn; the same turn counts once. Tell whether it worked."""

    def fetch(self, guest: str, job: str, turn: int) -> Reply | None:
        """Return the guest's answer of a turn, after a short while at most; None: not now."""
