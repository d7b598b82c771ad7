from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from fedonce import InputError
from fedonce.errors import FedOnceWarning
from fedonce.terminal import duration, names, one_line, pairs, progress, show, to_json


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
