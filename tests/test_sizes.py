"""Modules and functions stay small enough to be read at one sitting."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedonce

SOURCE = Path(fedonce.__file__).parent
MOST_LINES = 350  # of a module
MOST_BODY = 60  # lines of a function, without its signature and its docstring

MODULES = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a function's body; a command's signature, which is its documentation, does not count."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    assert function.end_lineno is not None
    return function.end_lineno - body[0].lineno + 1 if body else 0


def long_functions(text: str) -> Iterator[str]:
    """Give the functions, methods and inner ones among them, whose bodies are too long."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and body_lines(node) > MOST_BODY:
            yield node.name


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_small(module):
    lines = len(MODULES[module].read_text(encoding="utf-8").splitlines())
    assert lines <= MOST_LINES, f"{lines} lines: divide it by topic"


@pytest.mark.parametrize("module", MODULES)
def test_functions_are_small(module):
    found = list(long_functions(MODULES[module].read_text(encoding="utf-8")))
    assert not found, f"more than {MOST_BODY} lines: divide them"


def test_a_long_function_would_be_found():
    head, line = 'def long(a,\n         b):\n    """Say\n    much."""\n', "    a += b\n"
    assert list(long_functions(head + line * MOST_BODY)) == []
    assert list(long_functions(head + line * (MOST_BODY + 1))) == ["long"]
