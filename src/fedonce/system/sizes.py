"""Sizes in bytes: as people write them, as they read them, and how much may be taken because another party says so."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedonce.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MESSAGE_LIMIT = 4 * 10**9  # bytes of a file of another party, unless told otherwise
MEMORY_SHARE = (
    4  # the guests' values may take one part in so many of the machine's memory: training needs more beside them
)
UNKNOWN_MEMORY = 16 * 10**9  # where the system does not say how much there is
EMPTY_SIDE = (
    2**16
)  # the longest side of an array without entries: it costs its writer no byte, and may become memory later
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def size(text: str) -> int:
    """Return the bytes of 800KB, 500MB, 4GB or 1TB (thousands, not 1,024s); a number alone is bytes.

    >>> size("1.5 GB")
    1500000000
    """
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([KMGT]?B|)\s*", text.upper(), re.ASCII)
    if found is None or float(found[1]) * _UNITS[found[2]] < 1:
        raise InputError(f"A size must be like 800KB, 500MB or 4GB. Got {text!r}.")
    return int(float(found[1]) * _UNITS[found[2]])


def in_words(count: int) -> str:
    """Return a number of bytes in the unit that suits it.

    >>> in_words(4 * 10**9), in_words(1_234_567), in_words(999)
    ('4 GB', '1.23 MB', '999 bytes')
    """
    for unit in ("TB", "GB", "MB", "KB"):
        if count >= _UNITS[unit]:
            return f"{count / _UNITS[unit]:.3g} {unit}"
    return f"{count} bytes"


def not_hollow(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return arrays; raise ValueError where one has no entries, and a side that no honest one has."""
    for name, array in arrays.items():
        if not array.size and max(array.shape) > EMPTY_SIDE:
            raise ValueError(f"its {name!r} holds nothing, in {array.shape}")
    return arrays


def memory_limit() -> int:
    """Return how many bytes the guests' values may take, unless told otherwise: a quarter of the machine's memory."""
    return machine_memory() // MEMORY_SHARE


def machine_memory() -> int:
    """Return the bytes of memory that this process may have: the machine's, or its container's."""
    found = []
    with suppress(OSError, ValueError, AttributeError):  # not every system says so
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):  # "max" where there is no limit
        found.append(int(_CONTAINER.read_text(encoding="utf-8")))
    return min((each for each in found if each > 0), default=UNKNOWN_MEMORY)
