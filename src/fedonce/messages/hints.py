"""Hints: the host's labels through randomised response, as they travel to guests before anybody learns.

A file like the one message: texts in front, then arrays, and nothing else is accepted. It says which label is hinted, how many
classes it has, with which epsilon and with which probability an answer is true; then, per row, the answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.errors import InputError, parameter_error
from fedonce.messages import envelope
from fedonce.messages.message_checks import ID_LIMIT, LEAST_HINTED, MOST_HINTED, Failure, check_ids
from fedonce.system.disk import write_file
from fedonce.system.sizes import MESSAGE_LIMIT, in_words, memory_limit

KIND = "hints"
MOST_CLASSES = 256
LEAST_EPSILON, MOST_EPSILON = LEAST_HINTED, MOST_HINTED
ROWS_LIMIT = 2**40
RECORD, MOST_LIMIT = "hints.record", 1000.0  # a host's record of what it published: its file, and the highest limit
COPIES = 4  # times its size, that reading hints takes at the most: unsealed, taken apart, and its ids put in order
_KEYS = ("run", "party", "rows", "n", "label", "classes", "epsilon", "keep")
_OPTIONAL = ("ids", "normalised")
_NUMBER = r"[0-9]{1,12}(\.[0-9]{1,20})?(e-[0-9]{1,3})?"


@dataclass(frozen=True)
class Hinting:
    """How a host hints at its labels.

    Parameters
    ----------
    epsilon : float
        With which each label is disclosed, by randomised response. Infinite: the label may travel as it is, which `label` must
        then name: it is not the one that is to be predicted, but last year's, a coarser one, a public stand-in.
    edges : sequence of float, optional
        Of numbers: between which of them the bins lie. They are published, so they must be public knowledge.
    label : str
        What the label is called in the file, in the guests' messages and in the ledger.
    classes : sequence, optional
        The classes that a label can have, by public knowledge; None: those of the labels, which hints then disclose.

    Examples
    --------
    >>> Hinting(2.0, edges=(10_000, 50_000))
    Hinting(epsilon=2.0, edges=(10000.0, 50000.0), label='label', classes=None)
    """

    epsilon: float
    edges: Sequence[float] | None = None
    label: str = "label"
    classes: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        number = isinstance(self.epsilon, int | float | np.number) and not isinstance(self.epsilon, bool)
        if not number or not (LEAST_EPSILON <= self.epsilon <= MOST_EPSILON or self.epsilon == math.inf):
            wanted = f"a number from {LEAST_EPSILON:g} to {MOST_EPSILON:g}, or infinite for a label that may travel"
            raise parameter_error("Hinting", "epsilon", wanted, self.epsilon)
        if not envelope.is_name(self.label):
            raise parameter_error("Hinting", "label", "printable text of 1 to 100 bytes", self.label)
        if math.isinf(self.epsilon) and self.label == "label":
            wanted = "the name of a label that may travel as it is, with an infinite epsilon"
            raise parameter_error("Hinting", "label", wanted, self.label)
        if self.edges is not None and self.classes is not None:
            raise InputError(
                "Labels have classes (classes), or are numbers in bins (edges); leave out one of the two.",
                parameter=("classes", "edges"),
            )
        object.__setattr__(self, "epsilon", float(self.epsilon))
        if self.edges is not None:
            object.__setattr__(self, "edges", _checked_edges(self.edges))
        if self.classes is not None:
            object.__setattr__(self, "classes", _checked_classes(self.classes))

    @classmethod
    def of(
        cls,
        column: str,
        epsilon: float | None,
        proxy: str | None,
        edges: Sequence[float] | None = None,
        classes: Sequence[Any] | None = None,
    ) -> Hinting:
        """Return how a column of a file is hinted at: with an epsilon under its own name, or as it is under the proxy's."""
        if (epsilon is None) == (proxy is None):
            raise InputError(
                "Give the label epsilon with which the column is disclosed (epsilon), such as 2; or, for a column that is no "
                "secret and may travel as it is, a name of its own (proxy). Give one of the two.",
                parameter=("epsilon", "proxy"),
            )
        if epsilon is not None and math.isinf(epsilon):
            wanted = (
                f"a number from {LEAST_EPSILON:g} to {MOST_EPSILON:g}; a column that may travel as it is has a proxy"
            )
            raise parameter_error("Hinting", "epsilon", wanted, epsilon)
        return cls(math.inf if epsilon is None else epsilon, edges, column if proxy is None else proxy, classes)


