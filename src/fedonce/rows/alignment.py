"""Which rows do two parties have in common? Three files, and neither learns the ids that only the other has.

Private set intersection by Diffie-Hellman on the curve P-256 (openmined-psi), for parties that follow the protocol. The host
sends its ids as points that only it can open (`request`); the guest adds its own lock to each, and sends them back with its own
ids, locked (`respond`); the host takes its lock off and sees which are equal (`finish`). Then the host may tell the guest which
rows they share, in an order that says nothing (`agreed_rows`).

What travels are arrays of points of one size, not the library's own messages: nothing from outside is parsed.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.errors import InputError, parameter_error
from fedonce.messages.envelope import Envelope, Refusal, is_name, pack, unpack
from fedonce.rows import ids as row_ids
from fedonce.rows.agreement import ROWS as ROWS
from fedonce.rows.agreement import AgreedRows as AgreedRows
from fedonce.rows.agreement import agreed_rows as agreed_rows
from fedonce.rows.file_checks import check_names, is_bytes, is_hex, read_forms, refuse_odd_name
from fedonce.rows.ids import Ids, Keys
from fedonce.system.extras import require

REQUEST, RESPONSE, STATE = "alignment request", "alignment response", "alignment state"
REVEAL = ("both", "host")
POINT = 33  # bytes of a point of P-256: its sign and one coordinate
REQUEST_KEYS = ("party", "run", "reveal", "forms", "nonce")
RESPONSE_KEYS = ("party", "host", "run", "nonce")


@dataclass(frozen=True)
class Request:
    """What a host asks of a guest: for which run, who is to learn what matches, and its ids as locked points."""

    host: str
    run: str
    reveal: str
    forms: tuple[str, ...]
    nonce: str
    points: Keys = field(repr=False)

    @classmethod
    def from_bytes(cls, data: bytes) -> Request:
        """Read a request from another party, trusting nothing of it."""
        envelope = unpack(data, REQUEST, REQUEST_KEYS)
        (points,) = _points(envelope, ("points",), Refusal(REQUEST, envelope.header["party"]))
        return cls.of(envelope.header, points, REQUEST)

    @classmethod
    def of(cls, header: dict[str, str], points: Keys, kind: str) -> Request:
        """Check what a request's header says, and its state's."""
        fail = Refusal(kind, header["party"])
        if header["reveal"] not in REVEAL or not is_name(header["run"]) or not is_hex(header["nonce"], 32):
            raise fail("its run, its nonce or what it reveals cannot be read")
        forms = read_forms(header["forms"], fail)
        return cls(header["party"], header["run"], header["reveal"], forms, header["nonce"], points)


@dataclass(frozen=True)
class State:
    """What the host keeps between `request` and `finish`, and shows nobody: its key, and which point is which id."""

    asked: Request
    key: bytes = field(repr=False)
    digest: str
    order: NDArray[np.int64] = field(repr=False)

    @classmethod
    def from_bytes(cls, data: bytes) -> State:
        """Read the state that `request` gave."""
        envelope = unpack(data, STATE, (*REQUEST_KEYS, "key", "ids"))
        fail = Refusal(STATE, envelope.header["party"])
        asked = Request.of(envelope.header, np.zeros((0, POINT), np.uint8), STATE)
        order = envelope.tensors.get("order")
        if set(envelope.tensors) != {"order"} or order is None or order.dtype != np.int64 or order.ndim != 1:
            raise fail("it must hold the order of the ids, and nothing else")
        if not len(order) or not is_hex(envelope.header["key"], 64) or (np.sort(order) != np.arange(len(order))).any():
            raise fail("its key or its order is damaged; make a new request")
        return cls(asked, bytes.fromhex(envelope.header["key"]), envelope.header["ids"], order)


@dataclass(frozen=True)
class Matched:
    """What the host learns of a guest.

    Parameters
    ----------
    guest : str
        Its name.
    positions : array of int
        The host's rows that the guest has, ascending.
    held : int
        How many rows the guest has.
    salt : bytes
        For `agreed_rows`: the same for the same request and guest, so that finishing twice writes the same file.
    """

    guest: str
    positions: NDArray[np.int64]
    held: int
    salt: bytes = field(repr=False)


def request(ids: Ids, host: str, run: str, reveal: str = "both", forms: Sequence[str] = ()) -> tuple[bytes, bytes]:
    """Return the file that the host sends to its guests, and the state that it keeps for `finish` and shows nobody.

    Parameters
    ----------
    ids : array of str
        The host's ids, as they are in its table.
    host, run : str
        Names of the host and of the training.
    reveal : str
        "both": guests are to learn which rows they share with the host; "host": only the host.
    forms : sequence of str
        How ids are made alike first: "trim", "lower", "nfkc".
    """
    check_names("alignment.request", run, host=host)
    if reveal not in REVEAL:
        raise parameter_error("alignment.request", "reveal", "'both' or 'host'", reveal)
    forms = row_ids.parse_forms(",".join(forms))
    own, _ = _sorted(ids, forms, host)
    order = _shuffled(len(own))  # the guest is not to learn at which place of the host's order a row stands
    psi = _library()
    client = psi.client.CreateWithNewKey(True)
    points = _as_array(client.CreateRequest([own[i] for i in order]).encrypted_elements)
    header = {"party": host, "run": run, "reveal": reveal, "forms": ",".join(forms), "nonce": secrets.token_hex(16)}
    kept = {**header, "key": client.GetPrivateKeyBytes().hex().zfill(64), "ids": _digest(own)}
    return pack(REQUEST, header, {"points": points}), pack(STATE, kept, {"order": order})


def respond(data: bytes, ids: Ids, guest: str, forms: Sequence[str] = (), at_most: int | None = None) -> bytes:
    """Return the guest's answer to a request: the asked points with the guest's lock added, and its own ids locked.

    Parameters
    ----------
    data : bytes
        The request.
    ids : array of str
        The guest's ids, as they are in its table.
    guest : str
        Its name.
    forms : sequence of str
        How the guest makes ids alike; must be what the request says.
    at_most : int, optional
        Refuse requests for more ids: a host can ask about ids that it does not have.
    """
    asked = Request.from_bytes(data)
    refuse_odd_name(REQUEST, asked.host)
    check_names("alignment.respond", asked.run, guest=guest)
    _check_request(asked, guest, row_ids.parse_forms(",".join(forms)), at_most)
    own, _ = _sorted(ids, asked.forms, guest)
    psi = _library()
    server = psi.server.CreateWithNewKey(True)
    order = _shuffled(len(own))
    setup = server.CreateSetupMessage(0.0, len(asked.points), [own[i] for i in order], psi.DataStructure.RAW)
    message = psi.Request(reveal_intersection=True, encrypted_elements=_as_list(asked.points))
    try:
        answers = server.ProcessRequest(message).encrypted_elements
    except RuntimeError:
        raise Refusal(REQUEST, asked.host)("it holds what is no point of the curve; ask for the file again") from None
    header = {"party": guest, "host": asked.host, "run": asked.run, "nonce": asked.nonce}
    return pack(RESPONSE, header, {"answers": _as_array(answers), "held": _as_array(setup.raw.encrypted_elements)})


def finish(state: bytes, response: bytes, ids: Ids) -> Matched:
    """Return which of the host's rows a guest has.

    Parameters
    ----------
    state : bytes
        What `request` gave the host to keep.
    response : bytes
        A guest's file.
    ids : array of str
        The host's ids, as they are in its table: those of the request, in any order.

    Raises
    ------
    MessageError
        The response is damaged, or answers another request.
    InputError
        The ids are not those of the request, or the guest has none of them.
    """
    kept = State.from_bytes(state)
    own, rank = _sorted(ids, kept.asked.forms, kept.asked.host)
    if _digest(own) != kept.digest:
        raise InputError(
            f"The ids of party {kept.asked.host!r} are not those that it asked about ({len(own)} now, {len(kept.order)} then); "
            "finish with the same table, or make a new request."
        )
    envelope = unpack(response, RESPONSE, RESPONSE_KEYS)
    guest = envelope.header["party"]
    refuse_odd_name(RESPONSE, guest)
    answers, held = _answers(envelope, kept)
    found = _intersection(kept.key, answers, held, Refusal(RESPONSE, guest))
    if not len(found):
        raise InputError(
            f"The ids of {kept.asked.host!r} match nobody of party {guest!r} ({len(own)} and {len(held)} ids); see whether both "
            "named the same id column, and whether ids are written alike (forms, as in ('trim', 'lower')).",
            parameter="forms",
        )
    salt = hmac.digest(kept.key, f"fedonce rows\n{kept.asked.nonce}\n{guest}".encode(), "sha256")
    return Matched(guest, np.sort(rank[kept.order[found]]), len(held), salt)


def _check_request(asked: Request, guest: str, forms: tuple[str, ...], at_most: int | None) -> None:
    """Refuse a request that the guest did not agree to."""
    fail = Refusal(REQUEST, asked.host)
    if asked.host == guest:
        raise fail(f"it is one's own; the guest that answers must have another name than {guest!r}")
    if forms != asked.forms:
        theirs, own = (",".join(each) or "none" for each in (asked.forms, forms))
        raise fail(f"it normalises ids by {theirs}, this party by {own}; agree on one (forms)", "forms")
    if at_most is not None and len(asked.points) > at_most:
        raise fail(
            f"it asks about {len(asked.points)} ids, and at most {at_most} are allowed (at_most); ask the host why",
            "at_most",
        )


def _answers(envelope: Envelope, kept: State) -> tuple[Keys, Keys]:
    """Return the points of a response, once it is clear that it answers this request."""
    header, asked = envelope.header, kept.asked
    fail = Refusal(RESPONSE, header["party"])
    if not hmac.compare_digest(header["nonce"].encode(), asked.nonce.encode()):
        raise fail("it answers another request; find the state file of that one, or have this one answered")
    if (header["host"], header["run"]) != (asked.host, asked.run):
        raise fail(
            f"it is for host {header['host'][:100]!r} and run {header['run'][:100]!r}, not {asked.host!r}, {asked.run!r}"
        )
    if header["party"] == asked.host:
        raise fail("it has the host's own name; guests need other names")
    answers, held = _points(envelope, ("answers", "held"), fail)
    if len(answers) != len(kept.order):
        raise fail(f"it answers {len(answers)} ids, and {len(kept.order)} were asked")
    return answers, held


def _intersection(key: bytes, answers: Keys, held: Keys, fail: Refusal) -> NDArray[np.int64]:
    """Return which of the asked points, in the order they were asked, the guest has."""
    psi = _library()
    setup, response = psi.ServerSetup(), psi.Response(encrypted_elements=_as_list(answers))
    setup.raw.encrypted_elements.extend(_as_list(held))
    try:
        found = psi.client.CreateFromKey(key, True).GetIntersection(setup, response)
    except RuntimeError:
        raise fail("it holds what is no point of the curve; ask for the file again") from None
    return np.array(sorted(found), dtype=np.int64)


def _sorted(ids: Ids, forms: Sequence[str], party: str) -> tuple[list[bytes], NDArray[np.int64]]:
    """Return the normalised ids as bytes, sorted, and where each stands in the table."""
    if not len(ids):
        raise InputError(f"The table of party {party!r} has no rows; there is nothing to align.")
    texts = [text.encode("utf-8", "surrogatepass") for text in row_ids.normalise(ids, forms)]
    rank = sorted(range(len(texts)), key=texts.__getitem__)
    own = [texts[i] for i in rank]
    for place, (first, second) in enumerate(pairwise(own)):
        if first == second:  # the library would count it twice at a guest, and find it once at a host
            raise InputError(f"The id {ids[rank[place]]!r} of party {party!r} is there twice; keep one of the rows.")
    return own, np.array(rank, dtype=np.int64)


def _shuffled(n: int) -> NDArray[np.int64]:
    """Return a random order from the operating system's randomness."""
    return np.argsort(np.frombuffer(os.urandom(8 * n), np.uint64), kind="stable").astype(np.int64)


def _digest(texts: Sequence[bytes]) -> str:
    """Return a sha256 of sorted ids, each with its length."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(len(text).to_bytes(8, "little") + text)
    return digest.hexdigest()


def _points(envelope: Envelope, names: Sequence[str], fail: Refusal) -> tuple[Keys, ...]:
    """Return a file's arrays of points, checked for their form; whether they are on the curve the library tells."""
    if set(envelope.tensors) != set(names):
        raise fail(f"it must hold {' and '.join(names)}, and nothing else")
    found = tuple(envelope.tensors[name] for name in names)
    for name, points in zip(names, found, strict=True):
        if not is_bytes(points, POINT) or not np.isin(points[:, 0], (2, 3)).all():
            raise fail(f"its {name} must be points of {POINT} bytes, at least one")
    return found


def _as_array(points: Sequence[bytes]) -> Keys:
    return np.frombuffer(b"".join(points), np.uint8).reshape(len(points), POINT)


def _as_list(points: Keys) -> list[bytes]:
    data = points.tobytes()
    return [data[i : i + POINT] for i in range(0, len(data), POINT)]


def _library() -> Any:
    return require("Alignment needs", "psi", "private_set_intersection.python", "openmined-psi")
