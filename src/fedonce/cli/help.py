"""How commands explain themselves: text wrapped to the terminal, options by what they are about, examples at the end.

Typer's own pages name a type beside every option, switches included, and keep the line breaks of docstrings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, TypeVar

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from fedonce.cli.terminal import Printer

WIDEST = 100  # columns: longer lines are hard to read
WIDEST_NAME = 26
ARGUMENTS, OPTIONS, COMMANDS = "Arguments", "Options", "Commands"
# What stands for the value of an option, by a word in the name of its type.
VALUES = {"path": "PATH", "int": "N", "float": "X"}
Function = TypeVar("Function", bound=Callable[..., Any])


def group(help: str, *examples: str) -> typer.Typer:
    """Return a group of commands, which without a command explains itself."""
    return typer.Typer(cls=Group, help=help, epilog="\n".join(examples), no_args_is_help=True)


def command(app: typer.Typer, *examples: str, name: str | None = None) -> Callable[[Function], Function]:
    """Add a command to a group; `examples` are lines as a user types them, each of which a test parses."""
    return app.command(name, cls=Command, epilog="\n".join(examples))


class Command(TyperCommand):
    """A command that explains itself by `show_help`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print what it is, its options and examples."""
        show_help(self, ctx)


class Group(TyperGroup):
    """A group of commands that explains itself by `show_help`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print what it is, its commands and examples."""
        show_help(self, ctx)


def show_help(shown: Any, ctx: Any) -> None:
    """Print a command's or a group's page."""
    width = min(Printer().width, WIDEST)
    lines = [Text.assemble(("Usage: ", "bold"), _usage(shown, ctx))]
    for paragraph in (shown.help or "").split("\n\n"):
        lines += [Text(""), *map(Text, wrap(" ".join(paragraph.split()), width))]
    for title, rows in _sections(shown, ctx).items():
        lines += [Text(""), Text(title, style="bold"), *_entries(rows, width)]
    if shown.epilog:
        lines += [Text(""), Text("Examples", style="bold")]
        lines += [Text(part) for line in shown.epilog.split("\n") for part in _folded(line, width)]
    for line in lines:
        Printer().print(line, soft_wrap=True)


def _usage(shown: Any, ctx: Any) -> str:
    arguments = [_metavar(each) for each in _visible(shown, ctx) if each.param_type_name == "argument"]
    ending = ["COMMAND [ARGS]..."] if getattr(shown, "commands", None) else []
    return " ".join([ctx.command_path, "[OPTIONS]", *arguments, *ending])


def _sections(shown: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Return titles, and below them names with what they mean: arguments, plain options, options by what they are about."""
    found: dict[str, list[tuple[str, str]]] = {ARGUMENTS: [], OPTIONS: []}
    for each in _visible(shown, ctx):
        argument = each.param_type_name == "argument"
        title = ARGUMENTS if argument else getattr(each, "rich_help_panel", None) or OPTIONS
        found.setdefault(title, []).append((_metavar(each) if argument else _option(each), _meaning(each)))
    commands = getattr(shown, "commands", {})
    found[COMMANDS] = [
        (name, _first(each.help)) for name, each in commands.items() if not getattr(each, "hidden", False)
    ]
    return {title: rows for title, rows in found.items() if rows}


def _visible(shown: Any, ctx: Any) -> list[Any]:
    return [each for each in shown.get_params(ctx) if not getattr(each, "hidden", False)]


def _option(option: Any) -> str:
    names = " / ".join([*option.opts, *option.secondary_opts])
    return names if _is_switch(option) else f"{names} {_metavar(option)}"


def _is_switch(option: Any) -> bool:
    return bool(getattr(option, "is_flag", False)) or bool(getattr(option, "count", False))


def _metavar(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    if parameter.param_type_name == "argument":
        return str(parameter.name).upper()
    # Typer has kept types in one place and in another.
    described = getattr(parameter, "type_descriptor", None)
    kind = str(getattr(parameter, "type", None) if described is None else described.annotation).lower()
    return next((value for word, value in VALUES.items() if word in kind), "TEXT")


def _meaning(parameter: Any) -> str:
    """Return what a parameter is for, and its default where it has one that says something."""
    text = " ".join((getattr(parameter, "help", None) or "").split())
    if parameter.required:
        return f"{text} (required)" if parameter.param_type_name != "argument" else text
    default = parameter.default
    silent = default is None or default is False or default in ("", ())
    if silent or callable(default) or "efault" in text:  # or it says so itself
        return text
    if default is True:
        return f"{text} (default: {parameter.opts[0]})" if parameter.secondary_opts else text
    shown = " ".join(map(str, default)) if isinstance(default, list | tuple) else default
    return f"{text} (default: {shown})" if isinstance(shown, str | int | float | Path) else text


def _first(text: str | None) -> str:
    """Return the first sentence of a help text."""
    paragraph = " ".join((text or "").split("\n\n")[0].split())
    return paragraph.split(". ")[0].rstrip(".")


def _entries(rows: Sequence[tuple[str, str]], width: int) -> Iterator[Text]:
    """Give names beside their meanings; a name that is longer than most has a line of its own."""
    column = min(max(len(name) for name, _ in rows), WIDEST_NAME)
    for name, meaning in rows:
        wrapped = wrap(meaning, width - column - 4) or [""]
        first = [] if len(name) > column else [wrapped.pop(0)]
        yield Text.assemble("  ", (name.ljust(column if first else 0), "cyan"), *(f"  {text}" for text in first))
        yield from (Text(f"{'':{column + 4}}{text}") for text in wrapped)


def _folded(line: str, width: int) -> Iterator[str]:
    """Give an example in lines that fit, as a shell takes them: the next option begins a new one."""
    parts = re.split(r" (?=--)", line)
    text = parts[0]
    for part in parts[1:]:
        if len(f"{text} {part} \\") > width - 2:
            yield f"  {text} \\"
            text = f"    {part}"
        else:
            text = f"{text} {part}"
    yield f"  {text}"
