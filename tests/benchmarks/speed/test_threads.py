from __future__ import annotations

import json

import pytest

from benchmarks.speed import threads


@pytest.fixture
def out(tmp_path, monkeypatch):
    path = tmp_path / "threads.json"
    monkeypatch.setattr(threads, "RESULTS", path)
    monkeypatch.setattr(threads, "BUSY", {"alone": []})
    return path


def test_guest_fit_is_the_command_of_a_user(monkeypatch):
    monkeypatch.setattr(threads, "ROWS", 60)
    done = threads.guest_fit()()
    assert done.returncode == 0
    assert done.args[2:5] == ["fedonce.cli", "guest", "fit"]


def test_every_row_is_written_beside_those_that_are_there(out, monkeypatch):
    asked = []
    monkeypatch.setattr(threads, "seconds", lambda work, one_thread: asked.append(work) or (2.0 if one_thread else 3.0))
    for only in ("guest fit,host", "nat, autoencoder,pca"):
        monkeypatch.setattr("sys.argv", ["threads", "--repeat", "1", "--only", only])
        threads.main()
    found = json.loads(out.read_text())["seconds"]
    assert list(found) == ["pca", "nat", "autoencoder", "host", "guest fit"]
    assert found["guest fit"] == {"alone": [3.0, 2.0]}
    assert asked.count("guest fit") == 2


def test_what_was_measured_is_kept_when_a_later_piece_fails(out, monkeypatch):
    def seconds(work, one_thread):
        if work == "nat":
            raise RuntimeError
        return 1.0

    monkeypatch.setattr(threads, "seconds", seconds)
    monkeypatch.setattr("sys.argv", ["threads", "--repeat", "1", "--only", "pca,nat"])
    with pytest.raises(RuntimeError):
        threads.main()
    assert list(json.loads(out.read_text())["seconds"]) == ["pca"]


def test_an_unknown_piece_of_work_is_an_error_that_suggests(monkeypatch):
    monkeypatch.setattr("sys.argv", ["threads", "--only", "guestfit"])
    with pytest.raises(SystemExit, match="did you mean 'guest fit'"):
        threads.main()
