"""How long attacks take: `fedonce leakage` on 100,000 rows of 20 columns, and what the quick set adds to `guest fit`.

    python -m benchmarks.speed.leakage [--rows 100000]

Commands as users run them, each in a process of its own with two threads; seconds of the whole process, start included.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from benchmarks import store

RESULTS = store.RESULTS / "leakage_speed.json"
COMMAND = (sys.executable, "-m", "fedonce.cli")


def table(rows: int) -> pa.Table:
    """Return twelve numbers, four yes/no columns and four categories that hang together, and ids."""
    rng = np.random.default_rng(0)
    traits = rng.standard_normal((rows, 4))
    numbers = traits @ rng.standard_normal((4, 12)) + rng.standard_normal((rows, 12))
    columns = {"id": np.arange(rows)}
    columns |= {f"number_{j}": np.round(numbers[:, j], 4) for j in range(12)}
    columns |= {f"flag_{j}": traits[:, j] + rng.standard_normal(rows) > 0.5 for j in range(4)}
    kinds = np.array(["red", "green", "blue", "black", "white"])
    codes = np.clip(np.rint(2 + traits + rng.standard_normal((rows, 4))), 0, 4).astype(int)
    columns |= {f"kind_{j}": kinds[codes[:, j]] for j in range(4)}
    return pa.table(columns)


def seconds(folder: Path, *arguments: str) -> dict[str, float]:
    """Run a command of fedonce in a folder; return how long it took, and how long on a processor."""
    started, before = time.perf_counter(), _cpu()
    limits = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "2")
    subprocess.run([*COMMAND, *arguments], check=True, cwd=folder, env=os.environ | limits, stdout=subprocess.DEVNULL)
    return {"seconds": time.perf_counter() - started, "cpu": _cpu() - before}


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _told(took: dict[str, float]) -> str:
    return f"{took['seconds']:.1f} s ({took['cpu']:.1f} s of CPU)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        csv.write_csv(table(rows), folder / "shop.csv")
        subprocess.run([*COMMAND, "keys", "secret", "secret"], check=True, cwd=folder, stdout=subprocess.DEVNULL)
        named = ("--id", "id", "--secret", "secret")
        fit = ("guest", "fit", "shop.csv", *named, "--name", "shop")
        found: dict[str, Any] = {
            "rows": rows,
            "columns": 20,
            "fit_without": seconds(folder, *fit, "--out", "plain", "--no-attack"),
            "fit_with": seconds(folder, *fit, "--out", "shop"),
            "leakage": seconds(folder, "leakage", "shop/representation.fedonce", "--table", "shop.csv", *named),
        }
    print(
        f"{rows:,} rows x 20 columns: fedonce leakage {_told(found['leakage'])}; guest fit {_told(found['fit_without'])} without "
        f"attacks, {_told(found['fit_with'])} with the quick set"
    )
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
