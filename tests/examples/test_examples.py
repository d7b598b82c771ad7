from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_wine

from fedonce import FedOnceClassifier
from tests.conftest import ROOT


def run(name):
    return subprocess.run([sys.executable, ROOT / "examples" / name], capture_output=True, text=True, check=True).stdout


def test_quickstart_prints_what_the_readme_shows():
    printed = run("quickstart.py")
    readme = (ROOT / "README.md").read_text()
    assert (ROOT / "examples" / "quickstart.py").read_text().split("\n", 2)[2].strip() in readme
    lines = printed.splitlines()
    assert float(lines[0].split()[-1]) < float(lines[1].split()[-1])
    assert lines[2] in readme  # bytes are exact; accuracies may differ in the last digit between machines


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
