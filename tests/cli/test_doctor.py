from __future__ import annotations

import json
import sys
from importlib import metadata

import pytest
from typer.testing import CliRunner

from fedonce import __version__
from fedonce.cli import entry
from fedonce.system import checkup


def run(*words):
    return CliRunner().invoke(entry.app, ["doctor", *words])


def test_all_that_matters_is_told():
    told = json.loads(run("--json").stdout)
    required = {each["name"]: each for each in told["required"]}
    assert told["ok"]
    assert required["numpy"] == {"name": "numpy", "state": "ok", "note": metadata.version("numpy")}
    assert {"fedonce", "Python", "torch", "scikit-learn", "lightgbm"} <= set(required)
    assert {each["name"] for each in told["machine"]} == {
        "system",
        "cores",
        "GPU",
        "memory",
        "disk here",
        "data folder",
    }
    assert {"report", "privacy", "psi", "crypto", "nvflare"} <= {each["name"] for each in told["optional"]}


def test_it_reads_well_without_colour():
    done = run()
    assert done.exit_code == 0
    assert f"fedonce        ok      {__version__}" in done.stdout
    assert "All that fedonce needs is ok." in done.stdout
    assert "\x1b" not in done.stdout


def test_what_is_broken_is_named_and_the_exit_code_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)  # as if it were not installed
    done = run()
    assert done.exit_code == 1
    assert "narwhals       missing pip install 'narwhals'" in done.stdout
    assert "Something that fedonce needs is broken" in done.stdout


def test_an_extra_that_lacks_a_package_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(checkup, "find_spec", lambda name: None if name == "nacl" else object())
    found = checkup.checkup(checkup.Path("nowhere"))
    crypto = next(each for each in found.optional if each.name == "crypto")
    assert (crypto.state, found.ok) == ("missing", True)
    assert "pip install 'fedonce[crypto]'" in crypto.note
    assert "PyNaCl" in crypto.note or "pynacl" in crypto.note
    assert "not there yet" in found.machine[-1].note


@pytest.mark.parametrize("error", [ImportError("libgomp.so.1: cannot open shared object file"), OSError("no library")])
def test_a_package_that_breaks_when_it_is_imported_is_broken(monkeypatch, error):
    def fail(name):
        raise error

    monkeypatch.setattr(checkup, "import_module", fail)
    fact = checkup._required("lightgbm")
    assert fact.state == "broken"
    assert str(error) in fact.note
