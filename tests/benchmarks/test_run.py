from __future__ import annotations

import json
import runpy
from dataclasses import asdict, replace

import pytest

from benchmarks import run as runner
from benchmarks import store
from benchmarks.data import digits_8x8, fetch
from benchmarks.experiment import FOLDER, KEY, load
from fedonce import Guest, Host, InputError
from fedonce.datasets import SOURCES

SMALL = """
title = "Every host"
[[cases]]
data = ["breast-cancer", "diabetes"]
hosts = ["party1", "party2", "party3"]
seeds = 2
methods = ["FedOnce-PCA", "Combine"]
config = { dim = 2, host_epochs = 1 }
"""
LINE = {
    "experiment",
    "data",
    "complete",
    "method",
    "host",
    "fold",
    "seed",
    "metric",
    "value",
    "messages",
    "payload",
    "bytes",
    "wire",
    "seconds",
    "cpu",
    "version",
    "commit",
    "machine",
    "rows",
    "parties",
    "config",
    "division",
    "loader",
    "note",
}


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path, tmp_path / "out.jsonl"


def go(path, out, *more):
    return runner.main([str(path), "--out", str(out), "--device", "cpu", *more])


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.toml")))
def test_every_experiment_runs_in_small(name, tmp_path):
    if any("SecureBoost" in method or case.division for case in load(name).cases for method in case.methods):
        pytest.importorskip("xgboost")
    out = tmp_path / "out.jsonl"
    assert runner.main([name, "--smoke", "--device", "cpu", "--out", str(out)]) == 0
    lines = store.read(out)
    methods = {method for case in load(name).cases for method in case.methods}
    assert {line["method"] for line in lines} == methods
    assert all(set(line) >= LINE for line in lines)
    assert all(line["value"] is not None or line["note"] for line in lines)


@pytest.mark.parametrize("name", ["datasets", "digits", "learners", "overlap"])
def test_every_stored_run_is_one_that_its_experiment_asks_for_and_none_is_missing(name):
    wanted = set()
    for case in load(name).cases:
        for data in case.data:
            divided = fetch(data, {}) if data not in SOURCES else replace(digits_8x8(), parties=SOURCES[data].parties)
            wanted |= {runner.key(asdict(cell)) for cell in runner.cells(case, data, divided)}
    assert {runner.key(line) for line in store.read(store.RESULTS / f"{name}.jsonl")} == wanted


def test_a_part_of_the_rows_is_part_of_a_run_s_name(small):
    path, out = small
    few = ("--data", "diabetes", "--methods", "Combine", "--seeds", "1")
    assert go(path, out, *few) == go(path, out, *few, "--part", "validation") == 0
    test, validation = store.read(out)
    assert (test["part"], validation["part"]) == ("test", "validation")
    assert validation["rows"] == pytest.approx(0.8 * test["rows"], abs=1)
    assert go(path, out, *few) == 0
    assert len(store.read(out)) == 2


def test_lines_from_before_parts_are_found_again():
    line = dict.fromkeys(KEY)
    assert runner.key(line) == runner.key(line | {"part": "test"}) != runner.key(line | {"part": "validation"})
    assert runner.key(line) == runner.key(line | {"device": ""}) != runner.key(line | {"device": "gpu"})


@pytest.mark.parametrize("by_device", [True, False])
def test_runs_on_a_gpu_are_kept_beside_those_on_a_cpu_where_an_experiment_says_so(small, monkeypatch, by_device):
    path, out = small
    path.write_text(path.read_text().replace("[[cases]]", f"by_device = {str(by_device).lower()}\n[[cases]]"))
    few = ("--data", "diabetes", "--methods", "Combine", "--seeds", "1")
    assert go(path, out, *few) == 0
    monkeypatch.setattr(store, "gpu", lambda device: "A GPU")
    for _ in range(2):  # the second finds both
        assert go(path, out, *few) == 0
    assert [line["device"] for line in store.read(out)] == (["", "gpu"] if by_device else [""])


def test_a_gpu_that_is_not_there_is_an_error_before_anything_runs(small, monkeypatch, capsys):
    monkeypatch.setattr(store, "gpu", lambda device: None)
    path, out = small
    assert runner.main([str(path), "--out", str(out), "--device", "cuda"]) == 3
    assert "--device cuda: torch sees no GPU here" in capsys.readouterr().err
    assert not out.exists()


