"""The page that leads from the paper to commands is what the committed results give, and leaves nothing of the paper out."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from benchmarks.experiment import FOLDER, load
from benchmarks.report import page, paper, reproduce
from benchmarks.report.figures import results


def test_the_committed_page_is_what_the_results_give():
    assert (page.DOCS / "reproduce.md").read_text() == reproduce.page()


def test_every_experiment_of_the_paper_is_on_it():
    asked = {load(path).paper: path.stem for path in FOLDER.glob("*.toml") if load(path).paper}
    assert {item.label: item.experiment for item in reproduce.ITEMS if item.experiment} == asked


def test_every_table_whose_numbers_are_kept_is_on_it():
    assert {number.table for number in paper.load() if number.table} <= {item.label for item in reproduce.ITEMS}


def test_every_table_and_figure_of_the_paper_is_on_it():
    source = os.environ.get("FEDONCE_PAPER")
    if not source or not Path(source).is_file():
        pytest.skip("FEDONCE_PAPER names no file with the paper's LaTeX source")
    labels = set(re.findall(r"\\label\{((?:tab|fig):\w+)\}", Path(source).read_text(encoding="utf-8")))
    parts = {"tab:pub_dataset", "tab:real_dataset"}  # of tab:dataset
    assert labels - parts == {item.label for item in reproduce.ITEMS}


def test_expected_hours_and_scores_are_those_of_the_stored_runs():
    lines = results("parties")
    hours = sum(line["seconds"] for line in lines) / 3600
    scores = [line["value"] for line in lines if line["method"] == "FedOnce"]
    row = next(line for line in reproduce.page().splitlines() if line.startswith("| MNIST 4 or 9"))
    assert f"| {len(lines)} | {hours:.2f} |" in row
    assert f"FedOnce: {min(scores):.2f} to {max(scores):.2f}" in row
