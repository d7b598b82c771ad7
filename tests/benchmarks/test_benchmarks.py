"""The measurements run, in small, and their tables come out; real data where FEDONCE_DATA has them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks import datasets, learners
from benchmarks.report import tables
from fedonce import Recipe
from fedonce.datasets import fetch_phishing


def test_learners_writes_a_line_per_run_and_skips_what_is_there(tmp_path, monkeypatch):
    out = tmp_path / "learners.jsonl"
    options = "--data digits --learners random,pca --dims 2 --seeds 1 --out"
    monkeypatch.setattr("sys.argv", ["learners", *options.split(), str(out)])
    learners.main()
    learners.main()
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["key"] for line in lines] == [["digits", "random", 2, 8, 0], ["digits", "pca", 2, 8, 0]]
    assert lines[1]["payload_bytes"] == 3 * lines[1]["rows"] * 2
    assert lines[1]["value"] > lines[0]["value"]


def test_validation_rows_are_training_rows():
    data = learners.digits()
    train, test = data.rows(seed=0)
    small = datasets.for_validation(data, seed=0)
    assert len(small.target) == len(train)
    assert small.n_official_test == pytest.approx(0.2 * len(train), abs=1)
    unused = {row.tobytes() for row in data.data[test]} - {row.tobytes() for row in data.data[train]}
    assert not unused & {row.tobytes() for row in small.data}


def test_datasets_compares_methods_on_the_same_rows(data_folder):
    data = fetch_phishing(data_folder, download=False)
    case = replace(datasets.CASES["phishing"], recipe=Recipe(epochs=3))
    found = {method: datasets.run(case, data, method, seed=0) for method in datasets.METHODS}
    assert {run["rows"] for run in found.values()} == {9949}
    assert found["solo"]["messages"] == found["combine"]["messages"] == 0
    assert found["auto"]["payload_bytes"] == 9 * 9949 * 3
    assert found["solo"]["value"] + 20 < found["named"]["value"]
    assert found["named"]["value"] > 93


def test_tables_show_the_committed_results():
    readme = (tables.ROOT / "README.md").read_text()
    assert tables.digits_table() in readme
    assert tables.bench_table() in readme
    assert tables.parties_table() in readme
    assert tables.datasets_table() in readme
    assert tables.summary() in readme
    assert tables.splits_table() in (tables.ROOT / "docs" / "datasets.md").read_text()
    assert tables.learners_table() in (tables.ROOT / "docs" / "learners.md").read_text()


def test_datasets_says_which_data_are_not_here(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FEDONCE_DATA", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["datasets", "--out", str(tmp_path / "out.jsonl")])
    datasets.main()
    printed = capsys.readouterr().out
    for name in datasets.CASES:
        assert f"{name}: skipped. Data set" in printed
    assert not (tmp_path / "out.jsonl").exists()


def test_every_case_is_in_the_table_and_its_results_are_whole():
    runs = {tuple(line["key"]) for line in tables.lines("datasets")}
    for name, case in datasets.CASES.items():
        methods = ["auto", *(["named"] if case.learner else []), *([] if case.alone else ["solo", "combine"])]
        assert {(name, method, seed) for method in methods for seed in range(case.seeds)} <= runs