def test_the_command_datasets_is_the_experiment(monkeypatch):
    given = []
    monkeypatch.setattr(runner, "main", lambda arguments: given.append(arguments) or 0)
    monkeypatch.setattr("sys.argv", ["datasets", "--data", "phishing"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("benchmarks.datasets", run_name="__main__")
    assert given == [["datasets", "--data", "phishing"]]


def test_a_run_goes_on_where_it_stopped_and_loses_the_cell_in_work_alone(small, capsys):
    path, out = small
    assert go(path, out) == 0
    whole = out.read_text()
    assert len(whole.splitlines()) == 2 * 2 * (3 + 1)
    assert go(path, out) == 0
    assert out.read_text() == whole
    capsys.readouterr()
    cut = whole[: -len(whole.splitlines()[-1]) // 2]
    out.write_text(cut)
    assert go(path, out) == 0
    printed = capsys.readouterr().out
    assert "the last line was cut off" in printed
    assert printed.count("->") == 1
    again = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["value"] for line in again] == [json.loads(line)["value"] for line in whole.splitlines()]


def test_a_party_learns_once_a_seed_whoever_is_the_host(small, monkeypatch):
    learnt = []
    plain = Guest.learn
    monkeypatch.setattr(Guest, "learn", lambda self, table: (learnt.append(self.name), plain(self, table))[1])
    path, out = small
    go(path, out, "--data", "diabetes", "--methods", "FedOnce-PCA", "--seeds", "1")
    assert sorted(learnt) == [f"party{j}" for j in range(1, 6)]
    assert len(store.read(out)) == 3


def test_parts_make_the_whole(small):
    path, out = small
    parts = []
    for part in ("1/3", "2/3", "3/3"):
        here = out.with_name(f"{part[0]}.jsonl")
        go(path, here, "--shard", part)
        parts += store.read(here)
    go(path, out)
    names = [runner.key(line) for line in parts]
    assert len(names) == len(set(names))
    assert set(names) == {runner.key(line) for line in store.read(out)}


def test_parts_may_share_a_file(small):
    path, out = small
    for part in ("1/2", "2/2"):
        go(path, out, "--methods", "Combine", "--shard", part)
    assert len(store.read(out)) == 2 * 2  # data sets and seeds


def test_one_run_that_fails_does_not_stop_the_others(small, monkeypatch, capsys):
    plain = Host.aggregate

    def refuse(self, table, label, messages):
        if self.name == "party2":
            raise InputError("no")
        return plain(self, table, label, messages)

    monkeypatch.setattr(Host, "aggregate", refuse)
    path, out = small
    assert go(path, out, "--data", "diabetes", "--seeds", "1") == 1
    assert {line["host"] for line in store.read(out)} == {"party1", "party3"}
    assert "failed. no" in capsys.readouterr().err


def test_missing_data_are_said_and_a_stand_in_taken(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FEDONCE_DATA", str(tmp_path))
    path = tmp_path / "x.toml"
    path.write_text(SMALL.replace('["breast-cancer", "diabetes"]', '"gisette"'))
    assert go(path, tmp_path / "out.jsonl") == 0
    assert "gisette: skipped. Data set 'gisette'" in capsys.readouterr().out
    path.write_text(path.read_text().replace("hosts", 'otherwise = "breast-cancer"\nhosts'))
    assert go(path, tmp_path / "out.jsonl", "--seeds", "1") == 0
    assert "gisette: replaced by breast-cancer" in capsys.readouterr().out
    assert {line["data"] for line in store.read(tmp_path / "out.jsonl")} == {"breast-cancer"}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--data", "diabete"], "--data 'diabete' is not in this experiment; did you mean 'diabetes'"),
        (["--methods", "Solo"], "--methods 'Solo' is not in this experiment"),
        (["--shard", "5/4"], "--shard must be like 1/4"),
        (["--shard", "1/4", "--jobs", "2"], "leave out --shard"),
    ],
)
def test_wrong_options_are_errors(small, more, reason, capsys):
    assert go(*small, *more) == 3
    assert reason in capsys.readouterr().err
    assert not small[1].exists()


@pytest.mark.parametrize("seeds", ["0", "-1", "two"])
def test_a_wrong_number_of_seeds_is_a_usage_error(small, seeds, capsys):
    with pytest.raises(SystemExit, match="2"):
        go(*small, "--seeds", seeds)
    assert "must be a positive integer" in capsys.readouterr().err


def test_jobs_make_the_whole_side_by_side(small):
    path, out = small
    assert go(path, out, "--jobs", "2", "--seeds", "1", "--data", "diabetes") == 0
    assert len(store.read(out)) == 3 + 1  # hosts of FedOnce-PCA, and Combine
