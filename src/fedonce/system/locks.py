"""One at a time: locks that the system gives back when their holder ends, however it ends.

A lock is `flock` of an open file or folder. It needs no file of its own, nothing is left behind by a process that is killed, and
two threads exclude each other as two processes do. Where there is no `flock` (Windows, some network file systems), nothing
is locked, and what `hold` guards is not done: two commands that change the same model at once are then the user's to avoid.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, which does not open folders as files, either
    fcntl = None  # type: ignore[assignment]

Tell = Callable[[str], None]
PAUSE = 0.5  # seconds between two tries for a file that somebody else holds
_ours: ContextVar[frozenset[tuple[int, int]]] = ContextVar("locks", default=frozenset())


def try_lock(descriptor: int) -> bool | None:
    """Lock an open file for oneself, without waiting: whether that worked; None where files cannot be locked."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextmanager
def only_one(folder: Path, tell: Tell = lambda line: None) -> Iterator[None]:
    """Have a folder to oneself, which is made where it is missing; wait while somebody else has it, and tell for whom.

    Whoever has it already, further up, has it. Raises OSError where the folder cannot be made or opened.
    """
    if fcntl is None:
        folder.mkdir(mode=0o700, exist_ok=True)
    if fcntl is None or _is_ours(folder):
        yield
        return
    descriptor = _locked(folder, tell)
    token = _ours.set(_ours.get() | {_identity(os.fstat(descriptor))})
    try:
        yield
    finally:
        _ours.reset(token)
        os.close(descriptor)


@contextmanager
def if_free(folder: Path) -> Iterator[bool]:
    """Have a folder to oneself if nobody else has it; tell whether it is so."""
    if fcntl is None or _is_ours(folder):
        yield True
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield try_lock(descriptor) is not False
    finally:
        os.close(descriptor)


@contextmanager
def hold(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a file, which is made where it is missing; wait while somebody else does.

    `waiting` is called at every try that fails, and may raise to end the waiting. Raises OSError where files cannot be locked:
    two who count must not both do so.
    """
    while True:
        with path.open("w", encoding="utf-8") as file:
            _hold(file.fileno(), path, waiting)
            if not _is_at(
                file.fileno(), path
            ):  # somebody took it away or put another in its place: whoever comes next has that
                continue
            yield
            return


def _hold(descriptor: int, path: Path, waiting: Callable[[], None] | None) -> None:
    while not (taken := try_lock(descriptor)):
        if taken is None:
            raise OSError(f"{path} cannot be locked; keep it on a file system that has locks (flock).")
        if waiting is None:
            _wait(descriptor, path, lambda line: None)
            return
        waiting()
        time.sleep(PAUSE)


def _is_at(descriptor: int, path: Path) -> bool:
    """Tell whether an open file is the one at a path."""
    try:
        return _identity(os.fstat(descriptor)) == _identity(os.stat(path))
    except FileNotFoundError:
        return False


def _locked(folder: Path, tell: Tell) -> int:
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # whoever had it took it away again
            continue
        try:
            _wait(descriptor, folder, tell)
            if _is_at(descriptor, folder):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _wait(descriptor: int, folder: Path, tell: Tell) -> None:
    if try_lock(descriptor) is False:
        tell(f"waiting for {_holder(descriptor)}, which has {folder} to itself")
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _holder(descriptor: int) -> str:
    """Return who has the lock, where the system tells (Linux)."""
    inode = str(os.fstat(descriptor).st_ino)
    with suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text(encoding="utf-8").splitlines():
            words = line.split()
            if "FLOCK" in words and "->" not in words and words[5].rpartition(":")[2] == inode and int(words[4]) > 0:
                return f"process {words[4]}"
    return "another process"


def _is_ours(folder: Path) -> bool:
    try:
        return _identity(os.stat(folder)) in _ours.get()
    except OSError:
        return False


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
