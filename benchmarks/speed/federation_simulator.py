"""Many guests in one job of FLARE's simulator: whether all answer, and whether bytes grow as the number of guests.

    python -m benchmarks.speed.federation_simulator [--guests 50,100,200 --rows 500 --threads 4]

Every guest has a table of its own and learns by PCA (4 of 6 columns, 8 bits). The simulator is FLARE's: one process plays the
server, and a process of its own plays each guest's part. The guests' code is the one that a federation runs.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fedonce
from benchmarks import store
from fedonce import Representation
from fedonce.federation.answer import KITS
from fedonce.federation.flare.jobs import ANSWERS, write_job
from fedonce.federation.policy import DEFAULT_POLICY
from fedonce.federation.request import Request
from fedonce.federation.tables import GuestTables

RESULTS = store.RESULTS / "federation_simulator.json"
SILENCE = 3600.0  # a guest of the simulator waits for its turn


def write_guests(folder: Path, names: list[str], rows: int) -> None:
    """Write a kit with a table for each guest; of certificates the simulator has no need."""
    for number, name in enumerate(names):
        kit = folder / name
        kit.mkdir(parents=True)
        rng = np.random.default_rng(number)
        columns = {f"c{j}": rng.standard_normal(rows) for j in range(6)}
        pq.write_table(pa.table({"id": [f"k{i}" for i in rng.permutation(rows)], **columns}), kit / "table.parquet")
        GuestTables(kit / "table.parquet", "id").to_file(kit / "guest.toml")
        (kit / "policy.toml").write_text(DEFAULT_POLICY)


def simulate(guests: int, rows: int, threads: int) -> dict[str, Any]:
    """Run one job with so many guests; return bytes and seconds."""
    from nvflare.private.fed.app.simulator.simulator_runner import SimulatorRunner

    names = [f"guest-{i:03d}" for i in range(guests)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_guests(folder / "kits", names, rows)
        os.environ[KITS] = str(folder / "kits")
        asked = {name: Request("bank", name, "many", "learn", fedonce.__version__, "pca", dim=4) for name in names}
        job = write_job(folder / "job", "many", {name: each.to_bytes() for name, each in asked.items()}, SILENCE)
        workspace = folder / "workspace"
        (workspace / "local").mkdir(parents=True)
        rules = {"format_version": 2, "class_allow_list": ["fedonce.federation."], "allow_log_streaming": False}
        (workspace / "local" / "resources.json").write_text(json.dumps(rules))
        started = time.perf_counter()
        code = SimulatorRunner(
            str(job), str(workspace), clients=",".join(names), n_clients=guests, threads=threads, max_clients=1000
        ).run()
        seconds = time.perf_counter() - started
        answers = next(workspace.rglob(ANSWERS))
        found = [Representation.from_bytes(path.read_bytes()) for path in sorted(answers.glob("*.fedonce"))]
        told = [json.loads(path.read_text()) for path in answers.glob("*.json")]
    return {
        "guests": guests,
        "rows": rows,
        "exit": code,
        "answered": len(found),
        "payload_bytes": sum(each.payload_bytes for each in found),
        "bytes": sum(each.nbytes for each in found),
        "wire_bytes": sum(each.get("wire") or 0 for each in told),
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--guests", default="50,100,200")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--threads", type=int, default=4)
    options = parser.parse_args()
    runs = [simulate(int(guests), options.rows, options.threads) for guests in options.guests.split(",")]
    print("guests  answered  payload bytes  message bytes  wire bytes  per guest  seconds")
    for run in runs:
        print(
            f"{run['guests']:6}  {run['answered']:8}  {run['payload_bytes']:13,}  {run['bytes']:13,}  {run['wire_bytes']:10,}  "
            f"{run['bytes'] / run['guests']:9,.1f}  {run['seconds']:7.0f}"
        )
    RESULTS.write_text(json.dumps({**store.origin("cpu"), "runs": runs}, indent=2) + "\n")
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    main()
