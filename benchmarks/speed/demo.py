"""How long `fedonce demo` takes, from the command to its page: alone, and beside a process that keeps a core busy.

    python -m benchmarks.speed.demo [--repeat 3]

Each time a fresh interpreter; the busy process is ended by its own handle. Wanted are 30 s at most, 45 s beside it, on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "benchmarks" / "results" / "demo.json"
BARS = {"alone": 30.0, "beside a busy process": 45.0}


def seconds() -> float:
    """Return how long a fresh interpreter takes for the demonstration."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "fedonce.cli", "demo", "--out", folder, "--quiet"],
            env=environment,
            check=True,
            capture_output=True,
        )
        taken = time.perf_counter() - started
        if not (Path(folder) / "report.html").exists():
            raise SystemExit("the demonstration wrote no page")
    return taken


@contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """Keep one core busy, where that is wanted."""
    if not wanted:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def measure(repeat: int) -> dict[str, list[float]]:
    """Return the seconds of every run, alone and beside a busy process."""
    found: dict[str, list[float]] = {}
    for name in BARS:
        with busy(name != "alone"):
            found[name] = [round(seconds(), 1) for _ in range(repeat)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    found = measure(parser.parse_args().repeat)
    for name, times in found.items():
        median = statistics.median(times)
        print(f"fedonce demo, {name}: {median:.1f} s ({', '.join(map(str, times))}), at most {BARS[name]:.0f} s wanted")
    RESULT.write_text(
        json.dumps({"cores": os.cpu_count(), "load before": os.getloadavg()[0], **found}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
