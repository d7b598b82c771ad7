"""Settings of the host's models, and what blending two of them gains, on validation rows: test rows play no part.

    python -m benchmarks.host_settings export FOLDER [--seeds 3]        what the host sees of each data set, as .npz files
    python -m benchmarks.host_settings try FOLDER [--only trees,tabm] [--cases covtype] [--device cuda] [--jobs 2]
    python -m benchmarks.host_settings table FOLDER                     mean scores of each, and of the best pairs

Guests learn by "auto", with as many bytes as in docs/tables.md, from four fifths of the training rows; the other fifth is
for the scores: accuracy in per cent, or root mean squared error in units of the labels' spread. `try` keeps each model's
answers in FOLDER, so that `table` can blend them; it needs no data set. UJIIndoorLoc is exported for the first seed alone.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any, ClassVar

import numpy as np
import torch

from fedonce.hostmodels import make
from fedonce.hostmodels.base import Examples, HostModel
from fedonce.hostmodels.mlp import MlpModel
from fedonce.hostmodels.names import Facts
from fedonce.hostmodels.tabm import TabMModel
from fedonce.hostmodels.trees import TreesModel

CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "phishing": ("phishing", {}, 3),
    "superconduct": ("superconduct", {}, 3),
    "covtype": ("covtype", {}, 3),
    "ujiindoorloc-longitude": ("ujiindoorloc", {"target": "longitude"}, 12),
    "ujiindoorloc-timestamp": ("ujiindoorloc", {}, 12),
}
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


@dataclass(eq=False)
class TriedTrees(TreesModel):
    """Trees with more of LightGBM's parameters."""

    name: ClassVar[str] = "tried-trees"
    more: dict[str, Any] = field(default_factory=dict)

    def _settings(self, examples: Examples) -> dict[str, Any]:
        return super()._settings(examples) | self.more


def trees(more: dict[str, Any] | None = None, **settings: Any) -> Callable[[], HostModel]:
    """Return a maker of trees."""
    return lambda: TriedTrees(more=more or {}, **settings)


TRIED: dict[str, Callable[[], HostModel]] = {
    "network": lambda: make("network"),
    "mlp": lambda: make("mlp"),
    "tabm": lambda: make("tabm"),
    "tabm, 8 heads": lambda: TabMModel(heads=8),
    "tabm, width 256": lambda: TabMModel(width=256),
    "trees": trees(),
    "trees, random splits": trees({"extra_trees": True}),
    "trees, 127 bins": trees({"max_bin": 127}),
    "trees, 63 bins": trees({"max_bin": 63}),
    "trees, rate .03": trees(rate=0.03, trees=2500),
    "trees, rate .1": trees(rate=0.1, trees=750),
    "trees, columns .3": trees(column_share=0.3),
    "trees, columns .7": trees(column_share=0.7),
    "trees, leaves 63": trees(leaves=63),
    "trees, leaves 127": trees(leaves=127),
    "trees, leaves 255": trees(leaves=255),
    "trees, leaves 511": trees(leaves=511),
    "trees, 3 rows per leaf": trees({"min_data_in_leaf": 3}),
    "trees, 20 rows per leaf": trees({"min_data_in_leaf": 20}),
    "trees, l2 5": trees({"lambda_l2": 5.0}),
    "trees, rows .6": trees(row_share=0.6),
    "trees, random splits, columns .9": trees({"extra_trees": True}, column_share=0.9),
    "trees, 3 rows, 127 bins": trees({"min_data_in_leaf": 3, "max_bin": 127}),
    "trees, 3 rows, 127 bins, rate .07": trees({"min_data_in_leaf": 3, "max_bin": 127}, rate=0.07, trees=1000),
    "trees, 3 rows, 127 bins, columns .7": trees({"min_data_in_leaf": 3, "max_bin": 127}, column_share=0.7),
    "mlp, wide": lambda: MlpModel(hidden=(256, 128)),
    "tabm, 2 heads, width 256": lambda: TabMModel(heads=2, width=256),
    "tabm, 2 heads, width 384": lambda: TabMModel(heads=2, width=384),
    "tabm, 1 head, width 256": lambda: TabMModel(heads=1, width=256),
    "trees, quantised gradients": trees({"use_quantized_grad": True, "num_grad_quant_bins": 16}),
    # LightGBM 4.7 fails with it on phishing: "best_split_info.right_count".
    "trees, quantised gradients, leaves anew": trees(
        {"use_quantized_grad": True, "num_grad_quant_bins": 32, "quant_train_renew_leaf": True}
    ),
    "trees, rate .07": trees(rate=0.07, trees=1000),
    "trees, leaves 95": trees(leaves=95),
    "trees, leaves 127, columns .3": trees(leaves=127, column_share=0.3),
    "trees, leaves 127, columns .3, rate .07": trees(leaves=127, column_share=0.3, rate=0.07, trees=1000),
}


