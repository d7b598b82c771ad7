"""Results as JSON lines: one a run, appended when the run is done, never changed."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import subprocess
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

from fedonce import InputError, __version__

RESULTS = Path(__file__).parent / "results"
HALF = ", bfloat16"  # behind the name of a machine that trained in numbers of half the length


def read(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file. A last line that was cut off is dropped, and the file is mended, with a word about it."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # another process may be in the middle of a line
        data = file.read()
    found = []
    *whole, last = data.split(b"\n")
    for number, line in enumerate(whole, 1):
        try:
            found.append(json.loads(line))
        except ValueError:
            raise InputError(f"{path}: line {number} is not JSON; remove it, and run again what it was.") from None
    if last:
        print(f"{path}: the last line was cut off and is dropped; its run is made again", flush=True)
        with path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(len(data) - len(last))
    return found


def append(path: Path, line: dict[str, Any]) -> None:
    """Add a line; several processes may share the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(line).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


@cache
def origin(device: str) -> dict[str, Any]:
    """Return what results were measured with."""
    commit, changed = (
        subprocess.run(
            ["git", *command], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
        ).stdout.strip()
        for command in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "--", "../src", "*.py"])
    )
    return {
        "version": __version__,
        "commit": (commit or None) and commit + ("+changes" if changed else ""),
        "machine": gpu(device) or _cpu() + (HALF if mixed() else ""),
    }


def mixed_precision(wanted: bool) -> AbstractContextManager[Any]:
    """Let networks be trained on a CPU in numbers of half the length; what is summed or kept stays as it is."""
    import torch

    # Without its cache: that would go on with the weights of before a step.
    return torch.autocast("cpu", torch.bfloat16, enabled=wanted, cache_enabled=False)


def mixed() -> bool:
    """Tell whether they are."""
    import torch

    return torch.is_autocast_enabled("cpu")


@cache
def gpu(device: str) -> str | None:
    """Return the name of the GPU that is used where a run is given this device; None: it runs on a CPU."""
    import torch  # here: who reads results alone need not wait for it

    return torch.cuda.get_device_name() if device != "cpu" and torch.cuda.is_available() else None


def _cpu() -> str:
    """Return the processor's name, where the system tells it."""
    path = Path("/proc/cpuinfo")
    names = [line for line in path.read_text().splitlines() if line.startswith("model name")] if path.exists() else []
    return names[0].partition(":")[2].strip() if names else platform.processor() or platform.machine()
