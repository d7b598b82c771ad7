"""What the command line adds to errors and warnings of the library: the options by which its parameters are given here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any

# Parameters whose option has another name than they have.
OPTIONS = {
    "types": "--type",
    "forms": "--normalise-ids",
    "files": "--guest",
    "agreed": "--rows",
    "naming": "--secret",
    "random_state": "--seed",
    "representation_noise": "--noise",
}
_known: ContextVar[dict[str, str]] = ContextVar("options of the command")


def begin(command: Any, words: Sequence[str]) -> None:
    """Note which options the command has that some words call; one that is there by default is mended by its opposite."""
    for word in words:
        inner = getattr(command, "commands", {}).get(word)
        if inner is None:
            break
        command = inner
    _known.set({option: (each.secondary_opts or [option])[0] for each in command.params for option in each.opts})


def with_options(text: str, parameters: Sequence[str]) -> str:
    """Return a text with the options of parameters that it is about, as far as the command has them.

    A parameter in brackets gives way to its option; the options of others follow at the end.
    """
    written = in_options(text, parameters)
    more = [option for option in map(_option, parameters) if option is not None and option not in written]
    return f"{written} ({', '.join(dict.fromkeys(more))})" if more else written


def in_options(text: str, parameters: Sequence[str]) -> str:
    """Return a text with parameters in brackets as their options: `(dim)` as `(--dim)`, `(dim=4)` as `(--dim 4)`."""
    for parameter in parameters:
        if (option := _option(parameter)) is not None:
            text = re.sub(rf"\({parameter}(?:=([^()]*))?\)", partial(_bracketed, option), text)
    return text


def _option(parameter: str) -> str | None:
    """Return the option of the command that gives a parameter, if it has one."""
    return _known.get({}).get(OPTIONS.get(parameter, f"--{parameter.replace('_', '-')}"))


def _bracketed(option: str, found: re.Match[str]) -> str:
    return f"({option})" if found[1] is None else f"({option} {found[1]})"
