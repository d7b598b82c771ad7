"""How long an installation takes by pip and by uv, and how much room: from nothing, then with what the first one kept.

    python -m benchmarks.speed.installing [--extras report] [--find-links FOLDER]

Each time into a new environment in a temporary folder, with constraints.txt. It needs uv, a package index and 4 GB of disk.
torch is what the index gives: on Linux set PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu and UV_TORCH_BACKEND=cpu,
or name a folder with the wheel of its CPU build.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "benchmarks" / "results" / "installing.json"


def size(folder: Path) -> int:
    """Return the bytes of the files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def install(tool: str, folder: Path, cache: Path, package: str, links: list[str]) -> dict[str, float]:
    """Install into a new environment; return seconds and megabytes."""
    where = folder / "environment"
    shutil.rmtree(where, ignore_errors=True)
    given = ["--quiet", "--constraint", str(ROOT / "constraints.txt"), "--cache-dir", str(cache), *links, package]
    started = time.perf_counter()
    if tool == "uv":
        subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, str(where)], check=True)
        subprocess.run(["uv", "pip", "install", "--python", str(where), *given], check=True)
    else:
        subprocess.run([sys.executable, "-m", "venv", str(where)], check=True)
        program = where / ("Scripts" if os.name == "nt" else "bin") / "python"
        subprocess.run([str(program), "-m", "pip", "install", *given], check=True, stderr=subprocess.DEVNULL)
    return {"seconds": time.perf_counter() - started, "megabytes": size(where) / 1e6}


def main() -> None:
    """Measure, print, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", default="report")
    parser.add_argument("--find-links")
    arguments = parser.parse_args()
    if shutil.which("uv") is None:
        raise SystemExit("uv is not installed: pip install uv")
    links = ["--find-links", arguments.find_links] if arguments.find_links else []
    package = f"{ROOT}[{arguments.extras}]"
    result: dict[str, object] = {"cores": os.cpu_count(), "extras": arguments.extras}
    for tool in ("pip", "uv"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for turn in ("first", "again"):
                result[f"{tool}, {turn}"] = install(tool, folder, folder / "cache", package, links)
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
