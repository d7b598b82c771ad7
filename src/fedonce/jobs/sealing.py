"""How a file leaves: signed with a party's own key, sealed to its receiver's, where that is wanted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from fedonce.jobs.settings import private_key
from fedonce.messages.hints import Hints
from fedonce.messages.keys import PrivateKey, PublicKey, read_public, seal
from fedonce.messages.representation import Representation

Leaving = TypeVar("Leaving", Representation, Hints)


@dataclass(frozen=True)
class Sealed(Generic[Leaving]):
    """A message, or hints, as it leaves: signed and sealed where it is wanted, and the bytes of its file."""

    message: Leaving
    data: bytes
    signer: PublicKey | None = None
    receiver: PublicKey | None = None


@dataclass(frozen=True)
class Keys:
    """A party's own key to sign with, and the receiver's to seal a file to; None: not signed, not sealed."""

    signer: PrivateKey | None = None
    receiver: PublicKey | None = None

    def close(self, message: Leaving) -> Sealed[Leaving]:
        """Sign and seal."""
        signer, receiver = self.signer, self.receiver
        if signer is not None:
            message = replace(message, signature=signer.sign(message.checksum))
        data = message.to_bytes() if receiver is None else seal(message.to_bytes(), receiver)
        return Sealed(message, data, None if signer is None else signer.public, receiver)


@dataclass(frozen=True)
class Sealing:
    """With which private key a message is signed, and to which public key its file is sealed: files, both optional.

    Parameters
    ----------
    sign : path, optional
        Private key of the sender.
    seal_to : path, optional
        Public key of the receiver.
    """

    sign: str | Path | None = None
    seal_to: str | Path | None = None

    def keys(self) -> Keys:
        """Read the keys."""
        return Keys(private_key(self.sign), None if self.seal_to is None else read_public(self.seal_to))
