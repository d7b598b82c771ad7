"""What documents, the Makefile and the code tell people to run is there."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import benchmarks
from benchmarks.experiment import FOLDER

ROOT = Path(benchmarks.__file__).parents[1]
PLACES = ["README.md", "CONTRIBUTING.md", "Makefile", "docs/*.md", "src/fedonce/**/*.py", "benchmarks/**/*.py"]
FILES = sorted(path.relative_to(ROOT).as_posix() for place in PLACES for path in ROOT.glob(place))
COMMAND = re.compile(r"python -m (benchmarks(?:\.[a-z_]+)*)(?: ([a-z_0-9]+)`)?")


def commands(name: str) -> list[tuple[str, str]]:
    return COMMAND.findall((ROOT / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [name for name in FILES if commands(name)])
def test_every_command_that_is_named_exists(name):
    for module, experiment in commands(name):
        assert find_spec(module) is not None
        if experiment:
            assert (FOLDER / f"{experiment}.toml").exists()


def test_every_speed_script_runs_by_its_name():
    folder = Path(benchmarks.__file__).parent / "speed"
    for path in folder.glob("[!_]*.py"):
        assert f"python -m benchmarks.speed.{path.stem}" in path.read_text(encoding="utf-8")
