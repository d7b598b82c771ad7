"""Unknown names in the project's TOML files and options: an error that suggests the right one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from fedonce import InputError


def check(given: Iterable[str], known: Sequence[str], where: str, what: str = "key") -> None:
    """Raise where a name is not known."""
    for name in given:
        if name not in known:
            raise InputError(f"{where}: unknown {what} {name!r}; {suggest(name, known)}")


def suggest(name: str, known: Sequence[str]) -> str:
    """Say which known name was probably meant.

    >>> suggest("phising", ["phishing", "covtype"])
    "did you mean 'phishing'?"
    """
    close = get_close_matches(name, known, 1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}."
