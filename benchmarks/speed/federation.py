"""How fast messages come over a federation on loopback, with mTLS: large ones, small ones, and rounds.

    python -m benchmarks.speed.federation [--only large,small,rounds]

A server and three guests as processes. *large*: 3 x (1,000,000 x 48) float32; *small*: 3 x (60,000 x 16) of 8 bits. Guests
have learnt before, so that what is timed is the way of the message: from the host's asking to the last one received, and from the
start of a guest's job to its message received. Memory is the sum over the host's processes (the command, the server, its jobs),
at its peak. *rounds*: 300 rounds with three guests, batches of 256 rows, 16 values per row.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import fedonce
from benchmarks import store
from fedonce.federation.collecting import Terms
from fedonce.federation.engine import RoundsFederationEngine
from fedonce.federation.flare import host_steps, site_processes, sites
from fedonce.federation.flare.engine import NvflareEngine
from fedonce.federation.flare.kits import Kit, make_kits, open_kit
from fedonce.federation.report import FederationReport
from fedonce.federation.request import Request
from fedonce.federation.runfile import RunFile
from fedonce.federation.status import GuestStatus
from fedonce.messages.received import Received

RESULTS = store.RESULTS / "federation_speed.json"
GUESTS = ("shop", "telco", "cinema")
DEADLINE = 900.0


def write_table(path: Path, rows: int, columns: int, seed: int, label: bool = False) -> None:
    """Write made-up numbers with ids, in an order of their own."""
    rng = np.random.default_rng(seed)
    table: dict[str, Any] = {"id": pa.array(rng.permutation(rows))}
    table |= {f"c{j}": pa.array(rng.standard_normal(rows, np.float32)) for j in range(columns)}
    if label:
        table["label"] = pa.array(rng.integers(0, 2, rows))
    pq.write_table(pa.table(table), path)


@contextmanager
def federation(folder: Path, rows: int, columns: int) -> Iterator[Kit]:
    """Start a server and three guests; end them."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    make_kits("127.0.0.1", "bank", GUESTS, folder / "kits", port)
    started: list[Kit] = []
    try:
        for number, name in enumerate(("bank", *GUESTS)):
            kit = open_kit(folder / "kits" / name)
            if name != "bank":
                write_table(folder / f"{name}.parquet", rows, columns, number)
                sites.configure_guest(kit, folder / f"{name}.parquet", "id")
                kit.policy.write_text("max_dim = 64\nmax_rounds = 100000\nmax_values_per_row = 1000\n")
            started.append(kit)
            sites.start(kit)
        yield started[0]
    finally:
        for kit in started:
            sites.stop(kit)


class Peak:
    """The largest sum of memory of this process and the server's, while it is watched."""

    def __init__(self, kit: Kit) -> None:
        self.kit, self.bytes, self.ended = kit, 0, threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        own = psutil.Process()
        while not self.ended.wait(0.1):
            total = 0
            for process in [own, *site_processes.processes_of(self.kit)]:
                try:
                    total += process.memory_full_info().pss
                except psutil.Error:
                    continue
            self.bytes = max(self.bytes, total)

    def __enter__(self) -> Peak:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()


def transfer(rows: int, dim: int, bits: int) -> dict[str, Any]:
    """Let guests learn, then ask again into an empty folder and time the way of their messages."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with federation(folder, rows, 4) as kit:
            asked = {
                name: Request("bank", name, "speed", "learn", fedonce.__version__, "random", dim=dim, bits=bits, seed=0)
                for name in GUESTS
            }
            learning = multiprocessing.get_context("spawn").Process(target=collect, args=(kit, asked, folder / "first"))
            learning.start()  # in a process of its own: what it leaves in memory is not the host's of the second time
            learning.join()
            before = psutil.Process().memory_full_info().pss
            with Peak(kit) as peak:
                received, seconds, beyond = collect(kit, asked, folder / "second")
        payload = rows * dim * bits // 8 * len(GUESTS)
    return {
        "rows": rows,
        "dim": dim,
        "bits": bits,
        "payload_bytes": payload,
        "bytes": sum(received.values()),
        "seconds": seconds,
        "seconds_beyond_start": beyond,
        "peak_bytes": peak.bytes,
        "host_before_bytes": before,
        "peak_by_payload": peak.bytes / payload,
    }


def collect(kit: Kit, asked: dict[str, Request], folder: Path) -> tuple[dict[str, int], float, dict[str, float]]:
    """Return the messages' bytes, the seconds from asking to the last one, and for each guest those from its job's start."""
    seen: dict[str, dict[str, float]] = {name: {} for name in asked}

    def watch(status: GuestStatus) -> None:
        now = time.perf_counter()
        if status.state not in ("asked", "queued"):
            seen[status.guest].setdefault("started", now)
        seen[status.guest][status.state] = now

    began = time.perf_counter()
    terms = Terms(time.monotonic() + DEADLINE, 3, silence=300.0)
    engine = NvflareEngine(kit, asked, folder, terms, watch=watch)
    try:
        received = {name: message.moved for name, message in engine.learn().items()}
    finally:
        engine.close()
    # A quick job may be over when the host looks for the first time: then it is the server's own count.
    beyond = {
        name: max(seen[name]["received"] - seen[name]["started"], status.seconds or 0.0)
        for name, status in engine.statuses.items()
    }
    return received, time.perf_counter() - began, beyond


def time_rounds(train: Callable[[], FederationReport]) -> dict[str, Any]:
    """Train with rounds, and return what they took."""
    times: list[float] = []
    forward = RoundsFederationEngine.forward

    def timed(engine: RoundsFederationEngine) -> dict[str, Received]:
        times.append(time.perf_counter())
        return forward(engine)

    with patch.object(RoundsFederationEngine, "forward", timed):
        report = train().as_json()
    spent = times[-1] - times[0]
    return {
        "rounds": report["rounds"],
        "seconds": spent,
        "rounds_a_second": (len(times) - 1) / spent,
        "wire_bytes": report["wire bytes"],
        "lost": report["lost in rounds"],
    }


def rounds(rows: int = 5000, dim: int = 16, batch: int = 256, count: int = 300) -> dict[str, Any]:
    """Train by a run file with rounds, and time them."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with federation(folder, rows, 20) as kit:
            write_table(folder / "bank.parquet", rows, 20, 99, label=True)
            file = folder / "run.toml"
            file.write_text(
                f'run = "rounds"\ntable = "bank.parquet"\nid = "id"\nlabel = "label"\nguests = {json.dumps(GUESTS)}\n'
                f'learner = "pca"\ndim = {dim}\nhost_epochs = 1\ntask = "classification"\n'
                f"rounds = {{rounds = {count}, batch = {batch}}}\n"
            )
            run, out = RunFile.read(file), folder / "out"
            found = time_rounds(lambda: host_steps.fit(run, kit.path, out, lambda status: None, lambda line: None))
    return {"guests": len(GUESTS), "batch": batch, "dim": dim} | found


PARTS = {
    "large": lambda: transfer(1_000_000, 48, 32),
    "small": lambda: transfer(60_000, 16, 8),
    "rounds": rounds,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS))
    wanted = parser.parse_args().only.split(",")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in wanted:
        results[name] = found = PARTS[name]() | store.origin("cpu")
        print(json.dumps({name: found}, indent=2))
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    main()
