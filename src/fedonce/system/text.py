"""Short texts that people write: durations and names; and whom to tell what is being done."""

from __future__ import annotations

import math
from collections.abc import Callable

from fedonce.errors import InputError

Tell = Callable[[str], None]


def silent(line: str) -> None:
    """Tell nobody."""


def duration(text: str) -> float:
    """Return the seconds of 90s, 30m, 2h or 1d; a number alone is seconds.

    >>> duration("2h")
    7200.0
    """
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "s")
    try:
        seconds = float(number) * units[unit]
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InputError(f"A time must be like 90s, 30m, 2h or 1d. Got {text!r}.")
    return seconds


def names(text: str | None) -> tuple[str, ...]:
    """Return names separated by commas."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
