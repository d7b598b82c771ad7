"""What is installed and what this machine has: whether fedonce can work here, and with which of its optional parts.

What it needs is read from the package's own metadata, so that no second list can go stale. Packages that it cannot do without are
imported, as some break only then: a library of the system that LightGBM needs may be missing.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedonce.system.sizes import in_words, machine_memory

OK, MISSING, BROKEN = "ok", "missing", "broken"
# Where a package is imported by another name than it is installed by.
IMPORTED = {
    "scikit-learn": "sklearn",
    "pynacl": "nacl",
    "openmined-psi": "private_set_intersection",
    "dp-accounting": "dp_accounting",
}
FOR_USERS = ("report", "privacy", "psi", "crypto", "skops", "onnx", "nvflare", "xgboost")  # extras that bring a feature


@dataclass(frozen=True)
class Fact:
    """One thing that was looked at: its name, how it is (for the machine nothing), and a note."""

    name: str
    state: str
    note: str


@dataclass(frozen=True)
class Checkup:
    """All that was looked at."""

    required: tuple[Fact, ...]
    optional: tuple[Fact, ...]
    machine: tuple[Fact, ...]

    @property
    def ok(self) -> bool:
        """Whether all is there that fedonce cannot do without."""
        return all(each.state == OK for each in self.required)

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        found = {name: [asdict(each) for each in getattr(self, name)] for name in ("required", "optional", "machine")}
        return {"ok": self.ok, **found}


def checkup(data_folder: Path) -> Checkup:
    """Look at packages and the machine; `data_folder` is where data sets are looked for."""
    needed = _requirements()
    python = Fact("Python", OK, platform.python_version())
    own = Fact("fedonce", OK, _version("fedonce") or "from a folder, not installed")
    required = (own, python, *map(_required, needed.get("", [])))
    optional = tuple(_extra(name, needed[name]) for name in FOR_USERS if name in needed)
    return Checkup(required, optional, tuple(_machine(data_folder)))


def _requirements() -> dict[str, list[str]]:
    """Return the packages that are needed by extra; those that are always needed by ''."""
    found: dict[str, list[str]] = {}
    with suppress(metadata.PackageNotFoundError):
        for line in metadata.requires("fedonce") or []:
            package = re.match(r"[\w.-]+", line)
            extra = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", line)
            if package is not None and package[0].lower() != "fedonce":
                found.setdefault(extra[1] if extra else "", []).append(package[0])
    return found


def _module(package: str) -> str:
    return IMPORTED.get(package.lower(), package.lower().replace("-", "_"))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _required(package: str) -> Fact:
    try:
        import_module(_module(package))
    except ModuleNotFoundError as error:
        if error.name == _module(package):
            return Fact(package, MISSING, f"pip install '{package}'")
        return Fact(package, BROKEN, f"it lacks {error.name}; install {package} again")
    except Exception as error:  # of a broken package anything may come
        return Fact(package, BROKEN, f"importing it fails: {type(error).__name__}: {_short(error)}")
    return Fact(package, OK, _version(package) or "")


def _extra(extra: str, packages: list[str]) -> Fact:
    """Tell whether all packages of an extra are there, without importing them: some take seconds."""
    lacking = [each for each in packages if find_spec(_module(each)) is None]
    if lacking:
        return Fact(extra, MISSING, f"pip install 'fedonce[{extra}]'   (lacks {', '.join(lacking)})")
    return Fact(extra, OK, ", ".join(f"{each} {_version(each) or ''}".strip() for each in packages))


def _machine(data_folder: Path) -> Iterator[Fact]:
    yield Fact("system", "", platform.platform())
    yield Fact("cores", "", _cores())
    yield Fact("GPU", "", _gpu())
    yield Fact("memory", "", _memory())
    here = shutil.disk_usage(Path.cwd())
    yield Fact("disk here", "", f"{in_words(here.free)} free of {in_words(here.total)}")
    yield Fact("data folder", "", f"{data_folder}{'' if data_folder.is_dir() else ' (not there yet)'}")


def _cores() -> str:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    text = f"{usable} of {os.cpu_count()}"
    with suppress(Exception):  # told above
        text += f"; torch uses {import_module('torch').get_num_threads()} threads for large arithmetic"
    named = {name: os.environ[name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name in os.environ}
    return text + "".join(f"; {name}={value}" for name, value in named.items())


def _gpu() -> str:
    try:
        cuda = import_module("torch").cuda
        names = [cuda.get_device_name(each) for each in range(cuda.device_count())] if cuda.is_available() else []
    except Exception as error:  # a driver may fail in any way
        return f"none that torch can use ({type(error).__name__})"
    return ", ".join(names) or "none that torch can use; everything runs on the CPU"


def _memory() -> str:
    total, free = machine_memory(), None
    with suppress(OSError, ValueError, IndexError):  # Linux alone says so in a file
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    return in_words(total) if free is None else f"{in_words(min(free, total))} free of {in_words(total)}"


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