def export(folder: Path, names: list[str], seeds: int) -> None:
    """Write what the host sees of each data set."""
    from benchmarks.data import fetch
    from benchmarks.rows import scored_on
    from benchmarks.run import parties_of
    from fedonce import FedOnceClassifier, FedOnceRegressor, FedOnceWarning

    folder.mkdir(parents=True, exist_ok=True)
    for name, seed in [(each, seed) for each in names for seed in range(1 if each.startswith("uji") else seeds)]:
        source, loader, dim = CASES[name]
        data = scored_on("validation", fetch(source, loader), seed)
        X, X_held, y, y_held = data.split(seed)
        parties = parties_of(data, {})
        recorder = Recorder()
        kind = FedOnceClassifier if data.task == "classification" else FedOnceRegressor
        model = kind(parties, host=next(iter(parties)), dim=dim, model=recorder, random_state=seed, validate=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FedOnceWarning)
            model.fit(X, y)
            model.predict(X_held)
        seen = recorder.seen
        classes = data.task == "classification"
        seen["target_held"] = (
            np.searchsorted(model.classes_, y_held) if classes else ((y_held - np.mean(y)) / np.std(y)).astype("f4")
        )
        np.savez_compressed(folder / f"{name}-{seed}.npz", **seen)
        print(name, seed, {part: rows.shape for part, rows in seen.items()}, flush=True)


def answers_of(outputs: Any) -> Any:
    """Return probabilities, or numbers as they are."""
    if outputs.shape[1] == 1:
        return outputs.astype(np.float64)
    shifted = np.exp(outputs.astype(np.float64) - outputs.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def score(answers: Any, target: Any) -> float:
    """Return accuracy in per cent, or the root mean squared error."""
    if answers.shape[1] == 1:
        return float(np.sqrt(np.mean(np.square(answers[:, 0] - target))))
    return float(100 * np.mean(answers.argmax(axis=1) == target))


def attempt(path: Path, name: str, device: str) -> None:
    """Train one model on one file, unless it is done; keep its answers for the rows left out, and the seconds."""
    out = path.parent / "answers" / f"{path.stem}+{name}.npz"
    if out.exists():
        return
    torch.set_num_threads(1)
    with np.load(path) as content:
        seen = dict(content)
    examples = Examples(*(seen[part] for part in (*PARTS, "target")))
    model, where = TRIED[name](), torch.device(device)
    started = time.perf_counter()
    dims, n_outputs = [int(dim) for dim in seen["dims"]], int(seen["n_outputs"])
    model.fit(examples, dims, n_outputs, np.random.default_rng(0), where)
    seconds = time.perf_counter() - started
    answers = answers_of(model.outputs(*(seen[f"{part}_held"] for part in PARTS), where))
    out.parent.mkdir(exist_ok=True)
    np.savez_compressed(out, answers=answers, target=seen["target_held"], seconds=np.array(seconds))
    print(path.stem, name, round(score(answers, seen["target_held"]), 5), f"{seconds:.1f} s", flush=True)


def attempts(folder: Path, names: list[str], cases: list[str], device: str, jobs: int) -> None:
    """Try models on all files, the largest first."""
    paths = sorted(folder.glob("*.npz"), key=lambda path: -path.stat().st_size)
    todo = [(path, name) for path in paths if path.stem.rpartition("-")[0] in cases for name in names]
    with ProcessPoolExecutor(jobs) as pool:
        for done in [pool.submit(attempt, path, name, device) for path, name in todo]:
            done.result()


def table(folder: Path, best: int = 8) -> None:
    """Print the mean score of each model, seconds, and the best pairs, which weigh alike."""
    found: dict[str, dict[str, list[Any]]] = {}
    for path in sorted((folder / "answers").glob("*.npz")):
        stem, _, name = path.stem.partition("+")
        with np.load(path) as content:
            found.setdefault(stem.rpartition("-")[0], {}).setdefault(name, []).append(dict(content))
    for case, models in found.items():
        most = max(map(len, models.values()))
        whole = {name: runs for name, runs in models.items() if len(runs) == most}
        rows = {name: mean(score(run["answers"], run["target"]) for run in runs) for name, runs in whole.items()}
        pairs = {
            f"{a} + {b}": mean(
                score((x["answers"] + y["answers"]) / 2, x["target"]) for x, y in zip(whole[a], whole[b], strict=True)
            )
            for a, b in combinations(whole, 2)
        }
        sign = -1 if next(iter(whole.values()))[0]["answers"].shape[1] > 1 else 1
        for name, value in sorted(rows.items(), key=lambda row: sign * row[1]):
            taken = mean(float(run["seconds"]) for run in whole[name])
            print(
                json.dumps(
                    {"data": case, "model": name, "seeds": most, "score": round(value, 5), "seconds": round(taken, 1)}
                )
            )
        for name, value in sorted(pairs.items(), key=lambda row: sign * row[1])[:best]:
            print(json.dumps({"data": case, "pair": name, "seeds": most, "score": round(value, 5)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("export", "try", "table"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", help="models, such as trees,tabm")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    cases = given.cases.split(",")
    if given.task == "export":
        export(given.folder, cases, given.seeds)
    elif given.task == "try":
        names = list(TRIED) if given.only is None else given.only.split(";")
        attempts(given.folder, names, cases, given.device, given.jobs)
    else:
        table(given.folder)


if __name__ == "__main__":
    main()
