"""Settings of the host model "tabm", tried on validation rows.

    python -m benchmarks.tabm_settings export FOLDER     what the host sees of each data set, as .npz files
    python -m benchmarks.tabm_settings sweep FOLDER [--cases covtype] [--device cuda] [--threads 1] [heads=8,16 width=128,256]

Guests learn by "auto", with as many bytes as in the README's table, from four fifths of the training rows of seed 0; the other
fifth is for the scores: accuracy in per cent, or root mean squared error. `sweep` has the network first, to compare. It needs
torch, numpy, safetensors and threadpoolctl alone, for a machine without the data sets.
"""

from __future__ import annotations

import argparse
import ast
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from fedonce.hostmodels import make
from fedonce.hostmodels.base import Examples, HostModel
from fedonce.hostmodels.names import Facts
from fedonce.hostmodels.tabm import TabMModel

CASES = ("superconduct", "phishing", "covtype", "ujiindoorloc-longitude", "ujiindoorloc-timestamp")
PARTS = ("own", "values", "present")


@dataclass(eq=False)
class Recorder(HostModel):
    """Keeps what a host's model would see."""

    name: ClassVar[str] = "recorder"
    facts: ClassVar[Facts] = Facts()
    seen: dict[str, Any] = field(default_factory=dict)

    def __deepcopy__(self, memo: Any) -> Recorder:
        return self  # an estimator copies its model; what is recorded must come back

    def fit(self, examples: Examples, dims: Any, n_outputs: int, rng: Any, device: Any) -> list[Any]:
        """Keep the examples."""
        self.seen = {part: getattr(examples, part) for part in (*PARTS, "target")}
        self.seen |= {"dims": np.array(dims), "n_outputs": np.array(n_outputs)}
        return []

    def outputs(self, own: Any, values: Any, present: Any, device: Any) -> Any:
        """Keep the rows."""
        self.seen |= {f"{part}_held": rows for part, rows in zip(PARTS, (own, values, present), strict=True)}
        return np.zeros((len(own), int(self.seen["n_outputs"])), np.float32)

    def state(self) -> Any:
        """Nothing is learnt."""
        return {}

    def restore(self, tensors: Any, inputs: Any) -> None:
        """Nothing is kept."""


def export(folder: Path, names: list[str], seed: int = 0) -> None:
    """Write what the host sees of each data set."""
    from benchmarks.datasets import CASES as TABLE
    from benchmarks.datasets import for_validation
    from benchmarks.run import parties_of
    from fedonce import FedOnceClassifier, FedOnceRegressor, FedOnceWarning
    from fedonce.datasets import FETCHERS

    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        case = TABLE[name]
        data = for_validation(FETCHERS[case.data](download=False, **case.loader), seed)
        X, X_held, y, y_held = data.split(seed)
        parties = parties_of(data, {})
        recorder = Recorder()
        kind = FedOnceClassifier if data.task == "classification" else FedOnceRegressor
        host = next(iter(parties))
        model = kind(parties, host=host, dim=case.dim, bits=case.bits, model=recorder, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FedOnceWarning)
            model.fit(X, y)
            model.predict(X_held)
        seen = recorder.seen
        if data.task == "classification":
            seen["target_held"] = np.searchsorted(model.classes_, y_held)
            seen["unit"] = np.array(100.0)
        else:
            seen["target_held"] = ((y_held - np.mean(y)) / np.std(y)).astype(np.float32)
            seen["unit"] = np.array(np.std(y))
        np.savez_compressed(folder / f"{name}.npz", **seen)
        print(name, {part: rows.shape for part, rows in seen.items()}, flush=True)


def score(model: HostModel, seen: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Train a model and score it on the rows that were left out; seconds are of the training, `cpu` counts all threads."""
    examples = Examples(*(seen[part] for part in (*PARTS, "target")))
    started, busy = time.perf_counter(), time.process_time()
    dims, n_outputs = [int(dim) for dim in seen["dims"]], int(seen["n_outputs"])
    epochs = model.fit(examples, dims, n_outputs, np.random.default_rng(0), device)
    seconds, busy = time.perf_counter() - started, time.process_time() - busy
    outputs, target = model.outputs(*(seen[f"{part}_held"] for part in PARTS), device), seen["target_held"]
    if target.dtype.kind == "f":
        value = np.sqrt(np.mean(np.square(outputs[:, 0] - target)))
    else:
        value = np.mean(outputs.argmax(axis=1) == target)
    return {
        "score": round(float(value * seen["unit"]), 5),
        "epochs": len(epochs),
        "seconds": round(seconds, 1),
        "cpu": round(busy, 1),
    }


def combinations(grid: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the settings of a grid, such as heads=8,16 width=128."""
    names = [each.partition("=")[0] for each in grid]
    choices = [[ast.literal_eval(value) for value in each.partition("=")[2].split(",")] for each in grid]
    for chosen in product(*choices):
        yield dict(zip(names, chosen, strict=True))


def sweep(folder: Path, names: list[str], grid: list[str], device: torch.device) -> None:
    """Print a line per data set and setting."""
    for name in names:
        with np.load(folder / f"{name}.npz") as content:
            seen = dict(content)
        print(name, "network", score(make("network"), seen, device), flush=True)
        for settings in combinations(grid):
            print(name, settings, score(TabMModel(**settings), seen, device), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("export", "sweep"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("grid", nargs="*")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    names = arguments.cases.split(",")
    if arguments.task == "export":
        export(arguments.folder, names)
    else:
        torch.set_num_threads(arguments.threads)
        sweep(arguments.folder, names, arguments.grid, torch.device(arguments.device))


if __name__ == "__main__":
    main()
