"""How the commands speak: lines of progress on the error stream, results on the output, JSON for programs."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from fedonce.errors import FedOnceWarning, InputError

AsJson = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.", rich_help_panel="Output")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.", rich_help_panel="Output")]
Tell = Callable[[str], None]


@contextmanager
def progress(quiet: bool) -> Iterator[Tell]:
    """Give a way to say what is being done: a moving line in a terminal, plain lines elsewhere; warnings are lines, too."""
    console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    loud = Console(stderr=True, highlight=False, soft_wrap=True)

    def show(message: Warning | str, category: type[Warning], *_: Any) -> None:
        if issubclass(category, FedOnceWarning):
            loud.print(f"[bold yellow]warning[/]: {escape(str(message))}")

    with warnings.catch_warnings(), console.status("...") as status:
        warnings.showwarning = show  # type: ignore[assignment]
        warnings.simplefilter("always", FedOnceWarning)

        def tell(line: str) -> None:
            if console.is_terminal:
                status.update(escape(line))
            else:
                console.print(escape(line))

        yield tell


def to_json(value: Any) -> str:
    """Return JSON; infinity, which JSON does not have, as text."""

    def plain(each: Any) -> Any:
        if isinstance(each, float) and not math.isfinite(each):
            return str(each)
        if isinstance(each, Path):
            return str(each)
        if isinstance(each, Mapping):
            return {key: plain(inner) for key, inner in each.items()}
        return [plain(inner) for inner in each] if isinstance(each, list | tuple) else each

    return json.dumps(plain(value), indent=2)


def show(pairs: Mapping[str, Any]) -> None:
    """Print names and values, one a line; names are aligned."""
    width = max(len(name) for name in pairs)
    for name, value in pairs.items():
        typer.echo(f"{name:{width}}  {value:,}" if type(value) is int else f"{name:{width}}  {one_line(value)}")


def one_line(value: object) -> str:
    r"""Return a value as one line that can be printed: a text from another party must not move the cursor or add lines.

    >>> one_line("pca\nsignature  verified")
    'pca\\nsignature  verified'
    """
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in str(value))


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


def pairs(given: Sequence[str], option: str, meaning: str) -> dict[str, str]:
    """Return NAME=VALUE options as a dict."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise InputError(f"The option {option} must be like {meaning}. Got {text!r}.")
        found[name] = value
    return found


def names(text: str | None) -> tuple[str, ...]:
    """Return names separated by commas."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
