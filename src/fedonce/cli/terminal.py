"""How the commands speak: lines of progress on the error stream, results on the output, JSON for programs.

Names of files and columns, and texts of other parties, may hold characters that move the cursor, hide text or turn it around.
None of them gets to a terminal: `guarded` puts both streams behind one that writes such characters as escapes, and `Printer`,
which writes colours and moving lines around that, does so with every text that it lays out.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

from fedonce.cli.remedies import with_options
from fedonce.errors import FedOnceWarning
from fedonce.system.text import Tell

AsJson = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.", rich_help_panel="Output")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.", rich_help_panel="Output")]


class Guarded:
    """A stream that lets lines of printable text through, and writes all else as escapes.

    What rich writes goes around it, by the name that rich itself gives to the stream behind one.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Write a text."""
        self.rich_proxied_file.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write some texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextmanager
def guarded() -> Iterator[None]:
    """Let nothing but printable text through to both streams."""
    before = sys.stdout, sys.stderr
    out, err = (cast(TextIO, Guarded(stream)) for stream in before)
    sys.stdout, sys.stderr = out, err
    try:
        yield
    finally:  # but for one that was put in its place because its reader is gone
        sys.stdout = before[0] if sys.stdout is out else sys.stdout
        sys.stderr = before[1] if sys.stderr is err else sys.stderr


class Printer(Console):
    """A console of rich whose own colours and movements are all that it writes beside printable text."""

    def __init__(self, stderr: bool = False, quiet: bool = False, width: int | None = None) -> None:
        stream = sys.stderr if stderr else sys.stdout
        file = getattr(stream, "rich_proxied_file", stream)
        super().__init__(file=file, quiet=quiet, width=width, highlight=False, soft_wrap=stderr)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Lay something out."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def warn(text: object) -> None:
    """Print a warning."""
    Printer(stderr=True).print(f"[bold yellow]warning[/]: {escape(one_line(text))}")


@contextmanager
def progress(quiet: bool) -> Iterator[Tell]:
    """Give a way to say what is being done: a moving line in a terminal, plain lines elsewhere; warnings are lines, too."""
    console = Printer(stderr=True, quiet=quiet)

    def show(message: Warning | str, category: type[Warning], *_: Any) -> None:
        if issubclass(category, FedOnceWarning):
            warn(with_options(str(message), getattr(message, "parameters", ())))

    with warnings.catch_warnings(), console.status("...") as status:
        warnings.showwarning = show  # type: ignore[assignment]
        warnings.simplefilter("always", FedOnceWarning)

        def tell(line: str) -> None:
            if console.is_terminal:
                status.update(escape(one_line(line)))
            else:
                console.print(escape(one_line(line)))

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
    """Print names and values, one per line; names are aligned."""
    width = max(len(name) for name in pairs)
    for name, value in pairs.items():
        typer.echo(f"{name:{width}}  {value:,}" if type(value) is int else f"{name:{width}}  {one_line(value)}")


def one_line(value: object) -> str:
    r"""Return a value as one line that can be printed: a text from another party must not move the cursor or add lines.

    >>> one_line("pca\nsignature  verified")
    'pca\\nsignature  verified'
    """
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in str(value))


def printable(text: str) -> str:
    r"""Return a text of one or more lines with all that cannot be printed as escapes.

    >>> printable("one\x1b[2J\ntwo")
    'one\\x1b[2J\ntwo'
    """
    return text if text.isprintable() else "\n".join(map(one_line, text.split("\n")))
