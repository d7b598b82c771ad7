"""Which library reads a table best: pyarrow, polars or duckdb, and fedonce's own reader, which is pyarrow in chunks.

    python -m benchmarks.speed.table_readers [--rows 1000000] [--columns 50]

Each reads the same CSV and the same Parquet file of random float64 into an array of numpy a column, in a process of its own; the
peak is the whole process's, libraries and arrays included; the time is that of reading, without the imports.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import store
from benchmarks.speed.memory import peak

RESULTS = store.RESULTS / "table_readers.json"
MODULES = {
    "fedonce": ["fedonce.data.files"],
    "pyarrow": ["pyarrow.csv", "pyarrow.parquet"],
    "polars": ["polars"],
    "duckdb": ["duckdb"],
}


def write(path: Path, rows: int, columns: int) -> None:
    """Write the file that all read."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    rng = np.random.default_rng(0)
    table = pa.table({f"c{j}": rng.standard_normal(rows) for j in range(columns)})
    (pyarrow.csv.write_csv if path.suffix == ".csv" else pyarrow.parquet.write_table)(table, path)


def read(library: str, path: Path) -> list[Any]:
    """Return the file's columns as arrays."""
    if library == "fedonce":
        from fedonce import read_table

        return list(read_table(path).columns)
    if library == "pyarrow":
        import pyarrow.csv
        import pyarrow.parquet

        table = (pyarrow.csv.read_csv if path.suffix == ".csv" else pyarrow.parquet.read_table)(path)
        return [column.to_numpy() for column in table.columns]
    if library == "polars":
        import polars as pl

        frame = (pl.read_csv if path.suffix == ".csv" else pl.read_parquet)(path)
        return [column.to_numpy() for column in frame.get_columns()]
    import duckdb

    reader = "read_csv" if path.suffix == ".csv" else "read_parquet"
    return list(duckdb.sql(f"select * from {reader}('{path}')").fetchnumpy().values())


def measure(library: str, path: Path) -> None:
    """Read once, and print time and peak."""
    for module in MODULES[library]:  # before the clock starts
        import_module(module)
    start = time.perf_counter()
    columns = read(library, path)
    seconds, total = time.perf_counter() - start, sum(float(column.sum()) for column in columns)
    shape = [len(columns[0]), len(columns)]
    print(json.dumps({"seconds": seconds, "peak": peak(), "shape": shape, "sum": round(total, 3)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--measure", nargs=2, metavar=("LIBRARY", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        return measure(given.measure[0], Path(given.measure[1]))
    print(f"{given.rows:,} rows x {given.columns} columns float64 ({8 * given.rows * given.columns / 2**20:.0f} MiB)")
    print(f"{'file':8s} {'library':16s} {'seconds':>8s} {'peak MiB':>9s}")
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for ending in ("csv", "parquet"):
            path = Path(folder) / f"table.{ending}"
            write(path, given.rows, given.columns)
            found += [report(library, path) for library in MODULES]
            sums = {row["sum"] for row in found if row["file"] == ending}
            if len(sums) != 1:
                raise SystemExit(f"The libraries read different numbers: {sums}")
            path.unlink()
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    return None


def report(library: str, path: Path) -> dict[str, Any]:
    """Measure a library in a process of its own, print a line, and return what was found."""
    command = [sys.executable, "-m", "benchmarks.speed.table_readers", "--measure", library, str(path)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    name = library if library == "fedonce" else f"{library} {version(library)}"
    print(f"{path.suffix[1:]:8s} {name:16s} {found['seconds']:8.2f} {found['peak'] / 2**20:9.0f}", flush=True)
    return {"file": path.suffix[1:], "library": name, **found}


if __name__ == "__main__":
    main()
