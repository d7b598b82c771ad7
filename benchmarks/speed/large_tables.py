"""A guest and a host with a million rows, as commands: seconds and peak memory.

    python -m benchmarks.speed.large_tables [--rows 1000000 --columns 50 --guests 3]

Made-up Parquet tables of float64 with ids; `fedonce guest fit --learner pca --dim 8` of each guest with keyed hashes, then
`fedonce host fit` with all messages. Each command is a process of its own, and the peak is that of the whole process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import store

RESULTS = store.RESULTS / "large_tables.json"
FACTORS = 12  # that the columns of all parties are made of


def write(path: Path, rows: int, columns: int, party: int, label: bool = False) -> None:
    """Write a party's table in an order of its own; columns are mixtures of factors that all parties' rows share."""
    factors = np.random.default_rng(0).standard_normal((rows, FACTORS))
    rng = np.random.default_rng(party)
    order = rng.permutation(rows)
    mix = rng.standard_normal((FACTORS, columns)) * (rng.random((FACTORS, 1)) < 0.5)
    table = {"id": pa.array(order)}
    for j in range(columns):
        table[f"c{j}"] = pa.array(factors[order] @ mix[:, j] + 0.5 * rng.standard_normal(rows))
    if label:
        chance = factors @ np.random.default_rng(99).standard_normal(FACTORS)
        table["label"] = pa.array((chance[order] + rng.standard_normal(rows) > 0).astype(np.int64))
    pq.write_table(pa.table(table), path)


def command(*words: str) -> dict[str, Any]:
    """Run a command; return what it printed as JSON, its seconds and its peak."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "fedonce.cli", *words, "--json", "--quiet"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, words
    unit = 1 if sys.platform == "darwin" else 1024
    return {**json.loads(printed), "seconds": time.perf_counter() - started, "peak": usage.ru_maxrss * unit}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--guests", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder, fits = Path(made), []
        secret = str(folder / "secret")
        subprocess.run([sys.executable, "-m", "fedonce.cli", "keys", "secret", secret], check=True, capture_output=True)
        for party in range(1, given.guests + 1):
            write(folder / "guest.parquet", given.rows, given.columns, party)
            fits.append(
                command(
                    "guest",
                    "fit",
                    str(folder / "guest.parquet"),
                    "--id",
                    "id",
                    "--name",
                    f"g{party}",
                    "--out",
                    str(folder / f"g{party}"),
                    "--learner",
                    "pca",
                    "--dim",
                    "8",
                    "--secret",
                    secret,
                )
            )
            print(
                f"guest fit {party}: {fits[-1]['seconds']:.0f} s, peak {fits[-1]['peak'] / 2**30:.2f} GiB", flush=True
            )
        write(folder / "host.parquet", given.rows, given.columns, 0, label=True)
        messages = [
            word
            for p in range(1, given.guests + 1)
            for word in ("--guest", str(folder / f"g{p}" / "representation.fedonce"))
        ]
        host = command(
            "host",
            "fit",
            str(folder / "host.parquet"),
            "--id",
            "id",
            "--label",
            "label",
            *messages,
            "--secret",
            secret,
            "--out",
            str(folder / "host"),
        )
        print(
            f"host fit: {host['seconds']:.0f} s, peak {host['peak'] / 2**30:.2f} GiB, {host['bytes']:,} bytes received"
        )
    line = {
        "rows": given.rows,
        "columns": given.columns,
        "guests": given.guests,
        "guest_seconds": [fit["seconds"] for fit in fits],
        "guest_peak": max(fit["peak"] for fit in fits),
        "message_bytes": fits[0]["bytes"],
        "host_seconds": host["seconds"],
        "host_peak": host["peak"],
        "bytes": host["bytes"],
        **store.origin("cpu"),
    }
    RESULTS.write_text(json.dumps(line, indent=2) + "\n")


if __name__ == "__main__":
    main()
