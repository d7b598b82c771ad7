"""How the commands speak: progress on the error stream, results on the output, JSON for programs.

Names of files and columns, and texts of other parties, may hold characters that move the cursor, hide text or turn it around.
None of them gets to a terminal: `guarded` puts both streams behind one that writes such characters as escapes, and `Printer`,
which writes colours and moving lines around that, does so with every text that it lays out.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Self, TextIO, cast

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text

from fedonce.cli.remedies import with_options
from fedonce.errors import FedOnceWarning

EVERY = 5.0  # seconds between two lines that tell an epoch, where lines stay
# Words of results that are good news, mixed and bad, each in its colour. What attacks do not find is no good news.
JUDGING = {
    "green": ("passed", "better by", "ok"),
    "yellow": ("partly", "no clear difference", "missing", "LATE"),
    "bold red": ("readable", "WORSE", "ABSENT", "REFUSED", "LOST", "FAILED", "NOT as expected", "broken"),
}

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
    _warning(Printer(stderr=True), text)


def _warning(console: Printer, text: object) -> None:
    console.print(f"[bold yellow]warning[/]: {escape(one_line(text))}")


def say(line: str) -> None:
    """Print a line of a result, the words that judge in colour; without colour it reads the same."""
    text = Text(one_line(line))
    for style, words in JUDGING.items():
        text.highlight_regex(rf"(?<![\w-])(?:{'|'.join(words)})(?![\w-])", style)
    Printer().print(text, soft_wrap=True)


class Telling:
    """Who is told what is being done: a moving line in a terminal, plain lines elsewhere.

    Of a training's epochs a terminal shows a bar with the time that is left, and elsewhere a line is written now and then.
    """

    def __init__(self, console: Printer) -> None:
        self._console = console
        self._status = console.status("...")
        self._bar: Any = None
        self._task: Any = None
        self._stage, self._before, self._began, self._written = "", 0, 0.0, 0.0

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end_bar()
        self._status.stop()

    def __call__(self, line: str) -> None:
        """Say what is done next."""
        self._stage = ""
        if self._console.is_terminal:
            self._end_bar()
            self._status.start()
            self._status.update(escape(one_line(line)))
        else:
            self._console.print(escape(one_line(line)))

    def epoch(self, number: int, most: int, stage: str) -> None:
        """Say how far a training is; the first epochs of another one start over."""
        now = time.monotonic()
        if stage != self._stage or number <= self._before:
            self._end_bar()
            self._stage, self._began, self._written = stage, now, max(self._written, now)
        self._before = number
        unit = "tree" if stage == "trees" else "epoch"
        text = one_line(f"training {stage}: {unit} {number:,} of {most:,}")
        if self._console.is_terminal:
            self._move_bar(text, number, most)
        elif now - self._written >= EVERY:
            self._written = now
            left = (now - self._began) / max(number - 1, 1) * (most - number)
            self._console.print(escape(f"{text}, about {left:,.0f} s left"))

    def warn(self, text: object) -> None:
        """Print a warning above the moving line."""
        _warning(Printer(stderr=True) if self._console.quiet else self._console, text)

    def _move_bar(self, text: str, number: int, most: int) -> None:
        if self._bar is None:
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._status.stop()
            columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn(compact=True))
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.start()
            self._task = self._bar.add_task(text, total=most)
        self._bar.update(self._task, description=text, completed=number, total=most)

    def _end_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


@contextmanager
def progress(quiet: bool) -> Iterator[Telling]:
    """Give a way to say what is being done; warnings are lines, too."""
    console = Printer(stderr=True, quiet=quiet)
    with warnings.catch_warnings(), Telling(console) as tell:

        def show(message: Warning | str, category: type[Warning], *_: Any) -> None:
            if issubclass(category, FedOnceWarning):
                tell.warn(with_options(str(message), getattr(message, "parameters", ())))

        warnings.showwarning = show  # type: ignore[assignment]
        warnings.simplefilter("always", FedOnceWarning)
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
