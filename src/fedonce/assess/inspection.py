"""What is in a message, in hints or in a file of an alignment, for the person who signs off; nothing of it is taken on trust."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.assess.attacked import UNKNOWN, known_of
from fedonce.errors import MessageError, MissingPackageError
from fedonce.learners.names import LEARNERS, protection_in
from fedonce.messages import envelope
from fedonce.messages import hints as hints_file
from fedonce.messages.codecs import Coded
from fedonce.messages.hints import Hints, stated_in_words
from fedonce.messages.keys import PrivateKey, PublicKey, signed_by, unseal
from fedonce.messages.message_checks import rows_alike
from fedonce.messages.representation import DIM_LIMIT, Representation
from fedonce.privacy.accountants import epsilon
from fedonce.privacy.ledger import describe, from_text
from fedonce.rows import alignment

FORMS = {
    "": "none: rows are in an agreed order",
    "plain": "PLAIN IDS: every id can be read",
    "hashed": "hashes without a key: WHOEVER CAN LIST THE IDS CAN GUESS THEM",
    "keyed": "keyed hashes (HMAC-SHA-256, 8 bytes), fingerprint of the secret",
}
STATED = "(as the guest states it)"
MOST_DELTA = 1e-3  # at which a budget is priced where a message has few rows


def inspect(
    path: str | Path,
    key: PrivateKey | None = None,
    verify: PublicKey | None = None,
    report: str | Path | None = None,
) -> dict[str, Any]:
    """Return all that a message, hints, or a file of an alignment, says; a sealed one needs the key that it was sealed to.

    Of a message there are first: what protects it, what attacks read in it, and when it was made. The last two are in the page
    of the run that attacked it, `report`; None: the one beside the message.
    """
    try:
        raw = envelope.read_bytes(path, "message", look=None if key is not None else _stop_at_sealed)
    except _SealedError as found:
        return {"file": str(path), "bytes": found.size, "sealed": "yes: only the receiver can read it (key)"}
    try:
        data = raw if key is None or envelope.kind_of(raw) != "sealed" else unseal(raw, key)
        about = _ALIGNMENT.get(envelope.kind_of(data) or "")
        if about is not None:
            sealed = "yes, opened here" if data is not raw else "no"
            told = {"file": str(path), "bytes": len(raw), "kind": envelope.kind_of(data), **about(data)}
            return {**told, "signature": "none: files of an alignment are not signed", "sealed": sealed}
        if envelope.kind_of(data) == hints_file.KIND:
            hints = Hints.from_bytes(data)
            return describe_hints(hints, len(raw), str(path), data is not raw, verify)
        message = Representation.from_bytes(data, max_dim=DIM_LIMIT)
    except MessageError as error:
        raise error.found_in(path) from None
    known = known_of(message.checksum, Path(path), report)
    return describe_message(message, len(raw), str(path), data is not raw, verify, known)


class _SealedError(Exception):
    """A file is sealed and there is no key: the rest of it need not be read."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def _stop_at_sealed(start: bytes, size: int) -> None:
    if envelope.kind_of(start) == "sealed":
        raise _SealedError(size)


def _request(data: bytes) -> dict[str, Any]:
    asked = alignment.Request.from_bytes(data)
    later = "later which of its rows the host has" if asked.reveal == "both" else "nothing of which rows match"
    return {
        "party": f"{asked.host} (host)",
        "run": asked.run,
        "ids asked about": len(asked.points),
        "ids": f"points of a curve, {alignment.POINT} bytes each, that only the host can open{_rules(asked.forms)}",
        "who learns what": f"a guest: how many ids there are, and {later}; the host: which of its ids a guest has that "
        "answers, and how many rows that has",
        "checksum": envelope.unpack(data, alignment.REQUEST, alignment.REQUEST_KEYS).checksum,
    }


def _response(data: bytes) -> dict[str, Any]:
    found = envelope.unpack(data, alignment.RESPONSE, alignment.RESPONSE_KEYS)
    header, fail = found.header, envelope.Refusal(alignment.RESPONSE, found.header["party"])
    if set(found.tensors) != {"answers", "held"} or any(points.ndim != 2 for points in found.tensors.values()):
        raise fail("it must hold answers and held, and nothing else")
    return {
        "party": f"{header['party']} (guest), to {header['host']}",
        "run": header["run"],
        "ids answered": len(found.tensors["answers"]),
        "rows of the guest": len(found.tensors["held"]),
        "ids": f"points of a curve, {alignment.POINT} bytes each, with the guest's lock",
        "who learns what": "the host, with the state that it kept: which of the ids it asked about the guest has, and how many "
        "rows the guest has; nobody else anything but the numbers",
        "checksum": found.checksum,
    }


