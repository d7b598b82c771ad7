"""How long the learner `cooccurrence` takes, and how much memory: 1,000,000 rows, two columns of 100,000 values each.

    python -m benchmarks.speed.cooccurrence [--rows 1000000 --values 100000 --dim 16]

Values belong to groups, half of the rows have both of one group, and some values are far more common than others. The seconds
are those of `Guest.learn`: preparation, learning, and the message. The peak is that of the process, the table included, and
beside it what the process had before it learnt. Then both decompositions that could serve, on the learner's own matrix.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse
from scipy.sparse.linalg import svds
from sklearn.utils.extmath import randomized_svd

from benchmarks import store
from benchmarks.speed.memory import peak
from fedonce import Guest

GROUPS, ITERATIONS = 50, 7
RESULTS = store.RESULTS / "cooccurrence_speed.json"


def codes(rows: int, values: int) -> list[Any]:
    """Draw both columns."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, GROUPS, rows)
    drawn = []
    for _ in range(2):
        own = np.where(rng.random(rows) < 0.7, group, rng.integers(0, GROUPS, rows))
        drawn.append(GROUPS * (values // GROUPS * rng.random(rows) ** 2).astype(np.int64) + own)
    return drawn


def decompositions(drawn: list[Any], values: int, vectors: int) -> dict[str, float]:
    """Return the seconds of either decomposition, and how far the randomised one's singular values are off at most."""
    counts = sparse.csr_array((np.ones(len(drawn[0])), tuple(drawn)), shape=(values, values))
    roots = [sparse.diags_array(1 / np.sqrt(counts.sum(axis=axis) + 1)) for axis in (1, 0)]
    matrix, strengths, seconds = roots[0] @ counts @ roots[1], {}, {}
    for name, found in (
        ("randomised", lambda: randomized_svd(matrix, vectors, n_iter=ITERATIONS, random_state=0)),
        ("svds", lambda: svds(matrix, vectors, random_state=0)),
    ):
        started = time.perf_counter()
        strengths[name] = np.sort(found()[1])[::-1]
        seconds[name] = time.perf_counter() - started
    off = float(np.abs(strengths["randomised"] / strengths["svds"] - 1).max())
    return {"randomised_seconds": seconds["randomised"], "svds_seconds": seconds["svds"], "off": off}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--values", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=16)
    given = parser.parse_args()
    drawn = codes(given.rows, given.values)
    table = pa.table({name: pa.array(column.astype(str)) for name, column in zip(("from", "to"), drawn, strict=True)})
    before = peak()
    wall, cpu = time.perf_counter(), time.process_time()
    message = Guest("shop", "cooccurrence", given.dim).learn(table)
    row: dict[str, Any] = vars(given) | {
        "seconds": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "peak": peak(),
        "before": before,
        "message_bytes": message.nbytes,
    }
    print(
        f"cooccurrence, {given.rows:,} rows, two columns of {given.values:,} values, d={given.dim}: {row['seconds']:.1f} s "
        f"({row['cpu']:.1f} s of CPU), peak {row['peak'] / 2**30:.2f} GiB, of which {before / 2**30:.2f} GiB before"
    )
    row |= decompositions(drawn, given.values, given.dim + 1)
    print(
        f"{given.dim + 1} singular vectors: randomised {row['randomised_seconds']:.1f} s, svds {row['svds_seconds']:.1f} s; "
        f"singular values differ by at most {100 * row['off']:.1f} %"
    )
    RESULTS.write_text(json.dumps(row, indent=2) + "\n")


if __name__ == "__main__":
    main()
