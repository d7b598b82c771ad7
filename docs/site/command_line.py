"""The page on the command line, from the commands themselves: every command, argument and option, with its default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from fedonce.cli import app


def reference() -> str:
    """Return every command and its options as Markdown."""
    return "\n\n".join(_group("fedonce", typer.main.get_command(app), 2)) + "\n"


def commands(name: str = "fedonce", command: Any = None) -> Iterator[tuple[str, Any]]:
    """Give every command that does something, by its whole name: `fedonce guest fit`."""
    command = command or typer.main.get_command(app)
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
        return
    for word, each in inner.items():
        if not each.hidden:
            yield from commands(f"{name} {word}", each)


def _group(name: str, command: Any, level: int) -> Iterator[str]:
    for word, each in command.commands.items():
        if each.hidden:
            continue
        whole = f"{name} {word}"
        if getattr(each, "commands", None) is not None:
            yield f"{'#' * level} {whole}"
            yield _text(each)
            yield from _group(whole, each, level + 1)
        else:
            yield from _command(whole, each, level)


def _command(name: str, command: Any, level: int) -> Iterator[str]:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    yield f"{'#' * level} {name}"
    yield _text(command)
    words = [f"{each.name.upper()}{'...' if each.nargs == -1 else ''}" for each in arguments]
    yield "```text\n" + " ".join([name, *words, "[OPTIONS]"]) + "\n```"
    rows = [(f"`{word}`", each) for word, each in zip(words, arguments, strict=True)]
    rows += [(", ".join(f"`{flag}`" for flag in (*each.opts, *each.secondary_opts)), each) for each in options]
    if rows:
        lines = [f"| {shown} | {_value(each)} | {_cell(each.help or '')} |" for shown, each in rows]
        yield "\n".join(["| | default | |", "|---|---|---|", *lines])


def _value(parameter: Any) -> str:
    """Say whether a parameter must be given, how often it may be, and what it is where it is not given."""
    told = []
    if parameter.required:
        told.append("required")
    elif not getattr(parameter, "is_flag", False) and parameter.default is not None and not callable(parameter.default):
        told.append(f"`{_plain(parameter.default)}`")
    if getattr(parameter, "multiple", False):
        told.append("may be repeated")
    return ", ".join(told)


def _plain(value: Any) -> str:
    return str(getattr(value, "value", value))


def _text(command: Any) -> str:
    return "\n".join(line.strip() for line in (command.help or "").strip().splitlines())


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
