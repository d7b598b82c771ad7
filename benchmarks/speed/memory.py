"""How much memory a large guest needs: 1,000,000 rows x 20 columns, PCA d = 16 and one epoch of the autoencoder.

    python -m benchmarks.speed.memory

Each learner runs in a process of its own; what counts is the peak beyond the data and the imported libraries.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys

from benchmarks import store

ROWS, COLUMNS, DIM = 1_000_000, 20, 16


def peak() -> int:
    """Return the process's peak resident memory in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def measure(learner: str) -> None:
    """Learn, and print the peak beyond what was there before."""
    import numpy as np

    from fedonce import Guest

    Guest("warm-up", learner, 2, epochs=1).learn(np.random.default_rng(0).standard_normal((300, 3)).astype(np.float32))
    X = np.random.default_rng(0).standard_normal((ROWS, COLUMNS), dtype=np.float32)
    before = peak()
    message = Guest("shop", learner, DIM, epochs=1).learn(X)
    print(
        json.dumps(
            {
                "learner": learner,
                "data_bytes": X.nbytes,
                "peak_beyond": peak() - before,
                "message_bytes": message.nbytes,
            }
        )
    )


def main() -> None:
    rows = []
    for learner in ("pca", "autoencoder"):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.speed.memory", learner], check=True, capture_output=True, text=True
        )
        rows.append(json.loads(done.stdout))
    print(f"one guest, {ROWS:,} rows x {COLUMNS} columns float32 ({rows[0]['data_bytes'] / 2**20:.0f} MiB), d={DIM}")
    for row in rows:
        peak_mib = row["peak_beyond"] / 2**20
        print(f"{row['learner']:12s} peak beyond the data {peak_mib:6.0f} MiB, message {row['message_bytes']:,} bytes")
    (store.RESULTS / "memory.json").write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    measure(sys.argv[1]) if len(sys.argv) > 1 else main()
