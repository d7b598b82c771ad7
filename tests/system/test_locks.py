from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from fedonce.system import locks
from fedonce.system.locks import hold, if_free, only_one, try_lock

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing is locked there")

HOLD = """
import sys
from pathlib import Path
from fedonce.system.locks import only_one
with only_one(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_one_thread_at_a_time_has_a_folder(tmp_path):
    inside, most = [], []

    def work():
        for _ in range(20):
            with only_one(tmp_path):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 80
    assert set(most) == {1}


def test_a_process_waits_and_says_for_whom_and_a_killed_one_holds_nothing(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdin=-1, stdout=-1) as other:
        assert other.stdout.readline() == b"held\n"
        with if_free(tmp_path) as free:
            assert not free
        told = []

        def tell(line):
            told.append(line)
            other.kill()

        with only_one(tmp_path, tell):
            assert os.listdir(tmp_path) == []  # the lock is no file
    (line,) = told
    assert line.startswith("waiting for ")
    assert line.endswith(f", which has {tmp_path} to itself")
    if os.path.exists("/proc/locks"):
        assert f"process {other.pid}" in line


def test_whoever_has_a_folder_has_it(tmp_path):
    with only_one(tmp_path), only_one(tmp_path, pytest.fail), if_free(tmp_path) as free:
        assert free
    with if_free(tmp_path) as free:
        assert free


def test_a_folder_that_was_taken_away_meanwhile_is_made_again(tmp_path):
    folder, waits, had = tmp_path / "model", threading.Event(), []

    def second():
        with only_one(folder, lambda _: waits.set()):
            had.append(folder.is_dir())

    waiting = threading.Thread(target=second)
    with only_one(folder):
        waiting.start()
        assert waits.wait(30)
        folder.rmdir()
    waiting.join()
    assert had == [True]


def test_an_error_gives_the_folder_back(tmp_path):
    with pytest.raises(RuntimeError), only_one(tmp_path):
        raise RuntimeError
    descriptor = os.open(tmp_path, os.O_RDONLY)
    assert try_lock(descriptor)
    os.close(descriptor)


def test_a_file_is_held_by_one_at_a_time(tmp_path):
    inside, most = [], []

    def work():
        for _ in range(20):
            with hold(tmp_path / "lock"):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 80
    assert set(most) == {1}


def test_who_waits_for_a_file_may_give_up(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "PAUSE", 0.001)
    tries = []

    def waiting():
        tries.append(1)
        if len(tries) == 3:
            raise KeyboardInterrupt

    with hold(tmp_path / "lock"), pytest.raises(KeyboardInterrupt), hold(tmp_path / "lock", waiting):
        pass
    assert len(tries) == 3
    with hold(tmp_path / "lock", waiting):  # it was given back
        assert len(tries) == 3


def test_what_needs_a_lock_is_not_done_where_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "try_lock", lambda descriptor: None)
    with pytest.raises(OSError, match="cannot be locked"), hold(tmp_path / "lock"):
        pytest.fail("it must not come to this")


def test_where_there_is_no_flock_nothing_is_locked_and_folders_are_not_opened(tmp_path, monkeypatch):
    """As on Windows: no fcntl, and `os.open` refuses folders."""
    monkeypatch.setattr(locks, "fcntl", None)
    monkeypatch.setattr(os, "open", lambda *given: pytest.fail("Windows does not open a folder"))
    with only_one(tmp_path / "model", pytest.fail), only_one(tmp_path / "model"), if_free(tmp_path / "model") as free:
        assert free
        assert (tmp_path / "model").is_dir()
    with pytest.raises(OSError, match="cannot be locked"), hold(tmp_path / "lock"):
        pytest.fail("two who count must not both do so")
