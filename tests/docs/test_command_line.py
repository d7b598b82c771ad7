"""The page on the command line has every command and option, and every command that a page shows can be given as it stands."""

from __future__ import annotations

import re
import shlex

import pytest
import typer

from docs.site import command_line
from fedonce.cli import app
from tests.conftest import ROOT

TEXT = command_line.reference()
COMMANDS = dict(command_line.commands())
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples" / "two_departments" / "README.md"]
BLOCK = re.compile(r"```bash\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_has_the_command_and_its_options(name):
    section = re.split(r"^##+ ", TEXT.partition(f" {name}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    for parameter in COMMANDS[name].params:
        shown = parameter.opts if parameter.param_type_name == "option" else [parameter.name.upper()]
        if not getattr(parameter, "hidden", False):
            assert all(f"`{option}`" in section for option in shown)


def test_a_default_is_told():
    section = TEXT.partition(" fedonce guest fit\n")[2]
    assert re.search(r"^\| `--bits` \| `8` \|", section, re.MULTILINE)
    assert re.search(r"^\| `--name` \| required \|", section, re.MULTILINE)


def shown(text: str) -> list[list[str]]:
    """Return the fedonce commands in the bash blocks of a page, as a shell would divide them."""
    lines = "\n".join(BLOCK.findall(text)).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.split("#")[0].strip().startswith("fedonce ")]


def check(words: list[str]) -> None:
    """Parse a command as its own program does; what cannot be given raises."""
    command, name = typer.main.get_command(app), "fedonce"
    rest = words[1:]
    while getattr(command, "commands", None) is not None and rest and rest[0] in command.commands:
        command, name, rest = command.commands[rest[0]], f"{name} {rest[0]}", rest[1:]
    assert name in COMMANDS, f"{shlex.join(words)}: no such command"
    command.make_context(name, list(rest))


SHOWN = {path.relative_to(ROOT).as_posix(): shown(path.read_text(encoding="utf-8")) for path in PAGES}


@pytest.mark.parametrize("page", [page for page, commands in SHOWN.items() if commands])
def test_commands_of_a_page_can_be_given(page):
    for words in SHOWN[page]:
        check(words)
    assert SHOWN[page]


@pytest.mark.parametrize("line", ["fedonce guest fit t.csv --name a --out b --nothing", "fedonce gest fit t.csv"])
def test_a_command_that_cannot_be_given_would_be_found(line):
    with pytest.raises(Exception, match=r"nothing|no such command"):
        check(shlex.split(line))


def test_bash_blocks_are_divided_as_a_shell_does():
    text = "```bash\n# a remark\nfedonce keys new shop   # stays\nls\nfedonce demo \\\n  --quiet\n```\n"
    assert shown(text) == [["fedonce", "keys", "new", "shop"], ["fedonce", "demo", "--quiet"]]
