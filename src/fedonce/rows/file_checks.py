"""Checks that all files about rows share: bytes, digits, names, how ids are made alike."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.errors import InputError, MessageError, parameter_error
from fedonce.messages.envelope import Refusal, is_name
from fedonce.messages.names import MUST_BE, check_name, is_party_name, why_not
from fedonce.rows import ids as row_ids


def is_bytes(array: NDArray[Any] | None, width: int) -> bool:
    """Return whether an array is rows of so many bytes, at least one."""
    return (
        array is not None and array.dtype == np.uint8 and array.ndim == 2 and array.shape[1] == width and len(array) > 0
    )


def read_forms(text: str, fail: Refusal) -> tuple[str, ...]:
    """Read how a file says that ids were made alike."""
    try:
        forms = row_ids.parse_forms(text)
    except InputError:
        raise fail(f"it normalises ids by {text[:40]!r}, which this program does not know") from None
    return forms


def is_hex(text: str, digits: int) -> bool:
    """Return whether a text is so many hex digits."""
    return re.fullmatch(f"[0-9a-f]{{{digits}}}", text) is not None


def check_names(owner: str, run: str, **parties: str) -> None:
    """Raise unless a run and parties have names that files can carry."""
    check_text(owner, "run", run)
    for parameter, name in parties.items():
        check_name(owner, parameter, name)


def check_text(owner: str, parameter: str, name: str) -> None:
    """Raise unless a name is one that files can carry."""
    if not is_name(name):
        raise parameter_error(owner, parameter, "printable text of 1 to 100 bytes", name)


def refuse_odd_name(kind: str, party: str) -> None:
    """Refuse a file of somebody whose name looks like another's, or could."""
    if not is_party_name(party):
        raise MessageError(f"The {kind} is refused: its party's name must be {MUST_BE}. Got {why_not(party)}.")
