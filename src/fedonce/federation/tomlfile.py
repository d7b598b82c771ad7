"""TOML files of settings that a person writes: every key is known and of its kind, or the error says which is not."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from fedonce.data.table import did_you_mean
from fedonce.errors import InputError
from fedonce.learners.names import LEARNERS
from fedonce.messages.envelope import is_name
from fedonce.system.disk import read_file
from fedonce.system.registry import Registry


class Kind:
    """What the value of a key must be, in words and as a check."""

    def __init__(self, must_be: str, fits: Callable[[Any], bool]) -> None:
        self.must_be, self.fits = must_be, fits


def whole(low: int, high: int) -> Kind:
    """Return the kind of whole numbers from `low` to `high`."""
    return Kind(f"a whole number from {low} to {high}", lambda value: type(value) is int and low <= value <= high)


def number(low: float, above: bool = False, below: float = math.inf, most: float = math.inf) -> Kind:
    """Return the kind of numbers from `low` on, or above it, and below another, or at most a third."""
    words = f"a number {'above' if above else 'from'} {low:g}" + (f" and below {below:g}" if below < math.inf else "")
    words += f" to {most:g}" if most < math.inf else ""

    def fits(value: Any) -> bool:
        return (
            type(value) in (int, float) and (value > low if above else value >= low) and value < below and value <= most
        )

    return Kind(words, fits)


def one_of(*choices: Any) -> Kind:
    """Return the kind of a few values."""
    words = "one of " + ", ".join(f'"{each}"' if isinstance(each, str) else str(each) for each in choices)
    return Kind(words, lambda value: any(type(value) is type(each) and value == each for each in choices))


def some_of(*choices: str) -> Kind:
    """Return the kind of lists of some of a few texts."""
    words = "a list of some of " + ", ".join(f'"{each}"' for each in choices)
    return Kind(words, lambda value: NAMES.fits(value) and set(value) <= set(choices))


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_name, value)) and len(set(value)) == len(value)


NAME = Kind("printable text of 1 to 100 bytes", is_name)
TEXT = Kind("text", lambda value: isinstance(value, str) and bool(value) and "\0" not in value)
NAMES = Kind("a list of texts, one or more and each once", _are_names)
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
TABLE = Kind("a table", lambda value: isinstance(value, dict))
Keys = Mapping[str, Kind]


def load(path: Path | str, what: str) -> dict[str, Any]:
    """Read a TOML file; `what` it is, for errors."""
    data = read_file(path, what)
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"The {what} {path} is not UTF-8 text (byte {error.start + 1}); save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"The {what} {path} is not TOML: {str(error).rstrip('.')}.") from None


def check(
    path: Path | str, what: str, content: Mapping[str, Any], keys: Keys, section: str = "", outside: Keys | None = None
) -> None:
    """Raise where a key of a file, or of a section of it, is unknown or its value is not of its kind.

    `outside` are the keys that belong before the first section: TOML puts whatever follows a section's head into it.
    """
    place = f"[{section}]" if section else f"a {what}"
    for key in content:
        if key in keys:
            continue
        if key in (outside or {}):
            raise InputError(f"{path}: {key!r} stands in [{section}]; put it above the first line with [brackets].")
        raise InputError(f"{path}: {place} has no key {key!r}{did_you_mean(key, keys)}")
    for key, value in content.items():
        if not keys[key].fits(value):
            raise wrong(path, key, keys[key].must_be, value, section)


def wrong(path: Path | str, key: str, must_be: str, got: object, section: str = "") -> InputError:
    """Return the error about the value of a key."""
    where = f" in [{section}]" if section else ""
    return InputError(f"{path}: {key!r}{where} must be {must_be}. Got {got!r}.")


def needed(
    path: Path | str, content: Mapping[str, Any], keys: Collection[str], example: Mapping[str, str], section: str = ""
) -> None:
    """Raise where a key is missing; `example` shows how it is written."""
    for key in keys:
        if key not in content:
            where = f"[{section}] of {path}" if section else str(path)
            raise InputError(f"{where} has no {key!r}, which is needed; write for example: {key} = {example[key]}")


def check_learner(path: Path | str, name: str, key: str = "learner", section: str = "") -> None:
    """Raise where there is no learner of this name, ours, registered or of an installed package."""
    check_known(path, LEARNERS, name, key, section)


def check_known(path: Path | str, registry: Registry[Any, Any], name: str, key: str, section: str = "") -> None:
    """Raise where a name is not in a table of names, or its package is broken; for what is ours, nothing is imported."""
    if name in registry.built_in:
        return
    if name not in registry:
        where = f" in [{section}]" if section else ""
        hint = did_you_mean(name, registry).replace("it has", "there are").replace("It has", "There are")
        raise InputError(f"{path}: {key!r}{where} names a {registry.what} that does not exist, {name!r}{hint}")
    registry[name]
