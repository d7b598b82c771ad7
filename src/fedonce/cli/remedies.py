"""What the command line adds to errors and warnings of the library: the options by which its parameters are given here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
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


def with_options(text: str, parameters: Iterable[str]) -> str:
    """Return a text with the options of parameters that it is about, if the command has them and the text does not name them."""
    found = dict.fromkeys(OPTIONS.get(each, f"--{each.replace('_', '-')}") for each in parameters)
    known = _known.get({})
    options = [known[option] for option in found if option in known and known[option] not in text]
    return f"{text} ({', '.join(options)})" if options else text
