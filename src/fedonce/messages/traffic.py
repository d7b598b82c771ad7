"""What was sent: messages, bytes of files, bytes of values, and how much with each guest."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedonce.messages.representation import Representation


@dataclass
class Traffic:
    """What was sent: messages, bytes of files, bytes of values, and how much with each guest.

    With more rounds than one (`rounds`), all of these count both directions; `bytes_to_guests` is what went back.

    Parameters
    ----------
    messages, bytes : int
        How many files, and their bytes.
    payload_bytes, id_bytes : int
        Bytes of values alone, and of ids.
    per_guest : dict
        Bytes by guest.
    absent : tuple of str
        Who did not answer in the latest exchange.
    rounds : int
        Batches that went forward and back.
    bytes_to_guests : int
        Bytes that the host sent.
    """

    messages: int = 0
    bytes: int = 0
    payload_bytes: int = 0
    id_bytes: int = 0
    per_guest: dict[str, int] = field(default_factory=dict)
    absent: tuple[str, ...] = ()  # who did not answer in the latest exchange
    rounds: int = 0
    bytes_to_guests: int = 0

    def add(self, message: Representation, size: int, to: str | None = None) -> None:
        """Count one message of `size` bytes from a guest, or from the host to the guest `to`."""
        self.messages += 1
        self.bytes += size
        self.payload_bytes += message.payload_bytes
        self.id_bytes += message.id_bytes
        self.bytes_to_guests += 0 if to is None else size
        guest = message.party if to is None else to
        self.per_guest[guest] = self.per_guest.get(guest, 0) + size

    def include(self, other: Traffic) -> None:
        """Add what a later exchange sent, and remember who did not answer in it."""
        self.messages += other.messages
        self.bytes += other.bytes
        self.payload_bytes += other.payload_bytes
        self.id_bytes += other.id_bytes
        self.absent = other.absent
        self.rounds += other.rounds
        self.bytes_to_guests += other.bytes_to_guests
        for guest, size in other.per_guest.items():
            self.per_guest[guest] = self.per_guest.get(guest, 0) + size
