"""What a host asks of one guest: a file that travels inside a job, checked by the guest before anything is done.

A request is an envelope like every file between parties: named texts and arrays, a checksum, nothing else. `fingerprint` names
what is asked: the same request has the same one, and under it the guest keeps its answer.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.errors import MessageError
from fedonce.learners.names import is_protection
from fedonce.messages.codecs import BITS
from fedonce.messages.codecs.budget import LEAST_BYTES, MOST_BYTES
from fedonce.messages.envelope import Refusal, is_name, pack, read_header, unpack
from fedonce.messages.hints import Hints
from fedonce.messages.message_checks import is_epsilon
from fedonce.messages.names import MUST_BE, is_party_name, why_not
from fedonce.rows.ids import RULES

KIND = "request"
WHATS = ("learn", "represent", "align", "rounds")
NAMINGS = ("hashed", "keyed", "agreed")
KEYS = ("party", "version", "guest", "run", "what")
_TEXTS = ("settings", "plan")  # travel as arrays of bytes: an envelope's header is short
_WHERE_GIVEN = ("bytes_per_row", "local_epsilon", "protect")  # settings that are not in every request
_ARRAYS = {*_TEXTS, "rows", "order", "points", "hints"}


@dataclass(frozen=True)
class Request:
    """What one guest is asked to do.

    Parameters
    ----------
    host, guest, run : str
        Who asks, who is asked, in which training.
    what : str
        "learn", "represent" (rows to be predicted), "align" (which rows do we share?) or "rounds" (train on together).
    version : str
        The host's version of fedonce; the guest's must be the same.
    learner, dim, bits, epochs, noise, seed, bytes_per_row, local_epsilon, protect
        As for `Guest`, for "learn". `seed` None: the guest's own choice.
    columns : tuple of str, optional
        Columns of the guest to learn from; None: all that its policy allows.
    forms, naming
        How ids are made alike, and how the message names rows: "hashed", "keyed" (with the fingerprint of the secret, after a
        space) or "agreed" (by the rows that come along).
    model : str
        Fingerprint of the request with which the guest learnt, for "represent" and "rounds".
    nonce : str
        For what must be done again each time it is asked: predictions.
    rounds : dict, optional
        Settings of `rounds.Rounds`.
    rows : bytes, optional
        An `AgreedRows` file: the rows that the answer is to be about.
    order : array of int, optional
        For "rounds": for each of the host's rows its place in `rows`, -1 where it is not there.
    points : bytes, optional
        For "align": the request of `alignment`.
    plan : str, optional
        A privacy plan (JSON), for "learn" under a budget.
    hints : bytes, optional
        A `Hints` file, for "learn": what the host tells of its labels. The settings name its checksum.
    """

    host: str
    guest: str
    run: str
    what: str
    version: str
    learner: str = "auto"
    dim: int = 8
    bits: int = 8
    epochs: int | None = None
    noise: float = 0.0
    seed: int | None = None
    columns: tuple[str, ...] | None = None
    forms: tuple[str, ...] = ()
    naming: str = "hashed"
    model: str = ""
    nonce: str = ""
    rounds: dict[str, Any] | None = None
    rows: bytes | None = field(default=None, repr=False)
    order: NDArray[np.int64] | None = field(default=None, repr=False)
    points: bytes | None = field(default=None, repr=False)
    plan: str | None = field(default=None, repr=False)
    bytes_per_row: float | None = None
    local_epsilon: float | None = None
    hints: bytes | None = field(default=None, repr=False)
    protect: str | None = None

    @property
    def fingerprint(self) -> str:
        """Return 32 hex digits that name what is asked."""
        return hashlib.sha256(self.to_bytes()).hexdigest()[:32]

    @property
    def hinted(self) -> str | None:
        """With which epsilon it hints at labels, and at which, as messages state it; None: at none."""
        if self.hints is None:
            return None
        try:
            return Hints.from_bytes(self.hints).stated
        except MessageError:  # it is refused, and never answered
            return "unknown"

    @property
    def settings(self) -> dict[str, Any]:
        """Return what is asked apart from names and arrays."""
        told = {name: getattr(self, name) for name in _WHERE_GIVEN if getattr(self, name) is not None}
        told |= {} if self.hints is None else {"hints": hashlib.sha256(self.hints).hexdigest()}
        return told | {
            "learner": self.learner,
            "dim": self.dim,
            "bits": self.bits,
            "epochs": self.epochs,
            "noise": self.noise,
            "seed": self.seed,
            "columns": None if self.columns is None else list(self.columns),
            "forms": list(self.forms),
            "naming": self.naming,
            "model": self.model,
            "nonce": self.nonce,
            "rounds": self.rounds,
        }

    def to_bytes(self) -> bytes:
        """Return the file."""
        header = {"party": self.host, "version": self.version, "guest": self.guest, "run": self.run, "what": self.what}
        texts = {"settings": json.dumps(self.settings, sort_keys=True), "plan": self.plan}
        files = {"rows": self.rows, "points": self.points, "hints": self.hints}
        data = {name: text.encode() for name, text in texts.items() if text is not None}
        data |= {name: content for name, content in files.items() if content is not None}
        arrays: dict[str, NDArray[Any]] = {name: np.frombuffer(content, np.uint8) for name, content in data.items()}
        return pack(KIND, header, arrays if self.order is None else arrays | {"order": self.order})

    @staticmethod
    def maker_of(data: bytes) -> tuple[str, str]:
        """Return who made a request, with which version: what else it says, another version may write otherwise."""
        header = read_header(data, KIND, KEYS)
        return header["party"], header["version"][:100]

    @classmethod
    def from_bytes(cls, data: bytes) -> Request:
        """Read a request, trusting nothing of it."""
        envelope = unpack(data, KIND, KEYS)
        header, fail = envelope.header, Refusal(KIND, envelope.header["party"])
        if not all(is_name(header[name]) for name in ("guest", "run", "version")) or header["what"] not in WHATS:
            raise fail("its guest, its run, its version or what it asks cannot be read")
        odd = next((header[name] for name in ("party", "guest") if not is_party_name(header[name])), None)
        if odd is not None:
            raise fail(f"its names must be {MUST_BE}. Got {why_not(odd)}")
        if not {"settings"} <= set(envelope.tensors) <= _ARRAYS:
            raise fail("it must hold settings, and nothing that is not known here")
        try:
            arrays = _arrays(envelope.tensors)
            settings = json.loads(arrays.pop("settings"))
            _check_settings(settings)
            _check_hints(settings.pop("hints", None), arrays.get("hints"), header["what"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise fail(f"its settings cannot be read ({error})") from None
        columns = settings.pop("columns")
        return cls(
            header["party"],
            header["guest"],
            header["run"],
            header["what"],
            header["version"],
            columns=None if columns is None else tuple(columns),
            forms=tuple(settings.pop("forms")),
            **settings,
            **arrays,
        )


def _arrays(tensors: dict[str, NDArray[Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, array in tensors.items():
        kind = np.int64 if name == "order" else np.uint8
        if array.dtype != kind or array.ndim != 1:
            raise ValueError(f"{name} is no list of {np.dtype(kind)}")
        found[name] = array if name == "order" else array.tobytes()
    return found | {name: found[name].decode() for name in _TEXTS if name in found}


def _is_hex(value: object, shape: str) -> bool:
    return isinstance(value, str) and re.fullmatch(shape, value) is not None


def _check_hints(checksum: object, hints: bytes | None, what: str) -> None:
    """Raise ValueError where hints are not those that the settings name, or nobody learns from them."""
    if checksum != (None if hints is None else hashlib.sha256(hints).hexdigest()):
        raise ValueError("its hints are not those that it names")
    if hints is not None and what != "learn":
        raise ValueError("hints are for learning alone")


def _check_settings(settings: Any) -> None:
    """Raise ValueError where a setting is missing, unknown or not what it must be."""
    whole = {"dim": (1, 2**20), "epochs": (1, 10**6), "seed": (0, 2**32 - 1)}
    known = {*whole, "learner", "bits", "noise", "columns", "forms", "naming", "model", "nonce", "rounds"}
    if not isinstance(settings, dict) or set(settings) - {*_WHERE_GIVEN, "hints"} != known:
        raise ValueError("they must be those of a request, and no others")
    for name, (low, high) in whole.items():
        value = settings[name]
        if value is None and name != "dim":
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"{name} must be an integer from {low} to {high}")
    most = settings.get("bytes_per_row", LEAST_BYTES)
    if isinstance(most, bool) or not isinstance(most, int | float) or not LEAST_BYTES <= most <= MOST_BYTES:
        raise ValueError(f"bytes_per_row must be a number from {LEAST_BYTES:g} to {MOST_BYTES:g}")
    if "local_epsilon" in settings and not is_epsilon(settings["local_epsilon"]):
        raise ValueError("local_epsilon must be an epsilon")
    if "protect" in settings and not is_protection(settings["protect"]):
        raise ValueError("protect must be a protection")
    if settings["bits"] not in BITS or not isinstance(settings["bits"], int):
        raise ValueError(f"bits must be one of {BITS}")
    noise = settings["noise"]
    if isinstance(noise, bool) or not isinstance(noise, int | float) or not 0 <= noise < math.inf:
        raise ValueError("noise must be a number, 0 or more")
    if not is_name(settings["learner"]) or not re.fullmatch(
        r"(hashed|agreed|keyed [0-9a-f]{16})", str(settings["naming"])
    ):
        raise ValueError("learner and naming must be names")
    if not _is_hex(settings["model"], r"([0-9a-f]{32})?") or not _is_hex(settings["nonce"], r"[0-9a-f]{0,32}"):
        raise ValueError("model and nonce must be hex digits")
    columns, forms = settings["columns"], settings["forms"]
    if columns is not None and (not isinstance(columns, list) or not columns or not all(map(is_name, columns))):
        raise ValueError("columns must be a list of names")
    if not isinstance(forms, list) or not set(map(str, forms)) <= set(RULES):
        raise ValueError(f"forms must be some of {', '.join(RULES)}")
    if settings["rounds"] is not None and not isinstance(settings["rounds"], dict):
        raise ValueError("rounds must be a table of settings")
