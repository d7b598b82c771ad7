from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from fedonce import InputError, MessageError
from fedonce.system import locks
from fedonce.system.disk import check_is_file, make_folder, open_file, whole_file, write_file, write_pair

# A file may grow to 4096 bytes: writing more fails with a real error, as on a full disk.
FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
from fedonce.system.disk import write_file
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


def test_files_of_killed_writings_are_cleared_and_others_stay(tmp_path):
    for name in (".x.abcd1234.part", ".x.abcd1234", ".y.abcd1234.part", ".x.abcd12345.part", "x.part"):
        (tmp_path / name).write_bytes(b"left")
    with whole_file(tmp_path / "x") as at_work:
        at_work.write_bytes(b"first")
        write_file(tmp_path / "x", b"second")
        assert at_work.exists()  # it is being written
        assert not (tmp_path / ".x.abcd1234.part").exists()
    assert (tmp_path / "x").read_bytes() == b"first"
    assert sorted(os.listdir(tmp_path)) == [".x.abcd1234", ".x.abcd12345.part", ".y.abcd1234.part", "x", "x.part"]


def test_a_pair_is_never_of_two_times(tmp_path, monkeypatch):
    kept, shown = tmp_path / "kept", tmp_path / "shown"
    write_pair(kept, b"1", shown, b"1")
    assert (mode(kept), shown.read_bytes()) == (0o600, b"1")
    replaced, os_replace = [], os.replace

    def fail(source, target):
        replaced.append(target)
        if len(replaced) == 2:
            raise OSError(5, "Input/output error")
        os_replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(InputError, match="shown cannot be written: Input/output error"):
        write_pair(kept, b"2", shown, b"2")
    assert kept.read_bytes() == b"2"
    assert os.listdir(tmp_path) == ["kept"]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="shows which files are open on Linux alone")
def test_where_nothing_is_locked_a_file_is_closed_before_it_is_renamed(tmp_path, monkeypatch):
    """As on Windows: no fcntl, and a file that is open cannot be renamed."""
    renamed, replace = [], os.replace

    def refuse_open_files(source, target):
        held = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
        if os.path.realpath(source) in held:
            raise PermissionError(13, "The process cannot access the file because it is being used by another process")
        renamed.append(os.path.basename(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse_open_files)
    with pytest.raises(InputError, match="being used by another process"):
        write_file(tmp_path / "locked", b"1")
    monkeypatch.setattr(locks, "fcntl", None)
    write_file(tmp_path / "x", b"1")
    write_file(tmp_path / "x", b"2", private=True)
    write_pair(tmp_path / "kept", b"k", tmp_path / "shown", b"s")
    assert renamed == ["x", "x", "kept", "shown"]
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == {
        "x": b"2",
        "kept": b"k",
        "shown": b"s",
    }


def things(folder):
    """What is no file: a folder, a pipe, a device."""
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    return {folder / "folder": "a folder", folder / "pipe": "a pipe", "/dev/zero": "a device", "/dev/stdin": None}


@pytest.mark.skipif(os.name != "posix", reason="has no pipes with names")
def test_only_files_are_opened(tmp_path):
    for path, kind in things(tmp_path).items():
        for act in (open_file, check_is_file):
            with pytest.raises(MessageError, match=f"The message {path} cannot be read: it is {kind or 'a '}"):
                act(path, "message", MessageError)
    write_file(tmp_path / "x", b"1")
    (tmp_path / "link").symlink_to(tmp_path / "x")
    with open_file(tmp_path / "link") as file:
        assert file.read() == b"1"
    with pytest.raises(FileNotFoundError):
        open_file(tmp_path / "nothing")
    check_is_file(tmp_path / "nothing")
