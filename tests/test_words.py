"""The library speaks Python's words: options and what parses them are the command line's alone."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import fedonce

SOURCE = Path(fedonce.__file__).parent
OPTION = re.compile(r"(?<!-)--[a-z]")
LIBRARY = [path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] != "cli"]


def options(code: str) -> list[str]:
    """Return the strings of a module that name options, those in f-strings and docstrings among them."""
    constants = [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)]
    return [each for each in constants if isinstance(each, str) and OPTION.search(each)]


def imports_typer(code: str) -> bool:
    """Tell whether a module imports what parses options, wherever in the file."""
    nodes = list(ast.walk(ast.parse(code)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return any(name.split(".")[0] in ("typer", "click") for name in names)


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_library_names_no_option_and_parses_none(path):
    code = path.read_text(encoding="utf-8")
    assert options(code) == []
    assert not imports_typer(code)


@pytest.mark.parametrize("code", ['"name it (--id)"', 'f"--seal-to {key}"', 'def f():\n    """As --seed."""'])
def test_an_option_would_be_found(code):
    assert options(code)


@pytest.mark.parametrize(
    "code", ["import typer", "def f():\n    from typer.core import TyperGroup", "import click as c"]
)
def test_a_parser_would_be_found(code):
    assert imports_typer(code)
