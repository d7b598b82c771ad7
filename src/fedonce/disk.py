"""Files written whole or not at all: to a temporary name beside the target, then renamed."""

from __future__ import annotations

import os
import tempfile
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
    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:50]}.")  # mode 0600
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if not private:
            os.chmod(temporary, 0o666 & ~_umask())
        return Path(temporary).replace(target)
    except BaseException as error:  # an interruption leaves nothing behind, either
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise cannot_write(target, error) from None
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