def _rows(data: bytes) -> dict[str, Any]:
    agreed = alignment.AgreedRows.from_bytes(data)
    of_secret = agreed.salt.startswith("secret:")
    key = f"the parties' secret, fingerprint {agreed.salt[7:]}" if of_secret else "a salt that is IN THIS FILE"
    who = "whoever has the secret" if of_secret else "WHOEVER HAS THIS FILE: seal it to the guest"
    return {
        "party": f"{agreed.host} (host), for {agreed.guest}",
        "run": agreed.run,
        "rows": len(agreed.keys),
        "ids": f"keyed hashes (HMAC-SHA-256, 8 bytes) with {key}{_rules(agreed.forms)}",
        "who learns what": f"the guest: which of its rows the host has; trying ids is open to {who}",
        "checksum": agreed.digest,
    }


def _state(data: bytes) -> dict[str, Any]:
    kept = alignment.State.from_bytes(data)
    return {
        "party": f"{kept.asked.host} (host)",
        "run": kept.asked.run,
        "ids asked about": len(kept.order),
        "who learns what": "PRIVATE: it holds the key to the answers. Keep it for `fedonce align finish`; NEVER SEND IT",
    }


_ALIGNMENT: dict[str, Callable[[bytes], dict[str, Any]]] = {
    alignment.REQUEST: _request,
    alignment.RESPONSE: _response,
    alignment.ROWS: _rows,
    alignment.STATE: _state,
}


