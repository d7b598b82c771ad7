"""Imports point one way: layer by layer, room by room, module by module. Those inside functions and for types count, too."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import fedonce

SOURCE = Path(fedonce.__file__).parent

# A room is a module or a package. It may import from its own layer and from those above it.
LAYERS = [
    {"fedonce.errors", "fedonce.system"},
    {"fedonce.messages", "fedonce.rows", "fedonce.data", "fedonce.datasets"},
    {"fedonce.privacy"},
    {"fedonce.training"},
    {"fedonce.learners", "fedonce.hostmodels"},
    {"fedonce.party", "fedonce.presets"},
    {"fedonce.rounds", "fedonce.protocol"},
    {"fedonce.engine", "fedonce.estimators", "fedonce.report", "fedonce"},
    {
        "fedonce.assess",
        "fedonce.jobs",
        "fedonce.export",
        "fedonce.demo",
        "fedonce.federation",
        "fedonce.federation.flare",
    },
    {"fedonce.cli", "fedonce.__main__"},
]
LEVEL = {room: level for level, layer in enumerate(LAYERS, 1) for room in layer}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


PATHS = {module_of(path): path for path in sorted(SOURCE.rglob("*.py"))}


def parents(module: str) -> list[str]:
    """Return a module and the packages that it is in, from the inside out."""
    parts = module.split(".")
    return [".".join(parts[:length]) for length in range(len(parts), 0, -1)]


def room_of(module: str) -> str:
    """Return the room of a module; the package itself is a room for its own `__init__` alone."""
    return next(each for each in parents(module) if each in LEVEL and (each != "fedonce" or module == "fedonce"))


def imported(path: Path) -> set[str]:
    """Return the modules of ours that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    ours = {name for name in found if name.split(".")[0] == "fedonce"}
    return {next(each for each in parents(name) if each in PATHS) for name in ours}


IMPORTS = {module: imported(path) - {module} for module, path in PATHS.items()}


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return a way that leads back to where it began; nothing where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_there_are_at_most_ten_layers():
    assert len(LAYERS) <= 10
    assert sum(map(len, LAYERS)) == len(LEVEL), "a room is in two layers"
    assert set(LEVEL) <= set(PATHS), "a room is not there"


@pytest.mark.parametrize("module", PATHS)
def test_a_module_imports_from_its_own_layer_or_those_above(module):
    level = LEVEL[room_of(module)]
    assert {name for name in IMPORTS[module] if LEVEL[room_of(name)] > level} == set()


def test_no_room_depends_on_one_that_depends_on_it():
    rooms: dict[str, set[str]] = {room: set() for room in LEVEL}
    for module, names in IMPORTS.items():
        rooms[room_of(module)] |= {room_of(name) for name in names} - {room_of(module)}
    assert cycle(rooms) == []


def test_no_module_depends_on_one_that_depends_on_it():
    assert cycle(IMPORTS) == []


def test_a_cycle_would_be_found():
    assert set(cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == {"a", "b", "c"}
