"""Hints: the host's labels through randomised response, as they travel to guests before anybody learns.

A file like the one message: texts in front, then arrays, and nothing else is accepted. It says which label is hinted, how many
classes it has, with which epsilon and with which probability a class is told truly; then, per row, the class that is told.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.errors import MessageError
from fedonce.messages import envelope
from fedonce.messages.message_checks import ID_LIMIT, LEAST_HINTED, MOST_HINTED, Failure, check_ids
from fedonce.system.disk import write_file
from fedonce.system.sizes import MESSAGE_LIMIT, in_words, memory_limit

KIND = "hints"
MOST_CLASSES = 256
LEAST_EPSILON, MOST_EPSILON = LEAST_HINTED, MOST_HINTED
ROWS_LIMIT = 2**40
COPIES = 4  # times its size, that reading hints takes at the most: unsealed, taken apart, and its ids put in order
_KEYS = ("run", "party", "rows", "n", "label", "classes", "epsilon", "keep")
_OPTIONAL = ("ids", "normalised")
_NUMBER = r"[0-9]{1,12}(\.[0-9]{1,20})?(e-[0-9]{1,3})?"


@dataclass(frozen=True, eq=False)
class Hints:
    """What a host tells its guests of its labels.

    Attributes
    ----------
    party, run : str
        The host, and the training that they are for.
    label : str
        Which label is hinted, in the host's words.
    classes : int
        How many classes it has; numbers are hinted by bins.
    epsilon : float
        With which each label is told, pure; infinite: the label may travel as it is.
    answers : array of shape (n,)
        The class that is told of each row.
    rows : str
        Digest of the order of rows, as in a message.
    edges : array of shape (classes - 1,) or None
        Between which numbers the bins lie; None: classes are no bins.
    ids, naming, forms, signature
        As in a message.
    """

    party: str
    label: str
    classes: int
    epsilon: float
    answers: NDArray[np.uint8]
    rows: str
    run: str = "local"
    edges: NDArray[np.float64] | None = None
    ids: NDArray[np.uint8] | None = None
    naming: str = ""
    forms: tuple[str, ...] = ()
    signature: str = field(default="", repr=False)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.answers)

    @property
    def keep(self) -> float:
        """Probability with which a row's class is told truly; each other class has an even part of the rest."""
        return keep_of(self.classes, self.epsilon)

    @property
    def stated(self) -> str:
        """What a message says that was made with these hints: with which epsilon, and of which label."""
        return f"{float(self.epsilon)!r} {self.label}"

    @property
    def checksum(self) -> str:
        """The sha256 of all that the file says: what is signed."""
        return envelope.checksum(KIND, *self._content())

    def to_bytes(self) -> bytes:
        """Return the bytes of a `*.fedonce` file."""
        return envelope.pack(KIND, *self._content(), self.signature)

    def to_file(self, path: str | Path) -> Path:
        """Write a `*.fedonce` file, whole or not at all."""
        return write_file(path, self.to_bytes())

    def _content(self) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
        tensors: dict[str, NDArray[Any]] = {"answers": self.answers}
        if self.edges is not None:
            tensors["edges"] = self.edges
        if self.ids is not None:
            tensors["ids"] = np.ascontiguousarray(self.ids)
        header = {
            "run": self.run,
            "party": self.party,
            "rows": self.rows,
            "n": str(self.n_rows),
            "label": self.label,
            "classes": str(self.classes),
            "epsilon": repr(float(self.epsilon)),
            "keep": repr(self.keep),
        }
        more = {"ids": self.naming, "normalised": ",".join(self.forms)}
        return header | {key: text for key, text in more.items() if text}, tensors

    @classmethod
    def from_bytes(cls, data: bytes, party: str | None = None) -> Hints:
        """Read hints from another party, trusting nothing of them.

        Raises
        ------
        MessageError
            With the party's name (`party`, or the one that the file claims) and what is wrong.
        """
        n, classes, epsilon = check_start(data, len(data), party)
        read = envelope.unpack(data, KIND, _KEYS, party, _OPTIONAL)
        fail = _Failure(read.header["party"])
        naming, forms = fail.naming(read.header)
        if forms and not naming:
            raise fail(f"it says that ids were normalised, {','.join(forms)!r}, and announces none")
        tensors = read.tensors
        if {"answers", *tensors} - {"answers", "edges", "ids"} or "answers" not in tensors:
            raise fail(
                f"it carries tensors {sorted(tensors)}, and must carry answers, and of others edges or ids alone"
            )
        check_ids(tensors.get("ids"), naming, n, n, fail)
        return cls(
            party=read.header["party"],
            label=read.header["label"],
            classes=classes,
            epsilon=epsilon,
            answers=_answers(tensors["answers"], n, classes, fail),
            rows=read.header["rows"],
            run=read.header["run"],
            edges=_edges(tensors.get("edges"), classes, fail),
            ids=tensors.get("ids"),
            naming=naming,
            forms=forms,
            signature=read.signature,
        )

    @classmethod
    def from_file(cls, path: str | Path, party: str | None = None, most: int = MESSAGE_LIMIT) -> Hints:
        """Read a `*.fedonce` file of at most `most` bytes, as carefully as `from_bytes`."""

        def look(start: bytes, size: int) -> None:
            check_start(start, size, party)

        return cls.from_bytes(envelope.read_bytes(path, "hints file", most, look), party)


