"""Speed of a DP-SGD step: against the same step without privacy, in torch and in our closed form, and against Opacus.

    python -m benchmarks.speed.dpsgd [--rounds 7]

An epoch of an MLP on 10,000 rows in batches of 128; the best of several rounds, taken in turn so that a busy machine slows all
alike. Only the ratios mean anything.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.store import RESULTS
from fedonce.privacy.budget import Purse, Task, calibrate
from fedonce.privacy.noise import SecretRandom
from fedonce.training.loop import Loop
from fedonce.training.losses import SquaredDistance
from fedonce.training.networks import mlp
from fedonce.training.problem import Problem
from fedonce.training.settings import Training
from fedonce.training.steps import autograd_step
from fedonce.training.trainer import trainer

ROWS, COLUMNS, OUTPUTS, BATCH = 10_000, 17, 3, 128
SHAPES = {"FC(30)": (30,), "FC(128x64)": (128, 64)}


def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(ROWS, COLUMNS)).astype(np.float32), rng.normal(size=(ROWS, OUTPUTS)).astype(np.float32)


def problem(hidden: tuple[int, ...]) -> Problem:
    X, Y = (torch.from_numpy(part) for part in data())
    return Problem(mlp(COLUMNS, hidden, OUTPUTS), [X], Y, SquaredDistance())


def plain(hidden: tuple[int, ...]) -> Callable[[], None]:
    """Return an epoch without privacy, in closed form."""
    loop = trainer(problem(hidden), Training(1, BATCH, 1e-3, optimizer="sgd"), np.random.default_rng(0))
    return lambda: (loop.run(), None)[1]


def torch_plain(hidden: tuple[int, ...]) -> Callable[[], None]:
    """Return an epoch without privacy as people write it: autograd and torch's optimizer."""
    stated, training = problem(hidden), Training(1, BATCH, 1e-3, optimizer="sgd")
    parameters = list(stated.network.parameters())
    step, update = autograd_step(stated, parameters), training.update(parameters)
    loop = Loop(step, update, ROWS, training, np.random.default_rng(0))
    return lambda: (loop.run(), None)[1]


def private(hidden: tuple[int, ...]) -> Callable[[], None]:
    """Return an epoch of our DP-SGD: Poisson samples, clipping, noise from the operating system, ledger."""
    steps = -(-ROWS // BATCH)
    plan = calibrate([Task("party", "speed", 1.0, BATCH / ROWS, steps)], 2.0, 1e-5, "rdp")
    stated, training, rng = problem(hidden), Training(1, BATCH, 1e-3, optimizer="sgd"), np.random.default_rng(0)
    rows = stated.inputs[0].numpy()

    def epoch() -> None:
        own = Purse("party", plan.of("party"), plan.ledger(), SecretRandom()).steps("speed", rows, 1.0)
        trainer(stated, training, rng, own).run()

    return epoch


def opacus(hidden: tuple[int, ...]) -> Callable[[], None]:
    """Return an epoch of Opacus: its hooks, its noise, its Poisson loader."""
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    X, Y = (torch.from_numpy(part) for part in data())
    network: nn.Module = mlp(COLUMNS, hidden, OUTPUTS)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(X, Y), batch_size=BATCH)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network, optimizer, loader = PrivacyEngine().make_private(
            module=network, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0
        )

    def epoch() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for rows, targets in loader:
                optimizer.zero_grad()
                (network(rows) - targets).square().sum(dim=1).mean().backward()
                optimizer.step()

    return epoch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    rows = []
    for name, hidden in SHAPES.items():
        epochs = {
            "torch": torch_plain(hidden),
            "closed form": plain(hidden),
            "private": private(hidden),
            "opacus": opacus(hidden),
        }
        best = dict.fromkeys(epochs, float("inf"))
        for _ in range(rounds):
            for kind, epoch in epochs.items():
                started = time.perf_counter()
                epoch()
                best[kind] = min(best[kind], time.perf_counter() - started)
        own, other, form = (best["private"] / best[kind] for kind in ("torch", "opacus", "closed form"))
        rows.append({"network": name, "torch": own, "closed_form": form, "opacus": 1 / other})
        told = ", ".join(f"{kind} {1000 * seconds:.0f} ms" for kind, seconds in best.items())
        print(f"{name}: an epoch of {ROWS:,} rows, batch {BATCH}: {told}")
        print(
            f"  DP-SGD takes {own:.2f} times torch's step without privacy (goal: at most 1.5) and {form:.2f} times our own "
            f"closed form without privacy; Opacus takes {1 / other:.1f} times as long as ours (goal: at least 2)"
        )
    (RESULTS / "dpsgd_speed.json").write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
