"""A guest's message as an engine hands it to the protocol: decoded, once, and how many bytes were moved for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedonce.errors import MessageError
from fedonce.messages.representation import DIM_LIMIT, Representation
from fedonce.messages.traffic import Traffic


@dataclass(frozen=True)
class Received:
    """A message that has arrived.

    Parameters
    ----------
    representation : Representation
        What it says.
    moved : int
        Bytes that travelled: those of the message, or of the sealed file that it was in.
    """

    representation: Representation
    moved: int

    @classmethod
    def of(cls, data: bytes, party: str, max_dim: int = DIM_LIMIT, max_memory: int | None = None) -> Received:
        """Decode the message of a party, trusting nothing of it."""
        return cls(Representation.from_bytes(data, party, max_dim, max_memory), len(data))

    def check(self, party: str, max_memory: int | None) -> None:
        """Raise where it is another party's, or takes more memory than the host allows: an engine may have allowed more."""
        if self.representation.party != party:
            raise MessageError(f"The message of party {party!r} is refused: it is by {self.representation.party!r}.")
        self.representation.check_memory(max_memory)


def collect(
    received: Mapping[str, Received], max_memory: int | None = None
) -> tuple[dict[str, Representation], Traffic]:
    """Take the guests' messages, and count what was sent."""
    traffic = Traffic()
    for party, message in received.items():
        message.check(party, max_memory)
        traffic.add(message.representation, message.moved)
    return {party: message.representation for party, message in received.items()}, traffic
