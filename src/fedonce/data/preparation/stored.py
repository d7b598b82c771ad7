"""Checked reading of a stored preparation, since files may be damaged or of another version."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.errors import InputError


class Stored:
    """What was read of a stored preparation; every value is checked when it is asked for."""

    def __init__(self, content: Any) -> None:
        if not isinstance(content, dict):
            raise InputError(
                f"A stored preparation must be a dict; got {type(content).__name__}. Save the model again."
            )
        self.content = content

    def check(self, key: str, good: bool) -> None:
        """Raise where a value is not good."""
        if not good:
            shown = repr(self.content.get(key))
            raise InputError(
                f"A stored preparation has a wrong {key!r}, {shown[:60]}{'...' if len(shown) > 60 else ''}: it is damaged, or of "
                "another version. Save the model again, or update fedonce."
            )

    def given(self, key: str) -> bool:
        """Return whether there is such a value."""
        return self.content.get(key) is not None

    def _of(self, key: str, kind: type) -> Any:
        value = self.content.get(key)
        self.check(key, type(value) is kind)
        return value

    def text(self, key: str) -> str:
        """Return a text."""
        return str(self._of(key, str))

    def flag(self, key: str) -> bool:
        """Return True or False."""
        return bool(self._of(key, bool))

    def sequence(self, key: str) -> list[Any]:
        """Return a list of anything."""
        return list(self._of(key, list))

    def integer(self, key: str, least: int) -> int:
        """Return an integer, of `least` at least."""
        value = int(self._of(key, int))
        self.check(key, value >= least)
        return value

    def number(self, key: str) -> float:
        """Return a finite number."""
        value: Any = self.content.get(key)
        self.check(key, _is_finite(value))
        return float(value)

    def texts(self, key: str) -> list[str]:
        """Return a list of texts."""
        values = self.sequence(key)
        self.check(key, all(type(value) is str for value in values))
        return values

    def names(self, key: str) -> tuple[Hashable, ...]:
        """Return names of columns: texts or integers."""
        values = self.sequence(key)
        self.check(key, all(type(value) in (str, int) for value in values))
        return tuple(values)

    def integers(self, key: str, least: int) -> list[int]:
        """Return a list of integers, of `least` at least."""
        values = self.sequence(key)
        self.check(key, all(type(value) is int and least <= value < 2**63 for value in values))
        return values

    def numbers(self, key: str, length: int, unbounded: bool = False) -> NDArray[np.float64]:
        """Return finite numbers; where they may be unbounded, null is infinity."""
        values = self.sequence(key)
        good = (_is_finite(value) or (unbounded and value is None) for value in values)
        self.check(key, len(values) == length and all(good))
        return np.array([math.inf if value is None else value for value in values], np.float64)


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def plain_names(names: tuple[Hashable, ...], party: str) -> list[str | int]:
    """Return names as JSON has them."""
    plain: list[str | int] = []
    for name in names:
        if isinstance(name, str):
            plain.append(str(name))
        elif isinstance(name, int | np.integer) and not isinstance(name, bool):
            plain.append(int(name))
        else:
            raise InputError(
                f"Column {name!r} of party {party!r} has a name that cannot be stored, a {type(name).__name__}; name columns by "
                "text or integers before training."
            )
    return plain
