from __future__ import annotations

import io
import json
import re
import sys
import warnings
from pathlib import Path

import pytest
import typer
from rich.table import Table

from fedonce import InputError
from fedonce.cli import terminal
from fedonce.cli.options import pairs
from fedonce.cli.terminal import Guarded, Printer, guarded, one_line, progress, say, show, to_json, warn
from fedonce.errors import FedOnceWarning
from fedonce.system.text import duration, names


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86400), ("0.5", 0.5)])
def test_durations(text, seconds):
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-1s", "nan", "inf", "2 weeks", "1e400d"])
def test_what_is_no_duration(text):
    with pytest.raises(InputError, match="90s, 30m, 2h or 1d. Got"):
        duration(text)


def test_pairs_and_names():
    assert pairs(["a=b=c", "x=1"], "--type", "age=number") == {"a": "b=c", "x": "1"}
    assert names(" bank, ,shop ") == ("bank", "shop")
    assert names(None) == ()
    for text in ("a", "=b", "a="):
        with pytest.raises(InputError, match=f"--type must be like age=number. Got '{text}'"):
            pairs([text], "--type", "age=number")


def test_json_has_no_infinity():
    written = to_json({"epsilon": float("inf"), "deep": [{"path": Path("a"), "n": (1, 2.5, None, float("nan"))}]})
    assert "Infinity" not in written
    assert json.loads(written) == {"epsilon": "inf", "deep": [{"path": "a", "n": [1, 2.5, None, "nan"]}]}


def test_figures_are_aligned_and_one_a_line(capsys):
    show({"rows": 12345, "signature": "a\nb\x1b[2J", "ok": True})
    assert capsys.readouterr().out == "rows       12,345\nsignature  a\\nb\\x1b[2J\nok         True\n"
    assert one_line("größe [/red] \ud800\t") == "größe [/red] \\ud800\\t"


def test_progress_and_warnings_are_lines_of_the_error_stream(capsys):
    with progress(quiet=False) as tell:
        tell("reading [/a].csv")
        warnings.warn("look [here]", FedOnceWarning, stacklevel=1)
    printed = capsys.readouterr()
    assert printed.err.split("\n")[-3:] == ["reading [/a].csv", "warning: look [here]", ""]
    assert printed.out == ""


def test_quiet_silences_progress_and_not_warnings(capsys):
    with progress(quiet=True) as tell:
        tell("reading")
        warnings.warn("look", FedOnceWarning, stacklevel=1)
        warnings.warn("a library's", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: look\n"


HOSTILE = "a\x1b[2J\x9b31m\u202etxt\r\x07\u200b"
SHOWN = r"a\x1b[2J\x9b31m\u202etxt\r\x07\u200b"


def test_streams_let_printable_lines_through_and_nothing_else(capsys):
    with guarded():
        sys.stdout.write(f"one {HOSTILE}\n")
        typer.echo("two é\u202e")
        sys.stderr.write(f"{HOSTILE}\n")
        sys.stderr.writelines(["three\n", f"{HOSTILE}\n"])
        with progress(quiet=False) as tell:
            tell(f"reading {HOSTILE}\n.csv")
            warnings.warn(f"look {HOSTILE}", FedOnceWarning, stacklevel=1)
        warn(HOSTILE)
        assert not sys.stdout.isatty()
    printed = capsys.readouterr()
    assert printed.out == f"one {SHOWN}\ntwo é\\u202e\n"
    lines = [SHOWN, "three", SHOWN, rf"reading {SHOWN}\n.csv", f"warning: look {SHOWN}", f"warning: {SHOWN}"]
    assert [line for line in printed.err.splitlines() if line] == lines
    assert type(sys.stdout) is not Guarded


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


def test_colours_are_rich_s_and_texts_are_not(monkeypatch):
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    with guarded(), progress(quiet=False) as tell:
        tell(f"one {HOSTILE}")
        warn("two [/red] \x1b]0;title\x07")
        table = Table(title=HOSTILE)
        table.add_column("column\x1b[5m")
        table.add_row("cell\x1b[8m")
        Printer().print(table)
    shown = screen.getvalue()
    assert "\x1b[1;33mwarning" in shown  # rich's own
    for hostile in ("\x1b[2J", "\x9b", "\u202e", "\x1b]0;", "\x07", "\x1b[5m", "\x1b[8m"):
        assert hostile not in shown, hostile
    for text in (r"\u202e", r"\x1b]0;title"):
        assert text in shown, text


def test_every_command_prints_by_one_of_the_two_ways():
    for path in Path(terminal.__file__).parent.rglob("*.py"):
        source = path.read_text()
        if path.name not in ("terminal.py", "files.py"):  # the latter: a bar of what is downloaded
            assert "rich.console" not in source, path
        assert "typer.secho" not in source, path  # its colours would be taken for hostile ones
        assert "sys.stdout.buffer" not in source, path


def test_epochs_are_lines_now_and_then_with_the_time_that_is_left(capsys, monkeypatch):
    clock = iter(range(0, 1000, 2))  # two seconds for each epoch
    monkeypatch.setattr(terminal.time, "monotonic", lambda: next(clock))
    with progress(quiet=False) as tell:
        tell("learning")
        for epoch in range(1, 11):
            tell.epoch(epoch, 10, "nat")
        for tree in range(1, 3):
            tell.epoch(tree, 500, "trees")  # not long enough for a line
    assert [line for line in capsys.readouterr().err.splitlines() if line] == [
        "learning",
        "training nat: epoch 4 of 10, about 12 s left",
        "training nat: epoch 7 of 10, about 6 s left",
        "training nat: epoch 10 of 10, about 0 s left",
    ]


def test_a_terminal_shows_a_bar_that_goes_when_the_next_step_begins(monkeypatch):
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stderr", screen)
    with progress(quiet=False) as tell:
        tell("learning")
        for epoch in range(1, 4):
            tell.epoch(epoch, 3, "nat\x1b[2J")
        warnings.warn("look", FedOnceWarning, stacklevel=1)
        tell("attacking")
    shown = screen.getvalue()
    assert "epoch 3 of 3" in shown
    assert "\u2501" in shown  # the bar
    assert "warning" in shown
    assert "\x1b[2J" not in shown
    assert shown.rindex("attacking") > shown.rindex("epoch 3 of 3")


def test_quiet_shows_no_epochs(capsys):
    with progress(quiet=True) as tell:
        tell.epoch(1, 2, "nat")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("colour", [True, False])
def test_words_that_judge_have_colours_and_read_alike_without(monkeypatch, colour):
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not colour:
        monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", screen)
    say("spent  readable  by \x1b[2J; 'unreadable' is not by these attacks; better by 0.1; LATE")
    shown = screen.getvalue()
    assert ("\x1b[1;31mreadable" in shown) is colour
    assert ("\x1b[32mbetter by" in shown) is colour
    assert "\x1b[2J" not in shown
    assert "\x1b[1;31mun" not in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert plain == "spent  readable  by \\x1b[2J; 'unreadable' is not by these attacks; better by 0.1; LATE\n"


def test_what_is_no_terminal_gets_no_colour(capsys):
    say("readable, WORSE by 2")
    assert capsys.readouterr().out == "readable, WORSE by 2\n"
