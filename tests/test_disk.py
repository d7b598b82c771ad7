from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from fedonce import InputError
from fedonce.disk import make_folder, write_file

# A file may grow to 4096 bytes: writing more fails with a real error, as on a full disk.
FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
from fedonce.disk import write_file
from fedonce.errors import InputError
write_file(sys.argv[1], bytes(4096))
try:
    write_file(sys.argv[1], b"x" * 100_000)
except InputError as error:
    sys.exit(str(error))
"""


@pytest.fixture
def open_mask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "x"
    assert write_file(path, b"first") == path
    write_file(str(path), b"second, and longer")
    assert path.read_bytes() == b"second, and longer"
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.skipif(sys.platform == "win32", reason="has no such limit")
def test_a_full_disk_leaves_what_was_there_and_nothing_else(tmp_path):
    path = tmp_path / "model.bin"
    ended = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"{path} cannot be written: File too large. Nothing was changed; make room")
    assert path.read_bytes() == bytes(4096)
    assert os.listdir(tmp_path) == ["model.bin"]


@pytest.mark.parametrize("step", ["fsync", "chmod"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_or_an_interruption_at_any_step_leaves_nothing_behind(tmp_path, monkeypatch, step, error):
    path = tmp_path / "x"
    write_file(path, b"old")

    def fail(*given):
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(InputError if isinstance(error, OSError) else KeyboardInterrupt):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_private_files_are_their_owners_and_others_follow_the_mask(tmp_path, open_mask):
    assert mode(write_file(tmp_path / "private", b"", private=True)) == 0o600
    assert mode(write_file(tmp_path / "open", b"")) == 0o644
    assert mode(write_file(tmp_path / "open", b"", private=True)) == 0o600  # also where an open one was
    os.umask(0o077)
    assert mode(write_file(tmp_path / "closed", b"")) == 0o600
    assert os.umask(0o022) == 0o077  # the mask is as it was


def test_what_cannot_be_written_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere/x cannot be written: No such file or directory.*name another place"):
        write_file(tmp_path / "nowhere" / "x", b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="folder cannot be written: Is a directory"):
        write_file(tmp_path / "folder", b"")
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.parametrize("name", ["x" * 255, "\N{GRINNING FACE}" * 63])
def test_the_longest_names_can_be_written(tmp_path, name):
    assert write_file(tmp_path / name, b"1").read_bytes() == b"1"


def test_folders(tmp_path):
    assert make_folder(tmp_path / "a" / "b").is_dir()
    assert make_folder(str(tmp_path / "a")) == tmp_path / "a"
    write_file(tmp_path / "file", b"")
    with pytest.raises(InputError, match="file cannot be written: File exists"):
        make_folder(tmp_path / "file")
