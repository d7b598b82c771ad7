"""What a message says of itself, checked: its numbers, its encoding, its ids, the memory that it would take."""

from __future__ import annotations

import re
import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.messages import codecs
from fedonce.messages.codecs import Codec
from fedonce.messages.envelope import Refusal, is_name
from fedonce.system.sizes import in_words, memory_limit

KIND = "message"
ID_LIMIT = 256  # bytes of an id
FORMS = (
    "trim",
    "lower",
    "nfkc",
)  # how ids are made alike: the rules of `fedonce.rows.ids`, which reads messages itself
LEAST_EPSILON, MOST_EPSILON = 0.01, 50.0  # with which a row can be told
LEAST_HINTED, MOST_HINTED = (
    0.01,
    20.0,
)  # with which a label can be; beyond, 52 random bits are too coarse for another class
MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))  # of splitmix64: every bit changes half of all others


def check_memory(n: int, d: int, limit: int | None, fail: Failure, encoding: type[Codec] = Codec) -> None:
    """Refuse what would take too much memory to be decoded: its file may be many times smaller."""
    most, wanted = memory_limit() if limit is None else limit, encoding.most_memory(n, d) + n
    if wanted > most:
        whose = "a quarter of this machine's memory" if limit is None else "max_memory"
        raise fail(
            f"its {n:,} rows of {d:,} values would take {in_words(wanted)} of memory, and the limit is "
            f"{in_words(most)} ({whose}); raise the limit (max_memory), or ask the guest for fewer rows or fewer values per "
            "row (dim)",
            "max_memory",
        )


class Failure(Refusal):
    """Makes the errors about one party's message, and reads its numbers."""

    def __init__(self, party: str) -> None:
        super().__init__(KIND, party)

    def integer(self, header: dict[str, str], key: str) -> int:
        """Read a count."""
        text = header[key]
        if not text.isascii() or not text.isdigit() or len(text) > 15:
            raise self(f"its {key!r} is {text!r}, not a number")
        return int(text)

    def encoding(self, header: dict[str, str]) -> type[Codec]:
        """Read how values are written: the number of bits is enough for our own encodings, others have a name."""
        bits, name = self.integer(header, "bits"), header.get("codec")
        encoding = codecs.announced(bits, name)
        if encoding is None:
            what = f"{bits} bits" if name is None else f"the codec {name[:40]!r}"
            raise self(
                f"its values are written with {what}, which this program does not know; it has {codecs.choices()}"
            )
        if encoding.bits != bits:
            raise self(f"its 'bits' are {bits}, those of the codec {name!r} are {encoding.bits}")
        return encoding

    def noise(self, header: dict[str, str]) -> float:
        """Read the scale of noise."""
        text = header["noise"]
        if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,20})?(e-[0-9]{1,3})?", text):
            raise self(f"its 'noise' is {text!r}, not a scale")
        return float(text)

    def local(self, header: dict[str, str]) -> float | None:
        """Read the epsilon of each row's answer; None: there is none."""
        text = header.get("local", "")
        found = re.fullmatch(r"subset ([0-9]{1,2}\.[0-9]{1,17})", text)
        if text and (found is None or not is_epsilon(float(found[1]))):
            raise self(f"it says of its rows {text[:40]!r}, which is no mechanism and epsilon that this program knows")
        return None if found is None else float(found[1])

    def hints(self, header: dict[str, str]) -> str:
        """Read with which epsilon labels were hinted at, and which label; empty: none were."""
        text = header.get("hints", "")
        if text and not says_hints(text):
            raise self(
                f"it says of hints {text[:40]!r}, which is no epsilon from {LEAST_HINTED:g} to {MOST_HINTED:g}, or inf, and name "
                "of a label"
            )
        return text

    def naming(self, header: dict[str, str]) -> tuple[str, tuple[str, ...]]:
        """Read how rows are named, and how ids were made alike."""
        label, forms = header.get("ids", ""), header.get("normalised", "")
        rules = tuple(forms.split(",")) if forms else ()
        if not re.fullmatch(r"|plain|hashed|keyed [0-9a-f]{16}", label) or not {*rules} <= {*FORMS} or len(forms) > 40:
            raise self(
                f"it says of its ids {label[:40]!r}, normalised {forms[:40]!r}, which this program does not know; ids are "
                f"normalised by some of {', '.join(FORMS)}"
            )
        return label, rules


def is_epsilon(value: object) -> bool:
    """Tell whether a value is an epsilon that rows can be told with."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return number and LEAST_EPSILON <= float(str(value)) <= MOST_EPSILON


def says_hints(text: object) -> bool:
    """Tell whether a text says with which epsilon which label was hinted at, as `Hints.stated` does."""
    found = re.fullmatch(r"(inf|[0-9]{1,2}\.[0-9]{1,20}) (.+)", text) if isinstance(text, str) else None
    if (
        found is None or not is_name(found[2]) or found[1] != repr(float(found[1]))
    ):  # one spelling: who says the same agrees
        return False
    return found[1] == "inf" or LEAST_HINTED <= float(found[1]) <= MOST_HINTED


def check_ids(ids: NDArray[Any] | None, naming: str, m: int, n: int, fail: Failure) -> None:
    """Check that ids are there where they are announced, in the announced form."""
    if ids is None:
        if naming:
            raise fail("it announces ids and has none")
        return
    if (
        not naming
        or ids.ndim != 2
        or ids.dtype != np.uint8
        or len(ids) != m
        or m != n
        or not 1 <= ids.shape[1] <= ID_LIMIT
    ):
        raise fail(
            f"its ids ({naming[:6] or 'not announced'}) have shape {ids.shape}, {m} rows of bytes were announced"
        )
    if naming != "plain" and ids.shape[1] != 8:
        raise fail(f"its hashes have {ids.shape[1]} bytes instead of 8")


def rows_alike(values: NDArray[np.float32]) -> NDArray[np.intp]:
    """Return how many rows have the same values, for each of the different ones.

    Rows are compared by hashes of 64 bits with a new key each time, so that nobody can make values whose hashes are equal.
    """
    hashed = np.zeros(len(values), np.uint64)
    for column in values.T:
        bits = (column + np.float32(0)).view(np.uint32)  # of minus zero, which equals zero, those of zero
        hashed += bits + np.uint64(secrets.randbits(64))
        for shift, factor in MIXING:
            hashed ^= hashed >> np.uint64(shift)
            hashed *= np.uint64(factor)
        hashed ^= hashed >> np.uint64(31)
    return np.unique(hashed, return_counts=True)[1]
