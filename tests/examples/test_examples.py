from __future__ import annotations

import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
import typer.main
from sklearn.datasets import load_wine

from fedonce import FedOnceClassifier
from fedonce.cli.entry import app
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def run(name):
    """Run an example and return what it prints; it warns of nothing."""
    ended = subprocess.run([sys.executable, ROOT / "examples" / name], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    return ended.stdout


def test_quickstart_prints_what_the_readme_shows():
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    assert (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8").split("\n", 2)[2] == code
    told = [line for line in run("quickstart.py").splitlines() if line]
    figures = re.compile(r"\d*\.\d+")
    assert [figures.sub("#", line) for line in told] == [figures.sub("#", line) for line in shown.splitlines()]
    assert (
        told[1] == shown.splitlines()[1]
    )  # bytes are exact; accuracies may differ in the last digits between machines
    both = [[float(figure) for figure in figures.findall(line)] for line in (told[2], shown.splitlines()[2])]
    assert both[0] == pytest.approx(both[1], abs=0.02)
    assert both[0][0] > both[0][2]  # with the lab, and the hospital alone


def test_the_readme_is_short_and_its_tables_are_narrow():
    assert len(README.encode()) <= 8000
    assert max(line.count("|") - 1 for line in README.splitlines() if line.startswith("|")) <= 6


def test_the_commands_of_the_readme_have_the_options_that_it_shows():
    lines = re.findall(r"^fedonce (?!demo|doctor)(.*)$", README, re.MULTILINE)
    assert len(lines) == 3
    for line in lines:
        command, (_, name, *given) = typer.main.get_command(app), ["fedonce", *shlex.split(line, comments=True)]
        group = command.commands[name]
        group.commands[given[0]].make_context(given[0], given[1:], resilient_parsing=True)
        known = {option for parameter in group.commands[given[0]].params for option in parameter.opts}
        assert {word for word in given if word.startswith("--")} <= known


def test_by_hand_imports_nothing_of_ours():
    source = (ROOT / "examples" / "by_hand.py").read_text()
    assert "import fedonce" not in source
    assert "from fedonce" not in source
    assert "first predictions" in run("by_hand.py")


@pytest.mark.parametrize("host", ["bank", "telco"])
def test_by_hand_and_the_library_predict_the_same(by_hand, float64, host):
    X, y = load_wine(return_X_y=True)
    columns = {"bank": [0, 1, 2, 3, 4], "shop": [5, 6, 7, 8], "telco": [9, 10, 11, 12]}
    train, test = ({party: part[:, own] for party, own in columns.items()} for part in (X[::2], X[1::2]))
    model = FedOnceClassifier(
        columns, host, "nat", dim=3, bits=32, epochs=3, host_epochs=3, recipe="paper", random_state=0
    ).fit(X[::2], y[::2])
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    expected = by_hand.fedonce(train, y[::2], test, host, seed)
    np.testing.assert_allclose(model.predict_proba(X[1::2]), expected, atol=1e-6)
    np.testing.assert_array_equal(model.predict(X[1::2]), expected.argmax(axis=1))
