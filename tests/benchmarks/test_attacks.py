from __future__ import annotations

import re
import subprocess
import sys

import pytest

from benchmarks.attacks import EXAMPLE, controls, held_out, hints
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("example")
    subprocess.run([sys.executable, str(EXAMPLE), str(made)], check=True)
    return made


def test_controls_find_nothing(folder):
    gaussian, others, mixed = controls(folder, tables=4)
    assert gaussian["candidates"] == 0
    assert (others["readable"], others["columns"]) == (0, 40)
    assert (mixed["readable"], mixed["columns"]) == (0, 10)


def test_tables_on_which_nothing_was_chosen_are_read(folder):
    verdicts = {line["column"]: line["verdict"] for line in held_out(folder)}
    assert verdicts["direct_debit"] == verdicts["online_banking"] == "readable"
    assert verdicts["tariff"] != "readable"


def test_hints_tell_what_the_page_says(data_folder, monkeypatch, folder):
    monkeypatch.setenv("FEDONCE_DATA", str(data_folder))
    told = {(line["what"].rsplit(" ", 1)[1], line["way"]): line["right"] for line in hints(folder)}
    page = (ROOT / "docs" / "hints.md").read_text()
    lines = re.findall(r"^\| ([\d.]+) \| ([\d.]+) % \| [\d.]+ % \| ([\d.]+) % \| ([\d.]+) %", page, re.MULTILINE)
    assert len(lines) == 4
    for epsilon, *shown in lines:
        found = [told[epsilon, way] for way in ("hint alone", "values alone", "values and hint")]
        assert found == pytest.approx([*map(float, shown)], abs=0.3)
