"""Where a guest stands, as the host knows it; what a guest says of itself is cleaned before it is kept or shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

SILENCE = 30.0  # seconds without a sign of a guest after which its job ends, so that another can take its place

DONE = ("received", "refused", "late")
# What a guest may say of itself while it works; a word of the host's own, from a guest, would end the waiting for it.
KNOWN_STATES = ("starting", "reading", "learning", "representing", "aligning", "sending", "waiting", "rounds")


@dataclass
class GuestStatus:
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
    failure: str = ""  # the reason of its last job that failed; another may be queued since
    tries: int = 0
    bytes: int | None = None  # of its file, once that is received
    wire: int | None = None
    seconds: float | None = None  # of the job, at the guest
    waited: float | None = None  # from asking to receiving, at the host
    what: str = field(default="learn", repr=False)
    token: str = field(default="", repr=False)  # of a submission that nobody knows the end of
    again: float = field(default=0.0, repr=False)  # when to ask again
    changed: float = field(default=0.0, repr=False)  # when it last stood elsewhere
    heard: float = field(default=0.0, repr=False)  # when there last was something to hear of the job

    def as_json(self) -> dict[str, Any]:
        """Return what there is to say, as JSON values."""
        names = ("guest", "state", "epoch", "epochs", "reason", "tries", "job", "bytes", "wire", "seconds", "waited")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        """One line."""
        epoch = f" (epoch {self.epoch} of {self.epochs})" if self.epoch is not None and self.state == "learning" else ""
        size = f": {self.bytes:,} bytes" if self.bytes is not None else ""
        return f"{self.guest}: {self.state}{epoch}{size}{f': {self.reason}' if self.reason else ''}"


def advice(missing: Iterable[GuestStatus]) -> str:
    """Say what to do about guests that are missing, by why they are: waiting helps with those that are late, and no others."""
    by_state: dict[str, list[str]] = {}
    for status in missing:
        by_state.setdefault("refused" if status.state == "refused" else "late", []).append(status.guest)
    said = []
    if names := ", ".join(by_state.get("refused", ())):
        said.append(
            f"Waiting does not help with {names}, which refused: change what is asked for, or talk to the guest."
        )
    if names := ", ".join(by_state.get("late", ())):
        said.append(f"Wait longer for {names} (deadline).")
    return " ".join([*said, "Or train with fewer guests (min_guests)."])


def plain(text: object) -> str:
    """Return a guest's text without what could upset a terminal or a log."""
    return "".join(letter for letter in str(text or "")[:1000] if letter.isprintable())


def seconds(value: object) -> float | None:
    """Return a number of seconds, None where it is none."""
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else None


def whole(value: object) -> int | None:
    """Return a whole number, None where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62 else None
