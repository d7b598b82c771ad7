"""What the pages about the federation say exists: files, tests, options, keys, messages."""

from __future__ import annotations

import re
import shlex

import pytest
import typer.main

from fedonce.cli.entry import app
from fedonce.federation.policy import Policy
from fedonce.federation.runfile import RunFile
from tests.conftest import ROOT

PAGES = {
    name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("federation", "threat-model", "federation-run-file")
}
READMES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def anchors(page: str) -> set[str]:
    """Return what headings can be linked to."""
    heads = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", path.read_text()):
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there.read_text()), target


def test_the_tests_that_are_named_exist():
    place = ""
    found = re.findall(r"`((?:tests/[\w/]+\.py)?(?:::\w+)?)`", PAGES["threat-model"])
    for name in filter(None, found):
        file, _, test = name.partition("::")
        place = file or place  # `::test_more` is of the file before it
        source = (ROOT / place).read_text()
        assert not test or f"def {test}(" in source, name
    assert len(found) > 15


def test_the_run_file_and_the_policy_can_be_read(tmp_path):
    for kind in ("run", "policy"):
        (text,) = re.findall(rf"```toml {kind}\n(.*?)```", PAGES["federation"], re.DOTALL)
        (tmp_path / f"{kind}.toml").write_text(text)
    run, policy = RunFile.read(tmp_path / "run.toml"), Policy.read(tmp_path / "policy.toml")
    assert run.kit.name in (policy.hosts or [])
    assert run.dim <= policy.max_dim


def test_the_run_file_of_the_tutorial_can_be_read(tmp_path):
    page = (ROOT / "docs" / "federation-on-one-machine.md").read_text()
    (text,) = re.findall(r"```toml run\n(.*?)```", page, re.DOTALL)
    (tmp_path / "run.toml").write_text(text)
    run = RunFile.read(tmp_path / "run.toml")
    assert f"fedonce federation start {run.kit.parent.name}/{run.kit.name}\n" in page
    assert list(run.guests) == ["shop"]


def test_the_run_file_of_the_containers_can_be_read(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "containers.md").read_text(), re.DOTALL)
    (tmp_path / "run.toml").write_text(text)
    run = RunFile.read(tmp_path / "run.toml")
    assert (str(run.kit), list(run.guests)) == ("/kit", ["shop", "utility"])


@pytest.mark.parametrize("name", ["federation", "containers"])
def test_commands_have_the_options_that_are_shown(name):
    group = typer.main.get_command(app).commands["federation"]
    page = (ROOT / "docs" / f"{name}.md").read_text()
    lines = re.findall(r"^(?:ExecStart=\S*/|docker compose exec bank )?(fedonce federation .*)$", page, re.MULTILINE)
    assert len(lines) >= 2
    for line in lines:
        words = shlex.split(line, comments=True)
        command = group.commands[words[2]]
        known = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line
        command.make_context(words[2], words[3:], resilient_parsing=True)


def test_messages_in_the_table_of_troubles_are_ours():
    """Each piece of a message between placeholders is in the source."""
    source = re.sub(r'"\s*\n\s*f?"', "", "".join(path.read_text() for path in (ROOT / "src" / "fedonce").rglob("*.py")))
    table = PAGES["federation"].split("## When something goes wrong")[1]
    messages = re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)
    assert len(messages) > 15
    for message in messages:
        pieces = re.split(r"\.\.\.|'?\b(?:bank|shop|8002|2|0\.2\.0|0\.1\.0|max_dim)\b'?|\(|\)", message)
        for piece in pieces:
            assert piece.strip(" ,:") in source, (message, piece)
