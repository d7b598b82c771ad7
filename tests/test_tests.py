"""Every test can fail: it asserts something, itself or by a helper of the tests. And none asserts how long something took."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FILES = {path.relative_to(TESTS).as_posix(): path for path in sorted(TESTS.rglob("*.py"))}
CHECKS = ("raises", "warns", "fail")  # pytest's; and whatever begins with "assert", as those of NumPy do
CLOCKS = ("monotonic", "perf_counter", "process_time", "time")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(tree: ast.AST) -> Iterator[Function]:
    """Give all functions, those of classes and within others among them."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def name_of(node: ast.expr) -> str:
    """Return the last name of what is called: `c` of `a.b.c`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def called(function: ast.AST) -> set[str]:
    return {name_of(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}


def asserts(function: Function) -> bool:
    """Whether a function asserts, by its own lines; a check that is its parameter counts (scikit-learn's are)."""
    if any(isinstance(node, ast.Assert) for node in ast.walk(function)):
        return True
    raised = [node.exc for node in ast.walk(function) if isinstance(node, ast.Raise)]
    if any(isinstance(error, ast.Call) and name_of(error.func) == "AssertionError" for error in raised):
        return True
    given = {"check"} & {argument.arg for argument in function.args.args}
    return any(name.startswith("assert") or name in CHECKS or name in given for name in called(function))


def imported(tree: ast.Module) -> Iterator[Function]:
    """Give the functions of the test modules that a file imports from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tests":
            places = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            files = [TESTS.parent / (place.replace(".", "/") + ".py") for place in places]
            yield from (function for file in files if file.is_file() for function in functions(parse(file)))


def seen_from(path: Path) -> list[Function]:
    """Return the functions that a file's tests may call: its own, those of its conftests, and what these import."""
    folders = [folder for folder in path.parents if folder.is_relative_to(TESTS)]
    conftests = [folder / "conftest.py" for folder in folders if (folder / "conftest.py").is_file()]
    trees = [parse(file) for file in (path, *conftests)]
    return [function for tree in trees for function in (*functions(tree), *imported(tree))]


def without_assert(path: Path) -> list[str]:
    """Return the tests of a file that assert nothing, neither themselves nor by what they call."""
    known = seen_from(path)
    checking = {function.name for function in known if asserts(function)}
    while more := {each.name for each in known if each.name not in checking and called(each) & checking}:
        checking |= more
    tests = [each for each in functions(parse(path)) if each.name.startswith("test")]
    return [each.name for each in tests if not asserts(each) and not called(each) & checking - {each.name}]


def reads_clock(node: ast.AST) -> bool:
    calls = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
    return any(name_of(func) in CLOCKS and name_of(getattr(func, "value", func)) in ("time", *CLOCKS) for func in calls)


def is_span(node: ast.AST, spans: set[str]) -> bool:
    """Whether an expression has how long something took in it: a difference of clock readings, or a name of one."""
    for each in ast.walk(node):
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub) and reads_clock(each):
            return True
        if isinstance(each, ast.Name) and each.id in spans:
            return True
    return False


def timed(function: Function) -> bool:
    """Whether a function asserts how long something took."""
    spans: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and is_span(node.value, spans):
            spans |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return any(isinstance(node, ast.Assert) and is_span(node.test, spans) for node in ast.walk(function))


@pytest.mark.parametrize("file", [file for file in FILES if file.rpartition("/")[2].startswith("test_")])
def test_every_test_can_fail(file):
    assert without_assert(FILES[file]) == []


@pytest.mark.parametrize("file", FILES)
def test_no_test_asserts_how_long_something_took(file):
    assert [function.name for function in functions(parse(FILES[file])) if timed(function)] == []


def test_what_asserts_nothing_would_be_found(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "def helper():\n    assert 1\n\ndef outer():\n    helper()\n\ndef silent():\n    len([])\n\n"
        "def test_a():\n    outer()\n\ndef test_b():\n    silent()\n\ndef test_c():\n    np.testing.assert_allclose(1, 1)\n"
    )
    assert without_assert(tmp_path / "test_it.py") == ["test_b"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("begin = time.monotonic()\n    assert time.monotonic() - begin < 5", True),
        ("begin = perf_counter()\n    took = perf_counter() - begin\n    assert 0 < took < 5", True),
        ("assert time.monotonic() < until", False),  # the end of a wait, without which a test would hang
        ("assert len(rows) - 1 < 5", False),
    ],
)
def test_a_time_that_is_asserted_would_be_found(body, found):
    (function,) = functions(ast.parse(f"def test():\n    {body}\n"))
    assert timed(function) is found
