"""Files written whole or not at all: to a temporary name beside the target, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedonce.errors import InputError


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


@contextmanager
def whole_file(path: Path, private: bool = False) -> Iterator[Path]:
    """Give an empty file to write to, which becomes `path` at the end; what fails leaves `path` as it was, and nothing else."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:50]}.")  # mode 0600
    os.close(descriptor)
    temporary = Path(name)
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
