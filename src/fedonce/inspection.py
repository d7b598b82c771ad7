"""What is in a message, for the person who signs off; nothing of it is taken on trust."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedonce import envelope
from fedonce.crypto import PrivateKey, PublicKey, signed_by, unseal
from fedonce.errors import MessageError
from fedonce.message import Representation
from fedonce.privacy.ledger import describe, from_text

FORMS = {
    "": "none: rows are in an agreed order",
    "plain": "PLAIN IDS: every id can be read",
    "hashed": "hashes without a key: WHOEVER CAN LIST THE IDS CAN GUESS THEM",
    "keyed": "keyed hashes (HMAC-SHA-256, 8 bytes), fingerprint of the secret",
}


def inspect(path: str | Path, key: PrivateKey | None = None, verify: PublicKey | None = None) -> dict[str, Any]:
    """Return all that a message says, by name; a sealed one needs the key that it was sealed to."""
    raw = envelope.read_bytes(path, "message")
    if envelope.kind_of(raw) == "sealed" and key is None:
        return {"file": str(path), "bytes": len(raw), "sealed": "yes: only the receiver can read it (--key)"}
    try:
        data = raw if key is None or envelope.kind_of(raw) != "sealed" else unseal(raw, key)
        message = Representation.from_bytes(data)
    except MessageError as error:
        raise MessageError(f"{error} ({path})") from None
    return describe_message(message, len(raw), str(path), data is not raw, verify)


def describe_message(
    message: Representation, size: int, path: str, sealed: bool = False, verify: PublicKey | None = None
) -> dict[str, Any]:
    """Return what a message says."""
    held = len(message.values)
    return {
        "file": path,
        "bytes": size,
        "payload bytes": message.payload_bytes,
        "id bytes": message.id_bytes,
        "run": message.run,
        "party": message.party,
        "rows": message.n_rows,
        "rows present": held,
        "values a row": message.dim,
        "bits a value": message.bits,
        "learner": message.learner + (f" ({message.note})" if message.note else ""),
        "model": message.model or "not told",
        "noise": f"{message.noise:g} on every value, rows clipped to norm 1" if message.noise else "none",
        "privacy spent": _spent(message),
        "ids": _ids(message),
        "rows digest": message.rows,
        "checksum": message.checksum,
        "signature": _signature(message, verify),
        "sealed": "yes, opened here" if sealed else "no",
    }


def _spent(message: Representation) -> str:
    if message.spent is None:
        return "none stated: no privacy guarantee"
    lines = []
    for entry in from_text(message.spent, message.party):
        numbers = [f"{name} {value:.4g}" for name, value in describe(entry.event).items() if value is not None]
        mark = " (nominal: not a guarantee)" if entry.nominal else ""
        lines.append(f"{entry.what}: {', '.join(numbers) or 'costs nothing'}{mark}")
    return "; ".join(lines) + " (of the guest's model, as the guest states it; not of this message's rows)"


def _ids(message: Representation) -> str:
    kind, _, fingerprint = message.naming.partition(" ")
    rules = f"; normalised: {', '.join(message.forms)}" if message.forms else ""
    return FORMS[kind] + (f" {fingerprint}" if fingerprint else "") + rules


def _signature(message: Representation, verify: PublicKey | None) -> str:
    if not message.signature:
        return "none"
    signer = signed_by(message.signature) or "a key that cannot be read"
    if verify is None:
        return f"by {signer}, not verified (--verify KEY)"
    if not verify.verify(message.checksum, message.signature):
        raise MessageError(
            f"The signature of party {message.party!r} is not by the key {verify.fingerprint}, it names {signer}: do not use it."
        )
    return f"verified: by {verify.fingerprint}"
