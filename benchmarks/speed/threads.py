"""What the number of threads costs: the library as it is over the same with one thread, alone and beside busy programs.

    python -m benchmarks.speed.threads [--repeat 3] [--only "pca,guest fit"]

Each measurement is a process of its own: once as the environment is, once with OMP_NUM_THREADS=1, in turns, and the medians are
compared. *Loops* are as many busy loops as there are cores; *products* is a program that multiplies matrices on all cores. One
guest has phishing's second block of columns: 9,949 rows, 7 columns of few values, d = 3. *guest fit* and *demo* are the commands
as a user runs them, `fedonce guest fit --learner nat` and `fedonce demo`: their start counts, too.
The goal is a ratio of at most 1.2 in every cell but those of the last two lines, images, which are work for all cores.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks import store
from benchmarks.keys import suggest

ROWS, COLUMNS, DIM = 9_949, 7, 3
RESULTS = store.RESULTS / "threads.json"
GOAL = 1.2
CORES = len(os.sched_getaffinity(0))
SHORT = {"pca": 50, "random": 50}  # so often within one measurement, which would else be milliseconds
BUSY = {
    "alone": [],
    "loops": ["while True: pass"] * CORES,
    "products": ["import numpy as n\nx = n.ones((1500, 1500))\nwhile True: x @ x"],
}


def table(columns: int = COLUMNS) -> np.ndarray:
    """Columns of -1, 0 and 1 with something in common, as a guest has of the phishing data."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal((ROWS, 2)) @ rng.standard_normal((2, columns))
    return np.digitize(common + rng.standard_normal((ROWS, columns)), [-1.0, 1.0]).astype(np.float32) - 1


def learn(learner: str) -> Callable[[], object]:
    from fedonce import Guest

    rows = table()
    return lambda: Guest("g", learner, dim=DIM).learn(rows)


def host() -> Callable[[], object]:
    from fedonce import Guest, Host

    rows = table(4 * COLUMNS)
    label = (rows.sum(axis=1) > 0).astype(int)
    parts = np.split(rows, 4, axis=1)
    messages = [Guest(f"g{j}", "pca", dim=DIM).learn(part) for j, part in enumerate(parts[1:])]
    return lambda: Host("h", epochs=20).aggregate(parts[0], label, messages)


def command(*words: str, folder: tempfile.TemporaryDirectory[str]) -> Callable[[], object]:
    """Return a run of a command, each time with another folder to write to."""
    whole = [sys.executable, "-m", "fedonce.cli", *words, "--quiet", "--out"]
    return lambda: subprocess.run(
        [*whole, f"out{time.time_ns()}"], cwd=folder.name, check=True, capture_output=True, stdin=subprocess.DEVNULL
    )


def guest_fit() -> Callable[[], object]:
    folder = tempfile.TemporaryDirectory()
    head = ",".join(["id", *(f"c{j}" for j in range(COLUMNS))])
    rows = (f"{i},{','.join(map(str, row))}" for i, row in enumerate(table()))
    Path(folder.name, "g.csv").write_text("\n".join([head, *rows]))
    words = ["guest", "fit", "g.csv", "--id", "id", "--unkeyed-ids", "--name", "g", "--learner", "nat", "--dim"]
    return command(*words, str(DIM), folder=folder)


def demo() -> Callable[[], object]:
    return command("demo", folder=tempfile.TemporaryDirectory())


def patches() -> Callable[[], object]:
    import torch

    from fedonce.learners import Patches

    rows = np.random.default_rng(0).random((300, 1, 14, 14), dtype=np.float32)
    return lambda: Patches().fit(rows, 16, np.random.default_rng(0), torch.device("cpu"))


def images() -> Callable[[], object]:
    import torch

    from fedonce.learners import Autoencoder

    rows = np.random.default_rng(0).random((3000, 1, 14, 14), dtype=np.float32)
    return lambda: Autoencoder(epochs=1).fit(rows, 16, np.random.default_rng(0), torch.device("cpu"))


WORK: dict[str, Callable[[], Callable[[], object]]] = {
    **{name: lambda name=name: learn(name) for name in ("pca", "nat", "autoencoder", "random", "auto")},  # type: ignore[misc]
    "host": host,
    "guest fit": guest_fit,
    "demo": demo,
    "patches": patches,
    "images": images,
}
FOR_ALL_CORES = ("patches", "images")


def seconds(work: str, one_thread: bool) -> float:
    """Return how long a piece of work takes in a process of its own, without its start."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    environment |= {"OMP_NUM_THREADS": "1"} if one_thread else {}
    command = [sys.executable, "-m", "benchmarks.speed.threads", "--measure", work]
    return float(
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()[-1]
    )


def measure(work: str) -> float:
    warnings.simplefilter("ignore")
    do = WORK[work]()
    if work in SHORT:
        do()  # what is loaded at the first call is not what is asked about
    started = time.perf_counter()
    for _ in range(SHORT.get(work, 1)):
        do()
    return time.perf_counter() - started


@contextlib.contextmanager
def beside(programs: list[str]) -> Iterator[None]:
    """Let programs run beside, and end them."""
    running = [subprocess.Popen([sys.executable, "-c", program]) for program in programs]
    try:
        time.sleep(1.0 if running else 0.0)
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def wanted(names: str) -> list[str]:
    """Return the pieces of work that are asked for; an unknown one is a usage error."""
    chosen = [name.strip() for name in names.split(",")]
    for name in chosen:
        if name not in WORK:
            raise SystemExit(f"--only: unknown {name!r}; {suggest(name, list(WORK))}")
    return chosen


def compared(work: str, repeat: int) -> dict[str, list[float]]:
    """Return the medians as it is and with one thread, alone and beside each kind of busy programs."""
    found = {}
    for name, programs in BUSY.items():
        with beside(programs):
            turns = [(seconds(work, False), seconds(work, True)) for _ in range(repeat)]
        found[name] = [statistics.median(each) for each in zip(*turns, strict=True)]
    return found


def stored() -> dict[str, dict[str, list[float]]]:
    """Return what was measured so far, in the order of `WORK`."""
    found = json.loads(RESULTS.read_text())["seconds"] if RESULTS.exists() else {}
    return {work: found[work] for work in WORK if work in found}


def keep(work: str, cells: dict[str, list[float]]) -> None:
    """Write a piece of work's figures as soon as they are there, beside those of the others."""
    found = stored() | {work: cells}
    whole = {"cores": CORES, "seconds": {name: found[name] for name in WORK if name in found}}
    RESULTS.write_text(json.dumps(whole, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default=",".join(WORK))
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(measure(given.measure))
        return
    chosen = wanted(given.only)
    print(f"{'seconds: as it is / one thread = ratio':40}" + "".join(f"{name:>26}" for name in BUSY))
    for work in chosen:
        cells = compared(work, given.repeat)
        told = (f"{f'{ours:.2f} / {one:.2f} = {ours / one:.2f}':>26}" for ours, one in cells.values())
        print(f"{work:40}" + "".join(told), flush=True)
        keep(work, cells)
    found = stored()
    small = [cells for work, cells in found.items() if work not in FOR_ALL_CORES]
    worst = max((ours / one for cells in small for ours, one in cells.values()), default=0.0)
    print(f"worst ratio: {worst:.2f} (goal: at most {GOAL})")


if __name__ == "__main__":
    main()
