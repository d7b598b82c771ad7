"""How long alignment takes: 100,000 x 100,000 ids, half of them common; and the library's own calls alone, in the same run.

    python -m benchmarks.speed.alignment [--rows 100000]

Each side is one thread. The guest's part is two calls of the library (lock its own ids, lock the host's points).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import store
from fedonce.rows import alignment

ROWS = 100_000
RESULTS = store.RESULTS / "alignment_speed.json"


def people(first: int, rows: int) -> np.ndarray:
    """Ids such as a customer's number, in no order."""
    ids = np.array([f"customer-{i:09d}" for i in range(first, first + rows)], dtype=object)
    return np.random.default_rng(first).permutation(ids)


def timed(act: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    found = act()
    return time.perf_counter() - started, found


def ours(host: np.ndarray, guest: np.ndarray) -> tuple[dict[str, float], dict[str, int]]:
    """Seconds of each step and bytes of each file, with the rows file that the host writes at the end."""
    seconds, size = {}, {}
    seconds["request"], (asked, state) = timed(lambda: alignment.request(host, "bank", "benchmark"))
    seconds["respond"], answer = timed(lambda: alignment.respond(asked, guest, "shop"))
    seconds["finish"], matched = timed(lambda: alignment.finish(state, answer, host))
    assert set(host[matched.positions]) == set(host) & set(guest)
    seconds["rows"], rows = timed(
        lambda: alignment.agreed_rows(host[matched.positions], "bank", "shop", "benchmark", salt=matched.salt)
    )
    size |= {"request": len(asked), "state": len(state), "response": len(answer), "rows": len(rows)}
    return seconds, size


def library(host: list[str], guest: list[str]) -> dict[str, float]:
    """Seconds of the library's calls on the same ids, with nothing of ours around them."""
    import private_set_intersection.python as psi

    seconds = {}
    client, server = psi.client.CreateWithNewKey(True), psi.server.CreateWithNewKey(True)
    seconds["request"], asked = timed(lambda: client.CreateRequest(host))
    lock, setup = timed(lambda: server.CreateSetupMessage(0.0, len(host), guest, psi.DataStructure.RAW))
    answer, response = timed(lambda: server.ProcessRequest(asked))
    seconds["respond"] = lock + answer
    seconds["finish"], found = timed(lambda: client.GetIntersection(setup, response))
    assert len(found) == len(set(host) & set(guest))
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rows", type=int, default=ROWS, help="ids of each party; others than the default are not stored"
    )
    rows = parser.parse_args().rows
    host, guest = people(0, rows), people(rows // 2, rows)
    alone = library(host.tolist(), guest.tolist())
    seconds, size = ours(host, guest)
    total, total_alone = sum(seconds.values()), sum(alone.values())
    print(f"alignment, {rows:,} x {rows:,} ids, half common")
    for step in seconds:
        beside = f"library {alone[step]:6.2f} s" if step in alone else ""
        print(f"{step:8s} {seconds[step]:6.2f} s  {beside}")
    print(f"{'all':8s} {total:6.2f} s  library {total_alone:6.2f} s  ratio {total / total_alone:.2f}")
    print("bytes    " + ", ".join(f"{name} {count:,}" for name, count in size.items()))
    line = {"rows": rows, "seconds": seconds, "library": alone, "ratio": total / total_alone, "bytes": size}
    if rows == ROWS:
        RESULTS.write_text(json.dumps(line | store.origin("cpu"), indent=2) + "\n")


if __name__ == "__main__":
    main()
