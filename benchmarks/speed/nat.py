"""How fast NAT learns: ours against a plain vectorised torch loop, in one run on one machine.

    python -m benchmarks.speed.nat

A phishing-like table (10,000 rows, 7 columns of few values), batch 100, d = 3, MLP 30-30, the paper's rate. The plain loop is
`learn_without_labels` of examples/by_hand.py: autograd, and the squared distances as cost, uncentred.
"""

from __future__ import annotations

import importlib.util
import json
import os
import time
from pathlib import Path

import numpy as np
import torch
from joblib.externals.loky import get_reusable_executor

from benchmarks import store
from fedonce import Guest
from fedonce.data.table import Table
from fedonce.engine.local import LocalEngine
from fedonce.learners import NAT

ROWS, COLUMNS, BATCH, DIM, RATE, EPOCHS, GUESTS = 10_000, 7, 100, 3, 1e-4, 20, 9
SETTINGS = {"hidden": (30, 30), "batch": BATCH, "rate": RATE, "weight_decay": 1e-5}


def by_hand():
    path = Path(__file__).parent.parent.parent / "examples" / "by_hand.py"
    spec = importlib.util.spec_from_file_location("by_hand", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table(seed: int) -> np.ndarray:
    """Seven columns of -1, 0 and 1 with something in common, as a guest has of the phishing data."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((ROWS, 2)) @ rng.standard_normal((2, COLUMNS))
    return np.digitize(common + rng.standard_normal((ROWS, COLUMNS)), [-1.0, 1.0]).astype(np.float32) - 1


def plain(names: list[str], tables: dict[str, np.ndarray], epochs: int) -> tuple[float, dict[str, list[float]]]:
    """Train the guests one after the other with the plain loop."""
    hand, losses = by_hand(), {name: [] for name in names}
    prepared = {name: hand.standardise(tables[name])[0] for name in names}
    started = time.perf_counter()
    for name in names:
        hand.learn_without_labels(
            prepared[name],
            DIM,
            0,
            name,
            SETTINGS["hidden"],
            epochs,
            BATCH,
            RATE,
            SETTINGS["weight_decay"],
            losses[name],
        )
    return (time.perf_counter() - started) / (len(names) * epochs), losses


def ours(
    names: list[str], tables: dict[str, np.ndarray], epochs: int, n_jobs: int
) -> tuple[float, dict[str, list[float]]]:
    """Train the guests with ours, side by side where there are several."""
    guests = {
        name: Guest(name, NAT(epochs=epochs, **SETTINGS), DIM, 32, random_state=0, device="cpu") for name in names
    }
    engine = LocalEngine(guests, {name: Table.of(tables[name]) for name in names}, {}, n_jobs)
    started = time.perf_counter()
    engine.learn()
    seconds = (time.perf_counter() - started) / (len(names) * epochs)
    return seconds, {name: [epoch["loss"] for epoch in guest.history] for name, guest in engine.parties.items()}


def main() -> None:
    torch.set_num_threads(1)  # one guest uses one core; further cores are for further guests
    names = [f"guest{j}" for j in range(GUESTS)]
    tables = {name: table(seed) for seed, name in enumerate(names)}
    cores = os.cpu_count() or 1
    jobs = min(2, cores)
    for warm_up in (1, jobs):  # load libraries and start the worker processes before the clock does
        plain(names[:1], tables, 1)
        ours(names[:jobs], tables, 1, warm_up)
    rows = []
    for k in (1, GUESTS):
        slow, slow_losses = plain(names[:k], tables, EPOCHS)
        fast, fast_losses = ours(names[:k], tables, EPOCHS, 1 if k == 1 else jobs)
        apart = max(
            abs(a / b - 1) for name in names[:k] for a, b in zip(fast_losses[name], slow_losses[name], strict=True)
        )
        rows.append({"guests": k, "plain_s": slow, "ours_s": fast, "ratio": slow / fast, "losses_apart": apart})
    get_reusable_executor().shutdown(wait=True)
    print(
        f"NAT, {ROWS:,} rows x {COLUMNS} columns, batch {BATCH}, d={DIM}, MLP 30-30, {EPOCHS} epochs, {jobs} of {cores} cores"
    )
    print("guests   plain s/epoch   ours s/epoch   times faster   losses differ by at most")
    for row in rows:
        seconds = f"{row['plain_s']:13.4f}   {row['ours_s']:12.4f}"
        print(f"{row['guests']:6d}   {seconds}   {row['ratio']:12.2f}   {100 * row['losses_apart']:.3f} %")
    print("(seconds per guest and epoch)")
    (store.RESULTS / "nat_speed.json").write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