def describe_message(
    message: Representation,
    size: int,
    path: str,
    sealed: bool = False,
    verify: PublicKey | None = None,
    known: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return what a message says, and what is known of it beside that: see `fedonce.assess.attacked`."""
    held = len(message.values)
    return {
        "file": path,
        "protection": protection(message),
        **(known or UNKNOWN),
        "bytes": size,
        "payload bytes": message.payload_bytes,
        "bytes per row": float(f"{message.payload_bytes / held:.3g}") if held else "no rows",
        "id bytes": message.id_bytes,
        "run": message.run,
        "party": message.party,
        "rows": message.n_rows,
        "rows present": held,
        "values per row": message.dim,
        "bits per value": _bits(message),
        **_layers(message),
        "different rows of values": _shared(message.values) if held else "no rows",
        "learner": message.learner + (f" ({message.note})" if message.note else ""),
        "model": message.model or "not told",
        **({} if message.spent is None else {"privacy spent": _spent(message)}),
        "hints": hints_in_words(message),
        "ids": _ids(message),
        "rows digest": message.rows,
        "checksum": message.checksum,
        "signature": _signature(message, verify),
        "sealed": "yes, opened here" if sealed else "no",
    }


def describe_hints(
    hints: Hints, size: int, path: str, sealed: bool = False, verify: PublicKey | None = None
) -> dict[str, Any]:
    """Return what hints say: of which label, how truly, and what everybody can see in them."""
    free = math.isinf(hints.epsilon)
    bins = "" if hints.edges is None else f", bins between {', '.join(f'{edge:g}' for edge in hints.edges[:12])}"
    bins += ", ..." if hints.edges is not None and len(hints.edges) > 12 else ""
    kept = f"with probability {hints.keep:.4g} the true class is disclosed, else any other, each as probable"
    true = _rates(hints)
    return {
        "file": path,
        "bytes": size,
        "kind": hints_file.KIND,
        "party": f"{hints.party} (host)",
        "run": hints.run,
        "label": hints.label,
        "classes": f"{hints.classes}{bins}",
        "label epsilon": "none: THE LABEL TRAVELS AS IT IS"
        if free
        else f"{hints.epsilon:g}, pure, by randomised response (as the host states it)",
        "keep probability": "1: every class is the true one" if free else kept,
        "base rates": f"VISIBLE: about {', '.join(f'{rate:.3g}' for rate in true[:12])}"
        + (f" and {hints.classes - 12} more" if hints.classes > 12 else ""),
        "rows": hints.n_rows,
        "ids": _ids(hints),
        "who learns what": "a guest: which of its rows the host has, how often each class occurs, and of each row an answer that "
        + (
            "is true"
            if free
            else "its owner can deny; beside an earlier file: which labels changed, where answers differ"
        ),
        "rows digest": hints.rows,
        "checksum": hints.checksum,
        "signature": _signature(hints, verify),
        "sealed": "yes, opened here" if sealed else "no",
    }


def _rates(hints: Hints) -> NDArray[np.float64]:
    """Return about how often each class occurs, which anyone who reads hints can compute from the answers."""
    told = np.bincount(hints.answers, minlength=hints.classes) / hints.n_rows
    other = (1 - hints.keep) / (hints.classes - 1)
    # By a tiny epsilon every class is told as often as any other, and nothing is known.
    return np.clip((told - other) / max(hints.keep - other, 1e-3), 0, 1)


def hints_in_words(message: Representation) -> str:
    """Return with which hints a message was made."""
    return f"made with hints at {stated_in_words(message.hints)} {STATED}" if message.hints else "none"


def _bits(message: Representation) -> int | str:
    """Return the bits of a value before it is coded, which tell how finely it is rounded, and those that it takes."""
    size = len(message.values) * message.dim
    if not isinstance(message.codec, Coded) or not size:
        return message.codec.choice()
    return f"{message.bits}, coded: {8 * message.payload_bytes / size:.2g} on average"


def _layers(message: Representation) -> dict[str, Any]:
    """Return in how many layers values are written, where they are sums."""
    layers = message.codec.steps.layers if isinstance(message.codec, Coded) else 1
    return {"layers": f"{layers}, which add up to the values"} if layers > 1 else {}


def protected_by(message: Representation) -> dict[str, Any]:
    """Return what a message states of how its values are protected, by the names of `fedonce.assess.attacks.Exposed`."""
    blurred = "local_epsilon" if message.local_epsilon is not None else "noise" if message.noise else ""
    return {"protect": protection_in(message.note), "blurred": blurred}


def protection(message: Representation) -> str:
    """Return in a line what protects a message's rows, by its own word, and whether that is a guarantee."""
    if message.local_epsilon is not None:
        beside = "not hidden: who is in it, and that a row has changed"
        return f"epsilon {message.local_epsilon:g} per row, pure, by subset selection; {beside} {STATED}"
    if cells := _cells(message):
        return f"{cells}; no guarantee"
    name = message.learner
    sends = name in LEARNERS.built_in and LEARNERS.facts(name).readable
    columns = f"{name} sends the columns themselves, in bins, BY DESIGN" if sends else ""
    if message.noise:
        more = f"; {columns}" if columns else ""
        return f"noise of {message.noise:g} on every value, rows clipped to norm 1 {STATED}; no guarantee{more}"
    return "; ".join(filter(None, ["nothing", columns, _budget(message)]))


def _budget(message: Representation) -> str:
    """Return what a budget covers, which is never the message; its price at the delta that is the default for these rows."""
    if message.spent is None:
        return ""
    entries, delta = from_text(message.spent, message.party), min(1 / (10 * max(message.n_rows, 1)), MOST_DELTA)
    try:
        price = epsilon([entry.event for entry in entries if entry.event is not None], delta)
        priced = f"epsilon {price:.4g}, delta {delta:.3g}"
    except MissingPackageError:
        priced = "a budget that cannot be priced here: install 'fedonce[privacy]'"
    nominal = ", nominal and no guarantee" if any(entry.nominal for entry in entries) else ""
    return f"the guest's model, not this message, was learnt with {priced}{nominal} {STATED}"


def _cells(message: Representation) -> str:
    """Return which protection a message states, and how many rows share the rarest number of this one, which is counted."""
    found = protection_in(message.note)
    if not found:
        return ""
    stated = int(found.removeprefix("cells:"))
    here = int(rows_alike(message.values).min()) if len(message.values) else 0
    rarest = f"in this file the rarest is that of {here:,} row{'' if here == 1 else 's'}"
    if here < stated:
        rarest = f"{rarest.upper()}, as it may be in a message for predictions and not in one for the training"
    return f"{found}: numbers in random order, each that of {stated:,} training rows or more {STATED}; {rarest}"


def _shared(values: NDArray[np.float32]) -> str:
    """Return how many different rows of values there are, and how many rows have the rarest: of cells, their number."""
    counts = rows_alike(values)
    fewest = int(counts.min())
    alone = int((counts == 1).sum())
    rarest = f"{alone:,} rows share theirs with no other" if alone else f"each is that of {fewest:,} rows or more"
    return f"{len(counts):,}; {rarest}"


def _spent(message: Representation) -> str:
    lines = []
    for entry in from_text(message.spent or "", message.party):
        numbers = [f"{name} {value:.4g}" for name, value in describe(entry.event).items() if value is not None]
        mark = " (nominal: not a guarantee)" if entry.nominal else ""
        lines.append(f"{entry.what}: {', '.join(numbers) or 'costs nothing'}{mark}")
    return "; ".join(lines) + f" {STATED}"


def _ids(message: Representation | Hints) -> str:
    kind, _, fingerprint = message.naming.partition(" ")
    return FORMS[kind] + (f" {fingerprint}" if fingerprint else "") + _rules(message.forms)


def _rules(forms: Sequence[str]) -> str:
    return f"; normalised: {', '.join(forms)}" if forms else ""


def _signature(message: Representation | Hints, verify: PublicKey | None) -> str:
    if not message.signature:
        return "none"
    signer = signed_by(message.signature) or "a key that cannot be read"
    if verify is None:
        return f"by {signer}, not verified (verify)"
    if not verify.verify(message.checksum, message.signature):
        raise MessageError(
            f"The signature of party {message.party!r} is not by the key {verify.fingerprint}, it names {signer}: do not use it."
        )
    return f"verified: by {verify.fingerprint}"
