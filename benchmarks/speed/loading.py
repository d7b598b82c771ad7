"""How long loading takes and how much memory it needs: MNIST, and covtype at its full size.

    python -m benchmarks.speed.loading

Where covtype's own file is not there, one of the same size and format is made of the rows that are, repeated. Each data set is
loaded in a process of its own; the peak is that of the whole process, libraries included. Needs FEDONCE_DATA.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import store
from benchmarks.speed.memory import peak
from fedonce.datasets import FETCHERS, SOURCES, data_folder, fetch_covtype, status

RESULTS = store.RESULTS / "loading.json"


def full_covtype(folder: Path) -> None:
    """Write a file of the size and format of the owner's `covtype.data.gz`."""
    part = fetch_covtype(download=False, classes=7)
    table = part.data.astype(int)
    lines = [",".join(map(str, [*row, label])) for row, label in zip(table.tolist(), part.target.tolist(), strict=True)]
    whole = (lines * (SOURCES["covtype"].rows // len(lines) + 1))[: SOURCES["covtype"].rows]
    (folder / "covtype").mkdir()
    with gzip.open(folder / "covtype" / "covtype.data.gz", "wb", compresslevel=1) as file:
        file.write(("\n".join(whole) + "\n").encode())


def measure(name: str, folder: str, verify: bool) -> None:
    """Load one data set and split it; print seconds, rows and the process's peak."""
    started = time.perf_counter()
    data = FETCHERS[name](folder, download=False, verify=verify)
    seconds = time.perf_counter() - started
    data.split(seed=0)
    print(json.dumps({"name": name, "rows": len(data.target), "seconds": round(seconds, 2), "peak": peak()}))


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as made:
        whole = status(SOURCES["covtype"]) == "present"
        if not whole:
            full_covtype(Path(made))
        for name, folder, verify in (
            ("mnist", str(data_folder()), True),
            ("covtype", str(data_folder()) if whole else made, whole),
        ):
            command = [sys.executable, "-m", "benchmarks.speed.loading", name, folder, str(int(verify))]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            rows.append(json.loads(done.stdout))
    for row in rows:
        print(f"{row['name']:8s} {row['rows']:7,} rows  {row['seconds']:.1f} s  peak {row['peak'] / 2**20:.0f} MiB")
    RESULTS.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    measure(sys.argv[1], sys.argv[2], sys.argv[3] == "1") if len(sys.argv) > 1 else main()
