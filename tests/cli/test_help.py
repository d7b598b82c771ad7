"""What commands say of themselves: examples that work, lines that fit, no type beside a switch."""

from __future__ import annotations

import shlex

import pytest
import typer
from typer.testing import CliRunner

from fedonce.cli import entry

ROOT = typer.main.get_command(entry.app)


def leaves(command, words=()):
    """Return every command that is no group, by the words that call it."""
    inner = getattr(command, "commands", None)
    if not inner:
        return {" ".join(words): command}
    return {name: found for word, each in inner.items() for name, found in leaves(each, (*words, word)).items()}


def groups(command, words=()):
    """Return every group, by the words that call it."""
    inner = getattr(command, "commands", None) or {}
    found = {" ".join(words): command} if inner else {}
    return found | {name: each for word, sub in inner.items() for name, each in groups(sub, (*words, word)).items()}


COMMANDS, GROUPS = leaves(ROOT), groups(ROOT)


def shown(line, width=80):
    result = CliRunner().invoke(entry.app, [*line.split(), "--help"], env={"COLUMNS": str(width)})
    assert result.exit_code == 0, result.output
    return result.output


def test_all_commands_are_found():
    assert {"demo", "doctor", "inspect", "guest fit", "host evaluate", "federation demo", "align finish"} <= set(
        COMMANDS
    )
    assert {"", "guest", "host", "privacy", "federation", "data", "keys", "align"} == set(GROUPS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_is_of_its_command_and_parses(name):
    examples = COMMANDS[name].epilog.split("\n")
    assert examples
    for line in examples:
        words = shlex.split(line)
        called = name.split()
        assert words[: len(called) + 1] == ["fedonce", *called]
        COMMANDS[name].make_context(
            name, words[len(called) + 1 :]
        )  # raises where an option is not there, or one is missing


def test_an_example_that_does_not_parse_would_be_found():
    with pytest.raises(Exception, match="--no-such-option"):
        COMMANDS["guest fit"].make_context("fit", ["shop.csv", "--name", "a", "--out", "b", "--no-such-option"])


@pytest.mark.parametrize("name", [*COMMANDS, *GROUPS])
def test_help_has_examples_and_fits_eighty_columns(name):
    text = shown(name)
    assert "\nExamples\n" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "<bool>" not in text
    assert "--json <" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_paragraphs_are_wrapped_anew_and_options_in_groups():
    text = shown("host fit", 100)
    assert "are zeros and a mark. Late guests are named" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 100
    assert "\nMessages\n  --guest PATH" in text
    assert "--validate / --no-validate" in text
    assert "\n  --json   Print the figures as JSON.\n" in text
    assert "Bits per value: 32 is exact, fewer weigh less and tell less. (default: 8)" in " ".join(
        shown("guest fit", 100).split()
    )
    assert "(required)" in text


def test_examples_break_where_a_shell_lets_them():
    (first, second, *_) = shown("privacy plan").partition("\nExamples\n")[2].splitlines()
    assert first.endswith(" \\")
    assert second.startswith("      --")


def test_without_a_command_one_is_told_where_to_start():
    result = CliRunner().invoke(entry.app, [], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    for path in (
        "fedonce demo",
        "fedonce guest fit --help",
        "fedonce host fit --help",
        "fedonce federation demo",
        "doctor",
    ):
        assert path in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert "Options" not in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands(shell, monkeypatch):
    # Whichever shell the tests run in: the script is that of the shell that is named.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    script = CliRunner().invoke(entry.app, ["--show-completion", shell], prog_name="fedonce")
    assert script.exit_code == 0, script.output
    assert "_FEDONCE_COMPLETE" in script.output


@pytest.mark.parametrize(
    ("typed", "offered"), [("gue", "guest"), ("guest re", "represent"), ("host fit --ref", "--refit")]
)
def test_what_is_completed(typed, offered):
    words = f"fedonce {typed}"
    env = {"_FEDONCE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = CliRunner().invoke(entry.app, [], prog_name="fedonce", env=env)
    assert offered in done.output.split()
