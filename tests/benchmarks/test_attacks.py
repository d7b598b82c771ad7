from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.attacks import EXAMPLE, controls, held_out


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