def _checked_edges(edges: Sequence[float]) -> tuple[float, ...]:
    try:
        made = tuple(float(edge) + 0.0 for edge in edges)  # 0 and -0 are one edge
    except (TypeError, ValueError, OverflowError):
        made = ()
    ascending = all(low < high for low, high in pairwise(made))
    if not 1 <= len(made) < MOST_CLASSES or not ascending or not all(map(math.isfinite, made)):
        raise parameter_error("Hinting", "edges", f"1 to {MOST_CLASSES - 1} finite numbers, ascending", edges)
    return made


def _checked_classes(classes: Sequence[Any]) -> tuple[Any, ...]:
    """Return public classes in one order, whatever order they were given in."""
    given = np.asarray(classes, dtype=object)  # as numpy would have it, 1 and "yes" were two texts
    made = given.tolist() if given.ndim == 1 else []
    texts = {isinstance(each, str) for each in made}
    try:
        distinct = np.unique(np.asarray(made)).tolist()
        fits = 2 <= len(distinct) <= MOST_CLASSES and len(distinct) == len(made) and len(texts) == 1
    except (TypeError, ValueError):
        fits = False
    if not fits or any(each == "" or each != each for each in made):
        wanted = f"2 to {MOST_CLASSES} classes, all texts or all numbers, each once"
        raise parameter_error("Hinting", "classes", wanted, classes)
    return tuple(distinct)


@dataclass(frozen=True, eq=False)
class Hints:
    """What a host discloses of its labels to its guests.

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
        The class that is the answer of each row.
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
        """Probability that a row's answer is its true class; each other class has an even part of the rest."""
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
    """Return the probability that an answer is the true class."""
    return 1 / (1 + (classes - 1) * math.exp(-epsilon))


def stated_in_words(stated: str) -> str:
    """Return what a message states of hints, in words.

    >>> stated_in_words("2.0 repaid"), stated_in_words("inf before")
    ("'repaid', label epsilon 2", "'before', as it is")
    """
    epsilon, _, label = stated.partition(" ")
    return f"{label!r}, " + ("as it is" if epsilon == "inf" else f"label epsilon {float(epsilon):g}")


def check_start(start: bytes, size: int, party: str | None = None) -> tuple[int, int, float]:
    """Return the rows, classes and epsilon that a header announces, judged before the rest is read."""
    header = envelope.read_header(start, KIND, _KEYS, party, _OPTIONAL)
    fail = _Failure(header["party"])
    n, classes = fail.integer(header, "n"), fail.integer(header, "classes")
    if not 1 <= n <= ROWS_LIMIT or not 2 <= classes <= MOST_CLASSES:
        raise fail(f"n={n}, classes={classes} are not the sizes of hints")
    if not envelope.is_name(header["label"]) or not envelope.is_name(header["run"]):
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
        raise fail(f"it has an answer {int(found.max())}, and there are {classes}, from 0 on")
    return found


def _edges(found: NDArray[Any] | None, classes: int, fail: _Failure) -> NDArray[np.float64] | None:
    if found is None:
        return None
    if found.dtype != np.float64 or found.shape != (classes - 1,):
        raise fail(f"its edges have shape {found.shape} and type {found.dtype}, {classes - 1} numbers were announced")
    if not np.isfinite(found).all() or not (np.diff(found) > 0).all():
        raise fail("its edges must be finite and ascending")
    return found
