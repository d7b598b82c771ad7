"""Settings that are one value for all guests or a dict by guest, and their checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import TypeAlias, TypeVar

from fedonce.errors import parameter_error

Value = TypeVar("Value")
ByGuest: TypeAlias = Value | Mapping[str, Value]


def of_guest(setting: ByGuest[Value], guest: str, default: Value) -> Value:
    """Return a guest's own setting; the default where a dict does not list it."""
    return setting.get(guest, default) if isinstance(setting, Mapping) else setting


def values(setting: ByGuest[Value]) -> Iterable[Value]:
    """Return all values that a setting has."""
    return setting.values() if isinstance(setting, Mapping) else [setting]


def refuse_unknown_guests(settings: Mapping[str, object], guests: Sequence[str], owner: str) -> None:
    """Raise where a setting, by its name, is keyed by somebody who is no guest."""
    for parameter, setting in settings.items():
        unknown = set(setting) - set(guests) if isinstance(setting, Mapping) else ()
        if unknown:
            wanted = f"keyed by guests ({', '.join(map(repr, guests)) or 'there are none'})"
            raise parameter_error(owner, parameter, wanted, sorted(map(str, unknown))[0])


def check_counts(parameter: str, setting: ByGuest[int | None], owner: str, optional: bool) -> None:
    """Raise unless all values of a setting are positive integers; None counts where it is optional."""
    for value in values(setting):
        if value is None and optional:
            continue
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise parameter_error(owner, parameter, "a positive integer" + (" or None" if optional else ""), value)
