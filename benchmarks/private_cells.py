"""What cells would be worth with a privacy budget, beside private principal components: why `cells` has no private version.

    python -m benchmarks.private_cells [--data phishing] [--epsilons 2,8] [--seeds 3]

Private cells, as they would be: private principal components for half of the guest's share; then k-means whose every round sees
only noisy counts and sums of rows clipped to a ball (Su et al., 2016), from centres that are drawn without looking at the rows;
at the end cells of fewer rows than `least`, by their noisy counts, are dropped. Both send the same number of coordinates, and the
host learns as with any budget. Scored on validation rows, by party 1 as host; nothing here is priced otherwise than the
library's learners are.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from benchmarks import public, store
from benchmarks.data import fetch
from benchmarks.rows import scored_on
from benchmarks.run import parties_of
from fedonce import FedOnceClassifier, FedOnceWarning
from fedonce.learners import PCA, Cells, Learner
from fedonce.learners.cells import Layer
from fedonce.learners.names import Facts
from fedonce.privacy.budget import Purse, Task
from fedonce.training.loop import Rows

ROUNDS, RADIUS, DIM = 4, 3.0, 3  # values of private components are whitened, and lie mostly within three deviations
RESULTS = store.RESULTS / "private_cells.json"


@dataclass(eq=False)
class PrivateCells(Cells):
    """Cells by noisy counts and sums."""

    name: ClassVar[str] = "private-cells"
    facts: ClassVar[Facts] = Facts(trains=False, private=True)

    def private_tasks(self, n_rows: int, share: float, exact: bool = False, unsound: bool = False) -> list[Task]:
        """Return the components' releases, and one for each round."""
        base = PCA().private_tasks(n_rows, share / 2, exact, unsound)
        return [*base, *(Task("", f"cells: round {turn}", share / 2 / ROUNDS) for turn in range(ROUNDS))]

    def fit_private(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device, purse: Purse) -> None:
        """Find components, then centres."""
        self.base_ = PCA()
        self.base_.fit_private(rows, dim, rng, device, purse)
        values = self._base_values(rows, device).astype(np.float64)
        values *= np.minimum(1, RADIUS / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12))
        width = values.shape[1]
        centres, counts = rng.normal(size=(self.cells, width)), np.zeros(self.cells)
        for turn in range(ROUNDS):
            which = Layer(centres.astype(np.float32)).which(values.astype(np.float32), np.zeros(len(values), np.int64))
            sums = np.zeros((len(centres), width))
            np.add.at(sums, which, values)
            # A row is in one cell: it adds (RADIUS, values), which is at most sqrt(2) RADIUS long.
            told = np.hstack([RADIUS * np.bincount(which, minlength=len(centres))[:, None], sums])
            noisy = purse.release(f"cells: round {turn}", told, np.sqrt(2) * RADIUS)
            counts = noisy[:, 0] / RADIUS
            moved = noisy[:, 1:] / np.maximum(counts, 1)[:, None]
            centres = np.where(counts[:, None] >= self.least, np.clip(moved, -RADIUS, RADIUS), centres)
        kept = counts >= self.least
        self.layers_ = (Layer((centres[kept] if kept.any() else centres[:1]).astype(np.float32)),)
        self.dim_ = min(dim, width)


def ways() -> dict[str, Learner]:
    """Return what is compared."""
    return {"pca": PCA()} | {f"{many} cells": PrivateCells(cells=many) for many in (8, 16, 32, 64)}


def accuracy(data: Any, learner: Learner, epsilon: float, seed: int) -> tuple[float, float]:
    """Return the accuracy on validation rows, in per cent, and the bytes per row and guest."""
    X, X_held, y, y_held = data.split(seed)
    model = FedOnceClassifier(
        parties_of(data, {}),
        learner=learner,
        dim=DIM,
        epsilon=epsilon,
        bounds=public.bounds(data),
        target_bounds=public.target_bounds(data),
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedOnceWarning)
        right = float(100 * np.mean(model.fit(X, y).predict(X_held) == y_held))
    return right, model.traffic_.bytes / len(y) / model.traffic_.messages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="phishing")
    parser.add_argument("--epsilons", default="2,8")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    rows = []
    for epsilon in map(float, given.epsilons.split(",")):
        for name, learner in ways().items():
            found = [
                accuracy(scored_on("validation", fetch(given.data, {}), seed), learner, epsilon, seed)
                for seed in range(given.seeds)
            ]
            right, sent = np.array(found).T
            row = {"data": given.data, "epsilon": epsilon, "learner": name, "accuracy": right.round(2).tolist()}
            rows.append(row | {"mean": round(float(right.mean()), 2), "bytes": round(float(sent.mean()), 2)})
            print(json.dumps(rows[-1]), flush=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
