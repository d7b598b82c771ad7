"""How long `fedonce demo` takes, from the command to its page: alone, and beside a process that keeps a core busy.

    python -m benchmarks.speed.demo [--repeat 3]

Each time a fresh interpreter; the busy process is ended by its own handle. Wanted are 30 s at most, 45 s beside it, on two cores.
Seconds of processor are printed, too: other programs on the machine do not change them.
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


def seconds() -> tuple[float, float]:
    """Return how long a fresh interpreter takes for the demonstration, and how long it keeps a processor."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    with tempfile.TemporaryDirectory() as folder:
        started, before = time.perf_counter(), os.times()
        subprocess.run(
            [sys.executable, "-m", "fedonce.cli", "demo", "--out", folder, "--quiet"],
            env=environment,
            check=True,
            capture_output=True,
        )
        taken, after = time.perf_counter() - started, os.times()
        processor = sum(getattr(after, name) - getattr(before, name) for name in ("children_user", "children_system"))
        if not (Path(folder) / "report.html").exists():
            raise SystemExit("the demonstration wrote no page")
    return round(taken, 1), round(processor, 1)


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


def measure(repeat: int) -> dict[str, list[tuple[float, float]]]:
    """Return the seconds of every run and those of its processor, alone and beside a busy process."""
    found: dict[str, list[tuple[float, float]]] = {}
    for name in BARS:
        with busy(name != "alone"):
            found[name] = [seconds() for _ in range(repeat)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    found = measure(parser.parse_args().repeat)
    for name, times in found.items():
        taken, processor = (statistics.median(each) for each in zip(*times, strict=True))
        print(
            f"fedonce demo, {name}: {taken:.1f} s, of a processor {processor:.1f} s; at most {BARS[name]:.0f} s wanted"
        )
    about = {"cores": os.cpu_count(), "load": [round(each, 1) for each in os.getloadavg()]}
    RESULT.write_text(json.dumps({**about, "seconds, of a processor": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