def keep_of(classes: int, epsilon: float) -> float:
    """Return the probability with which a class is told truly."""
    return 1 / (1 + (classes - 1) * math.exp(-epsilon))


def is_label(name: object) -> bool:
    """Tell whether a text can name a label: printable, of 1 to 100 bytes."""
    return envelope.is_name(name)


def stated_in_words(stated: str) -> str:
    """Return what a message states of hints, in words.

    >>> stated_in_words("2.0 repaid"), stated_in_words("inf before")
    ("'repaid', label epsilon 2", "'before', told as it is")
    """
    epsilon, _, label = stated.partition(" ")
    return f"{label!r}, " + ("told as it is" if epsilon == "inf" else f"label epsilon {float(epsilon):g}")


def check_start(start: bytes, size: int, party: str | None = None) -> tuple[int, int, float]:
    """Return the rows, classes and epsilon that a header announces, judged before the rest is read."""
    header = envelope.read_header(start, KIND, _KEYS, party, _OPTIONAL)
    fail = _Failure(header["party"])
    n, classes = fail.integer(header, "n"), fail.integer(header, "classes")
    if not 1 <= n <= ROWS_LIMIT or not 2 <= classes <= MOST_CLASSES:
        raise fail(f"n={n}, classes={classes} are not the sizes of hints")
    if not is_label(header["label"]) or not envelope.is_name(header["run"]):
        raise fail("its label or its run is not a name: printable text of 1 to 100 bytes")
    epsilon = fail.epsilon(header)
    if not re.fullmatch(_NUMBER, header["keep"]) or not math.isclose(
        float(header["keep"]), keep_of(classes, epsilon), rel_tol=1e-12
    ):
        raise fail(f"its epsilon {epsilon!r} and its probability of a true answer do not fit together")
    most = 8 + envelope.HEADER_LIMIT + n * (ID_LIMIT + 1) + 8 * classes
    if size > most:
        raise fail(f"it has {size:,} bytes, and {n} rows take no more than {most:,}")
    if why := too_large(size):
        raise fail(why)
    return n, classes, epsilon


def too_large(size: int) -> str:
    """Say why a file of so many bytes is not read; nothing where it may be. While it is read it takes several times as much."""
    if size * COPIES <= (limit := memory_limit()):
        return ""
    return (
        f"it has {in_words(size)}, which take {in_words(size * COPIES)} to read, and the limit is {in_words(limit)}, a quarter "
        "of this machine's memory"
    )


class _Failure(Failure):
    """Makes the errors about one party's hints."""

    def __init__(self, party: str) -> None:
        super().__init__(party)
        self.kind = KIND

    def epsilon(self, header: dict[str, str]) -> float:
        """Read an epsilon: a number, or infinity."""
        text = header["epsilon"]
        number = re.fullmatch(_NUMBER, text) and text == repr(float(text))  # one spelling, as it is written
        if text != "inf" and not (number and LEAST_EPSILON <= float(text) <= MOST_EPSILON):
            raise self(f"its epsilon is {text[:40]!r}, not a number from {LEAST_EPSILON:g} to {MOST_EPSILON:g}, or inf")
        return float(text)


def _answers(found: NDArray[Any], n: int, classes: int, fail: _Failure) -> NDArray[np.uint8]:
    if found.dtype != np.uint8 or found.shape != (n,):
        raise fail(f"its answers have shape {found.shape} and type {found.dtype}, {n} bytes were announced")
    if int(found.max()) >= classes:
        raise fail(f"it tells of class {int(found.max())}, and there are {classes}, from 0 on")
    return found


def _edges(found: NDArray[Any] | None, classes: int, fail: _Failure) -> NDArray[np.float64] | None:
    if found is None:
        return None
    if found.dtype != np.float64 or found.shape != (classes - 1,):
        raise fail(f"its edges have shape {found.shape} and type {found.dtype}, {classes - 1} numbers were announced")
    if not np.isfinite(found).all() or not (np.diff(found) > 0).all():
        raise fail("its edges must be finite and ascending")
    return found


def check_signed(hints: Hints, key: Any, path: object) -> None:
    """Raise unless hints are signed by a key."""
    refused = f"The hints of party {hints.party!r} in {path} are refused: "
    if not hints.signature:
        raise MessageError(
            f"{refused}they are not signed, and must be, with the key {key.fingerprint}.", parameter="verify"
        )
    if not key.verify(hints.checksum, hints.signature):
        raise MessageError(
            f"{refused}their signature is not by the key {key.fingerprint}. Ask the host, by another way, for its public key.",
            parameter="verify",
        )
