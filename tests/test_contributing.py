"""CONTRIBUTING.md describes the tree as it is: what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fedonce
from tests.test_layers import LEVEL

SOURCE = Path(fedonce.__file__).parent
ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROOM = re.compile(r"^\| (\d*) ?\| `([\w/.]+)` \| (.*) \|$", re.MULTILINE)
MODULE = re.compile(r"`([\w/]+\.py)`")
PATH = re.compile(r"`((?:[\w.]+/)+[\w.]*|[\w/.]+\.(?:py|md|toml))`")
LINK = re.compile(r"\]\(([\w/.-]+)")

ROOMS = {room: text for _, room, text in ROOM.findall(TEXT)}
ELSEWHERE = ROOM.sub("", TEXT)


def missing(room: str, text: str) -> list[str]:
    """Return the modules that a room's line names and the room does not have."""
    return [name for name in MODULE.findall(text) if not (SOURCE / room / name).is_file()]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_the_modules_that_its_line_names(room):
    assert (SOURCE / room).exists()
    assert missing(room, ROOMS[room]) == []


def test_every_room_has_a_line():
    packages = {f"{path.parent.name}/" for path in SOURCE.glob("*/__init__.py")} | {"federation/flare/"}
    modules = {path.name for path in SOURCE.glob("*.py")} - {"__init__.py"}
    assert set(ROOMS) == packages | modules


def test_every_room_is_in_its_layer():
    level, found = 0, {}
    for number, room, _ in ROOM.findall(TEXT):
        level = int(number or level)
        found["fedonce." + room.removesuffix(".py").strip("/").replace("/", ".")] = level
    assert found == {room: level for room, level in LEVEL.items() if room != "fedonce"}


@pytest.mark.parametrize("name", sorted({*PATH.findall(ELSEWHERE), *LINK.findall(ELSEWHERE)}))
def test_a_path_that_the_text_names_is_there(name):
    assert any((place / name).exists() for place in (ROOT, SOURCE, ROOT / "benchmarks")), name


def test_a_module_that_is_gone_would_be_found():
    assert missing("system/", "`disk.py`: files; `steps.py`: gone; `files/`: a folder") == ["steps.py"]
    assert PATH.findall("`jobs/steps.py`, `learners/`, `fit`, `run(problem)` and `steps.py`") == [
        "jobs/steps.py",
        "learners/",
        "steps.py",
    ]
