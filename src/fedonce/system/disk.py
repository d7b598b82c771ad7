"""Files written whole or not at all, and read only where they are files.

Writing goes to a temporary name beside the target, .NAME.xxxxxxxx.part, which is then renamed. The writer has the temporary file
locked as long as it lives: one that nobody has locked was left by a process that was killed, and the next writer of the same
target removes it.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fedonce.errors import FedOnceError, InputError
from fedonce.system.locks import try_lock

TEXT_LIMIT = 2**24  # bytes of a file of settings
PART = ".part"  # the ending of a file that is being written


def write_file(path: str | Path, data: bytes, private: bool = False) -> Path:
    """Write a file, whole or not at all; `private`: only the owner may read it.

    Raises
    ------
    InputError
        Where it cannot be written (no such folder, no permission, a full disk). What was there before is unchanged.
    """
    target = Path(path)
    try:
        with whole_file(target, private) as temporary:
            temporary.write_bytes(data)
    except OSError as error:
        raise cannot_write(target, error) from None
    return target


def write_pair(kept: Path, kept_data: bytes, shown: Path, shown_data: bytes) -> None:
    """Write two files that belong together, one to keep private and one to show: never one beside another's other half.

    Both are whole before either is in its place. One to show that was there before is removed first: whoever is killed in the
    middle leaves the private one without the other.
    """
    try:
        with whole_file(shown) as new_shown, whole_file(kept, private=True) as new_kept:
            new_shown.write_bytes(shown_data)
            new_kept.write_bytes(kept_data)
            shown.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(shown, error) from None


@contextmanager
def whole_file(path: Path, private: bool = False) -> Iterator[Path]:
    """Give an empty file to write to, which becomes `path` at the end; what fails leaves `path` as it was, and nothing else."""
    clear_left_overs(path)
    temporary, lock = _temporary(path)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        if not private:
            os.chmod(temporary, 0o666 & ~_umask())
        temporary.replace(path)
    except BaseException:  # an interruption leaves nothing behind, either
        temporary.unlink(missing_ok=True)
        raise
    finally:
        if lock is not None:
            os.close(lock)


def _temporary(path: Path) -> tuple[Path, int | None]:
    """Make an empty file beside `path`, of mode 0600, and lock it: the descriptor is the lock.

    Where files cannot be locked there is none: Windows does not rename a file that is open.
    """
    while True:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:50]}.", suffix=PART)
        if try_lock(descriptor) is None:
            os.close(descriptor)
            return Path(name), None
        if os.fstat(descriptor).st_nlink:  # nobody took it for a left-over before it was locked
            return Path(name), descriptor
        os.close(descriptor)


def clear_left_overs(path: Path) -> None:
    """Remove temporary files of `path` that processes left which were killed; not those that are being written."""
    temporary = re.compile(rf"\.{re.escape(path.name[:50])}\.\w{{8}}{re.escape(PART)}")
    with suppress(
        OSError
    ):  # what is left over does no harm; a folder that cannot be read is told of when it is written to
        for name in os.listdir(path.parent):
            if temporary.fullmatch(name):
                remove_abandoned(path.parent / name)


def remove_abandoned(path: Path) -> None:
    """Remove a temporary file, unless it is being written."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        try:
            if try_lock(descriptor):
                path.unlink()
        finally:
            os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Have the names of a folder's files on disk, where the system can: before a name that depends on others."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def open_file(path: str | Path, what: str = "file", error: type[FedOnceError] = InputError) -> BinaryIO:
    """Open a file to read its bytes; refuse a folder, a pipe or a device, which would be waited for, or never end.

    Raises
    ------
    OSError
        Where there is no such file, or it may not be read.
    FedOnceError
        Of the kind `error`, where it is no file.
    """
    check_is_file(path, what, error)  # before it is opened: that alone can disturb whoever writes to a pipe
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise _not_a_file(path, what, found.st_mode, error)
    return os.fdopen(descriptor, "rb")


def read_file(path: str | Path, what: str, limit: int = TEXT_LIMIT) -> bytes:
    """Return the bytes of a file that a person or another party made, if it is one and not too large.

    Raises
    ------
    InputError
        Where it cannot be read, with its name and the reason.
    """
    try:
        with open_file(path, what) as file:
            data = file.read(limit + 1)
    except (OSError, MemoryError) as error:
        raise InputError(f"The {what} {path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if len(data) > limit:
        raise InputError(f"{path} is too large to be a {what}; name the right file.")
    return data


def check_is_file(path: str | Path, what: str = "file", error: type[FedOnceError] = InputError) -> None:
    """Refuse what is there and is no file, before a library opens it by its name; a name that is missing is left to it."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return
    if not stat.S_ISREG(mode):
        raise _not_a_file(path, what, mode, error)


def _not_a_file(path: str | Path, what: str, mode: int, error: type[FedOnceError]) -> FedOnceError:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    kind = kinds.get(stat.S_IFMT(mode), "a device")
    return error(f"The {what} {path} cannot be read: it is {kind}, not a file; name a file, or save it as one first.")


def make_folder(path: str | Path) -> Path:
    """Make a folder, or say why not."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(Path(path), error) from None
    return Path(path)


def cannot_write(path: Path, error: OSError) -> InputError:
    """Return the error that names the file, the reason and the remedy."""
    return InputError(
        f"{path} cannot be written: {error.strerror or error}. Nothing was changed; make room, or name another place, and run "
        "the command again."
    )


def _umask() -> int:
    """Return the process's mask for new files; the system tells it only by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
