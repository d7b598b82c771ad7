"""What is built is what is here: every file of the package, true metadata, and releases that fit their tag."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
import typer.main
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import fedonce
from fedonce.cli.entry import app
from tests.conftest import ROOT

SOURCE = ROOT / "src" / "fedonce"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAME = PROJECT["urls"]["Repository"].removeprefix("https://github.com/")
ALL = """
import importlib, pkgutil, sys
import fedonce
assert fedonce.__file__.startswith(sys.argv[1]), fedonce.__file__
names = [each.name for each in pkgutil.walk_packages(fedonce.__path__, "fedonce.") if "__main__" not in each.name]
names = [name for name in names if not name.startswith("fedonce.federation.flare.")]  # FLARE alone takes ten seconds
for name in names:
    importlib.import_module(name)
print(len(names))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return Path(next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("dist")))))


@pytest.fixture(scope="module")
def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def check_release():
    """Load the script of the release workflow."""
    spec = importlib.util.spec_from_file_location("check_release", ROOT / ".ci" / "check_release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel):
    here = {f"fedonce/{path.relative_to(SOURCE).as_posix()}" for path in SOURCE.rglob("*") if path.is_file()}
    here = {name for name in here if "__pycache__" not in name}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        licence = archive.read(f"fedonce-{fedonce.__version__}.dist-info/licenses/LICENSE")
    assert packed == here
    assert {"fedonce/demo/page.html.jinja", "fedonce/presets/level0.toml", "fedonce/py.typed"} <= packed
    assert licence == (ROOT / "LICENSE").read_bytes()


def test_the_installed_wheel_imports_every_module_and_says_its_version(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:  # a wheel of pure Python is installed by being unpacked
        archive.extractall(tmp_path)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    code = [sys.executable, "-c", ALL, str(tmp_path)]
    ended = subprocess.run(code, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 200
    for name in ("fedonce", "fedonce.cli"):
        command = [sys.executable, "-m", name, "--version"]
        told = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True).stdout
        assert told == f"fedonce {fedonce.__version__}\n"


def test_the_sdist_has_what_tests_and_targets_need(tmp_path):
    with tarfile.open(next(SdistBuilder(str(ROOT)).build(directory=str(tmp_path)))) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"Makefile", "constraints.txt", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "compose.yaml"}
    golden = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "golden").rglob("*") if path.is_file()}
    assert needed | golden | {"tests/conftest.py", "benchmarks/run.py", ".ci/run"} <= packed


def test_metadata_say_what_is_so(metadata):
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Version"] == fedonce.__version__
    assert metadata["Description-Content-Type"] == "text/markdown"
    urls = dict(each.split(", ", 1) for each in metadata.get_all("Project-URL"))
    assert all(urls[name].startswith(urls["Repository"]) for name in ("Documentation", "Changelog", "Issues"))
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    said = [found[0] for each in metadata.get_all("Classifier") if (found := re.findall(r"Python :: (3\.\d+)$", each))]
    tests, wheels = (re.findall(r"3\.\d+", each) for each in re.findall(r"python: \[(.*)\]", workflow))
    assert wheels == said
    assert set(tests) < set(said)


def test_links_of_the_readme_lead_somewhere_from_the_package_index(metadata):
    description = metadata.get_payload()
    links = re.findall(r'(?:\]\(|src="|srcset=")([^)"\s]+)', description)
    assert len(links) > 10
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    pictures = [link for link in links if link.endswith((".svg", ".png"))]
    assert len(pictures) >= 3
    start = f"https://raw.githubusercontent.com/{NAME}/v{fedonce.__version__}/"
    assert all((ROOT / link.removeprefix(start)).is_file() for link in pictures)


def test_a_tag_is_released_only_where_version_changelog_and_address_fit(tmp_path):
    problems, address = check_release().problems, PROJECT["urls"]["Repository"]
    assert problems(f"v{fedonce.__version__}", address) == []
    assert len(problems("v9.9.9", "https://github.com/someone/else")) == 3  # the tag, and both files with the address
    (tmp_path / "src" / "fedonce").mkdir(parents=True)
    (tmp_path / ".github" / "ISSUE_TEMPLATE").mkdir(parents=True)
    for name in ("src/fedonce/__init__.py", "CITATION.cff", *check_release().ADDRESSED):
        (tmp_path / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n", encoding="utf-8")
    (told,) = problems(f"v{fedonce.__version__}", address, tmp_path)
    assert "no dated section" in told


def test_the_address_of_the_repository_is_where_a_release_looks_for_it_and_nowhere_else():
    kinds = {".py", ".md", ".toml", ".yml", ".yaml", ".cff", ".jinja", ".txt", ".sh", ""}
    ours = [ROOT / name for name in (".ci", ".github", "docs", "examples", "src", "tests", "benchmarks")]
    files = [path for folder in ours for path in folder.rglob("*") if path.suffix in kinds and path.is_file()]
    files += [path for path in ROOT.iterdir() if path.suffix in kinds and path.is_file() and path.name != ".git"]
    naming = {path.relative_to(ROOT).as_posix() for path in files if f".com/{NAME}".encode() in path.read_bytes()}
    assert naming == set(check_release().ADDRESSED)


def test_containers_run_commands_that_exist():
    group = typer.main.get_command(app).commands["federation"]
    compose = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    lines = re.findall(r"^    command: federation (.*)$", compose, re.MULTILINE)
    assert len(lines) == 4
    for name, *given in map(str.split, lines):
        group.commands[name].make_context(name, given)
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    for copied in re.findall(r"^COPY (?!--from)(.*) \S+$", image, re.MULTILINE):
        assert all((ROOT / name).exists() for name in copied.split())
    extras = re.search(r"ARG EXTRAS=(\S+)", image)[1].split(",")
    assert set(extras) <= set(PROJECT["optional-dependencies"])
