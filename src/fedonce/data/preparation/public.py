"""What is public of a table: all that columns are scaled and coded by with a privacy budget."""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.data.table import as_date
from fedonce.errors import InputError, shown

# (low, high) for all columns, a pair per column by position, or a dict of columns to pairs; ends are numbers, dates or text.
Bounds = Sequence[Any] | NDArray[Any] | Mapping[Hashable, Sequence[Any]] | None
_KINDS: dict[str, Any] = {"boolean": bool, "number": (int, float)}
DAY = np.timedelta64(1, "D")


@dataclass(frozen=True)
class Public:
    """What is known of a table without looking at it: with a privacy budget, all that columns are scaled and coded by.

    Parameters
    ----------
    bounds : (low, high), a list of such pairs or a dict of columns to them
        Between which numbers lie, and dates: as text ("2024-12-31"), as dates, or as days since 1970. What lies beyond is set to
        the bound.
    categories : dict
        Columns of text to the list of values that they can have.
    hashes : bool
        Whether columns of text that have no such list are hashed; otherwise each needs one.
    """

    bounds: Bounds = None
    categories: Mapping[Hashable, Sequence[Any]] = field(default_factory=dict)
    hashes: bool = False

    def of(self, name: Hashable, position: int, party: str) -> tuple[float, float]:
        """Return the bounds of one column."""
        found = self._given(name, position, party)
        pair = as_bounds(found)
        if pair is None:
            raise InputError(
                f"The bounds of column {name!r} of party {party!r} must be (low, high), low below high. Got {shown(found)}."
            )
        return pair

    def of_dates(self, name: Hashable, position: int, party: str) -> tuple[tuple[float, float], bool]:
        """Return the bounds of a column of dates in days since 1970, and whether they have a time of day."""
        found = self._given(name, position, party)
        try:
            ends = [_days_of(end) for end in found]
        except (TypeError, ValueError):
            ends = []
        pair = as_bounds([days for days, _ in ends])
        if pair is None:
            raise InputError(
                f"The bounds of column {name!r} of party {party!r} must be two dates, as ('2000-01-01', '2024-12-31'), the "
                f"first before the second. Got {shown(found)}."
            )
        return pair, any(timed for _, timed in ends)

    def kinds(self, names: Sequence[Hashable]) -> dict[Hashable, str]:
        """Return what columns hold by what is known of them, not by what they look like; nothing of one without bounds."""
        known = {name: kind_of_values(values) for name, values in self.categories.items()}
        for position, name in enumerate(names):
            ends = self._bounds_of(name, position)
            if name not in known and isinstance(ends, Sequence | np.ndarray):  # what is no pair is refused later
                dated = any(isinstance(end, str | datetime.date | np.datetime64) for end in ends)
                known[name] = "date" if dated else "number"
        return {name: known[name] for name in names if name in known}

    def _bounds_of(self, name: Hashable, position: int) -> Any:
        """Return the bounds of one column as they were given; None: there are none."""
        if isinstance(self.bounds, Mapping):
            return self.bounds.get(name)
        if self.bounds is not None and np.ndim(self.bounds) == 2:
            return self.bounds[position] if position < len(self.bounds) else None
        return self.bounds

    def _given(self, name: Hashable, position: int, party: str) -> Any:
        found = self._bounds_of(name, position)
        if found is None:
            raise InputError(
                f"Column {name!r} of party {party!r} has no bounds. With a privacy budget or a local epsilon nothing may be "
                "read off the rows: say between which values the column lies, by what is known of it, with bounds=(low, high) or "
                "a dict of columns.",
                parameter="public",
            )
        return found


def kind_of_values(values: Sequence[Any]) -> str:
    """Return the kind of a column of these public values: categories, classes, or ends of a range."""
    return next((kind for kind, of in _KINDS.items() if all(isinstance(value, of) for value in values)), "category")


def _days_of(end: Any) -> tuple[float, bool]:
    """Return a date as days since 1970, and whether it has a time of day."""
    if isinstance(end, int | float | np.number) and not isinstance(end, np.timedelta64):
        return float(end), False
    date = as_date(datetime.datetime.fromisoformat(end) if isinstance(end, str) else end)
    return float((date - np.datetime64(0, "us")) / DAY), bool(date.astype("datetime64[D]") != date)


def as_bounds(given: Any) -> tuple[float, float] | None:
    """Return (low, high) as numbers; None where they are not a range."""
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError):
        return None
    return (low, high) if np.isfinite([low, high]).all() and low < high else None
