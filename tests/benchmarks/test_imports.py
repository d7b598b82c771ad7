"""Benchmarks import what users can: names of `fedonce`, and of the modules that the documents name, or say why not."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import benchmarks
import fedonce

FOLDER = Path(benchmarks.__file__).parent
ROOT = FOLDER.parent
FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.py"))
IMPORT = re.compile(r"^\s*from (fedonce[\w.]*) import ([\w, ]+)", re.MULTILINE)
NAME = re.compile(r"\bfedonce(?:\.[A-Za-z_]\w*)+")


def is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def documented() -> dict[str, set[str]]:
    """Return the modules that README.md and docs/ name, each with the names of it that they show or that it exports itself."""
    found: dict[str, set[str]] = {"fedonce": set(fedonce.__all__)}
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = path.read_text(encoding="utf-8")
        for module, names in IMPORT.findall(text):
            shown = {name.strip() for name in names.split(",")}
            found.setdefault(module, set()).update(shown)
            found |= {
                f"{module}.{name}": found.get(f"{module}.{name}", set())
                for name in shown
                if is_module(f"{module}.{name}")
            }
        for name in NAME.findall(text):
            module, _, last = name.rpartition(".")
            if is_module(name):
                found.setdefault(name, set())
            elif is_module(module):
                found.setdefault(module, set()).add(last)
    for module in list(found):
        found[module] |= set(getattr(import_module(module), "__all__", ()))
    return found


PUBLIC = documented()


def inside(module: str, name: str) -> str | None:
    """Return the module that an import takes something undocumented from; None where it is documented."""
    whole = f"{module}.{name}"
    if is_module(whole):
        return None if whole in PUBLIC else whole
    return None if name in PUBLIC.get(module, ()) else module


def beyond(text: str) -> set[str]:
    """Return the modules from which a file takes what is not documented, imports inside functions included."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "fedonce":
            found |= {inside(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.partition(".")[0] == "fedonce"]
            found |= {name for name in names if name not in PUBLIC}
    return found - {None}


@pytest.mark.parametrize("name", FILES)
def test_a_benchmark_imports_documented_names_or_says_why_not(name):
    _, needed = benchmarks.INSIDE.get(name, ("", ()))
    assert beyond((FOLDER / name).read_text(encoding="utf-8")) == set(needed)


def test_the_list_of_what_is_needed_beyond_has_no_file_that_is_gone():
    assert set(benchmarks.INSIDE) <= set(FILES)
    assert all(why and modules for why, modules in benchmarks.INSIDE.values())


@pytest.mark.parametrize(
    "text",
    [
        "from fedonce.data.table import Table",
        "def f():\n    from fedonce.training.loop import train",
        "import fedonce.training.loop",
        "from fedonce import _HOME",
        "from fedonce.learners import nat",
        "from fedonce.learners.pca import principal",
        "from fedonce.data.partition import resolve",
    ],
)
def test_what_is_inside_is_seen(text):
    assert beyond(text)


@pytest.mark.parametrize(
    "text",
    [
        "import fedonce",
        "from fedonce import Guest, Host, presets",
        "from fedonce.learners import PCA, make",
        "from fedonce.data.partition import even",
        "from fedonce.rows import alignment",
        "from sklearn.base import clone",
    ],
)
def test_what_is_documented_is_free(text):
    assert not beyond(text)
