"""The table of all steps, and the step for dates, which has one for numbers in it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedonce.data.preparation.categories import CategoryStep
from fedonce.data.preparation.numbers import BoundedStep, NumberStep, PixelStep
from fedonce.data.preparation.public import DAY
from fedonce.data.preparation.stored import Stored


@dataclass
class DateStep:
    """Dates: the day, scaled as numbers are; where in the year and the week it lies, and in the day where times were known."""

    days: NumberStep | BoundedStep
    timed: bool
    takes: ClassVar[int] = 1

    @property
    def width(self) -> int:
        """How many columns it gives."""
        return self.days.width + (6 if self.timed else 4)

    @classmethod
    def fit(cls, column: NDArray[np.datetime64], name: Hashable, party: str) -> DateStep:
        """Learn from a party's training rows."""
        days = NumberStep.fit(_days(column)[:, None], (name,), party)
        known = column[~np.isnat(column)]
        return cls(days, bool((known.astype("datetime64[D]") != known).any()))

    def write(self, column: NDArray[np.datetime64], out: NDArray[np.float32]) -> None:
        """Write the prepared rows to `out`."""
        scaled = np.empty((len(column), self.days.width), np.float32)
        self.days.write(_days(column)[:, None], scaled)
        out[:, 0], out[:, self.width - self.days.width + 1 :] = scaled[:, 0], scaled[:, 1:]
        missing = np.isnat(column)
        known = np.where(missing, np.datetime64(0, "us"), column)
        for position, turn in enumerate(self._turns(known)):
            out[:, 2 * position + 1] = np.where(missing, 0, np.sin(2 * np.pi * turn))
            out[:, 2 * position + 2] = np.where(missing, 0, np.cos(2 * np.pi * turn))

    def _turns(self, dates: NDArray[np.datetime64]) -> list[NDArray[np.float64]]:
        """Return how much of its year, of its week, and of its day has gone by at each date."""
        day, year = dates.astype("datetime64[D]"), dates.astype("datetime64[Y]")
        first, following = year.astype("datetime64[D]"), (year + 1).astype("datetime64[D]")
        turns = [(day - first) / (following - first), (day.astype(np.int64) + 3) % 7 / 7]  # 1970 began on a Thursday
        return [*turns, (dates - day) / DAY] if self.timed else turns

    def to_json(self) -> dict[str, Any]:
        """Return it in the types of JSON."""
        return {"timed": self.timed, "days": {"kind": KINDS[type(self.days)], **self.days.to_json()}}

    @classmethod
    def from_json(cls, stored: Stored) -> DateStep:
        """Return a stored step, checked."""
        days = step_of(stored.content.get("days"))
        stored.check("days", isinstance(days, NumberStep | BoundedStep) and days.takes == 1)
        return cls(days, stored.flag("timed"))


def _days(column: NDArray[np.datetime64]) -> NDArray[np.float64]:
    """Return dates as days since 1970; NaN is missing."""
    return np.asarray((column - np.datetime64(0, "us")) / DAY)


def _fit_numbers(column: NDArray[Any], name: Hashable, party: str) -> NumberStep:
    return NumberStep.fit(column[:, None], (name,), party)


FITS: dict[str, Callable[[Any, Hashable, str], Any]] = {
    "number": _fit_numbers,
    "boolean": _fit_numbers,
    "category": CategoryStep.fit,
    "date": DateStep.fit,
}
_STEPS: dict[str, Any] = {
    "number": NumberStep,
    "bounded": BoundedStep,
    "category": CategoryStep,
    "date": DateStep,
    "pixels": PixelStep,
}
KINDS = {step: kind for kind, step in _STEPS.items()}
MANY = NumberStep | BoundedStep | PixelStep  # steps for all columns together
ONE = NumberStep | BoundedStep | CategoryStep | DateStep  # steps for one column


def step_of(content: Any) -> Any:
    """Return a stored step."""
    stored = Stored(content)
    kind = stored.text("kind")
    stored.check("kind", kind in _STEPS)
    return _STEPS[kind].from_json(stored)
