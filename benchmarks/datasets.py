"""The README's table: FedOnce on the paper's data sets, party 1 as host, beside Solo and Combine.

    python -m benchmarks.datasets [--cases phishing,mnist] [--methods named,auto,solo,combine] [--seeds 5] [--part test]

Scores are on test rows: the owner's test set where there is one, else a tenth by seed. The last epoch counts. Learners, values
and bits of a case were chosen by `python -m benchmarks.learners`, its recipe among a few that were tried with
`--part validation`, which scores on a fifth of the training rows instead. (A validation row of one seed may be a test row of
another.) Reads FEDONCE_DATA, appends a JSON line per run to benchmarks/results/datasets.jsonl and skips what is there already.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks import store
from benchmarks.methods.settings import AUXILIARY, EVERY_COLUMN, IDS
from benchmarks.run import parties_of
from fedonce import FedOnceClassifier, FedOnceRegressor, FedOnceWarning, InputError, Pixels, Recipe
from fedonce.datasets import FETCHERS, Dataset
from fedonce.datasets.base import take

RESULTS = Path(__file__).parent / "results" / "datasets.jsonl"
METHODS = ("solo", "named", "auto", "combine")

THREE = Recipe(members=3)


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    title: str
    data: str
    learner: str | None  # measured beside "auto"; None: auto takes the one that is best on validation rows
    dim: int
    goal: float | None  # what a prototype reached with one seed; None: better than Solo
    bits: int = 8
    host: str | None = None
    seeds: int = 5
    loader: dict[str, Any] = field(default_factory=dict)
    recipe: Any = "default"
    named: Any = None  # the recipe beside the named learner; None: the same
    combined: Any = "default"  # Combine's recipe
    alone: str = ""  # a case of the same data, whose Solo and Combine are this one's too


CASES = {
    "phishing": Case("phishing (10)", "phishing", "pca", 3, 97.0),
    "superconduct": Case("superconduct (10), RMSE", "superconduct", "pca", 3, 0.055, named=replace(THREE, epochs=250)),
    "ujiindoorloc-timestamp": Case("UJIIndoorLoc timestamp (10), RMSE", "ujiindoorloc", "pca", 12, 0.0045, named=THREE),
    "ujiindoorloc-longitude": Case(
        "UJIIndoorLoc longitude (10), RMSE", "ujiindoorloc", "autoencoder", 12, 0.018, loader={"target": "longitude"}
    ),
    "covtype": Case("covtype (10)", "covtype", "nat", 3, 85.5),
    "mnist": Case("MNIST (4)", "mnist", "pca", 16, 98.9, seeds=3),
    "fashion-16": Case("Fashion-MNIST (4)", "fashion-mnist", None, 32, 91.5, bits=4, seeds=3),
    "fashion-32": Case("Fashion-MNIST (4)", "fashion-mnist", None, 64, 92.2, bits=4, seeds=3, alone="fashion-16"),
    "movielens-ids": Case(
        "MovieLens, host ids (2), RMSE", "movielens", None, 3, None, host="ids", recipe=IDS, combined=EVERY_COLUMN
    ),
    "movielens-auxiliary": Case(
        "MovieLens, host auxiliary (2), RMSE",
        "movielens",
        None,
        48,
        None,
        host="auxiliary",
        recipe=AUXILIARY,
        combined=EVERY_COLUMN,
    ),
}


def run(case: Case, data: Dataset, method: str, seed: int, device: str = "auto") -> dict[str, Any]:
    """Train one method on one seed; accuracy in per cent, or root mean squared error, on the test rows."""
    X, X_test, y, y_test = data.split(seed)
    parties = parties_of(data, {})
    host = case.host or next(iter(parties))
    if method == "solo":
        parties = {host: parties[host]}
    elif method == "combine":
        every = tuple(range(len(data.feature_names)))
        parties, host = {"all": Pixels(every, data.image) if data.image else list(every)}, "all"
    classes = data.task == "classification"
    recipe = {"combine": case.combined, "named": case.named or case.recipe}.get(method, case.recipe)
    model = (FedOnceClassifier if classes else FedOnceRegressor)(
        parties,
        host=host,
        learner=case.learner if method == "named" else "auto",
        dim=case.dim,
        bits=case.bits,
        recipe=recipe,
        device=device,
        random_state=seed,
    )
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedOnceWarning)  # Solo and Combine are one party alone
        model.fit(X, y)
    seconds = time.perf_counter() - started
    predicted = model.predict(X_test)
    value = 100 * np.mean(predicted == y_test) if classes else np.sqrt(np.mean((predicted - y_test) ** 2))
    # The range that split scaled by: the error in the target's own unit does not depend on it.
    low, high = data.target_range(seed)
    return {
        "value": float(value),
        "metric": "accuracy" if classes else "rmse",
        "unit": None if classes else high - low,
        "rows": len(y),
        "test_rows": len(y_test),
        "messages": model.traffic_.messages,
        "payload_bytes": model.traffic_.payload_bytes,
        "bytes": model.traffic_.bytes,
        "seconds": round(seconds, 2),
        "learners": sorted({m.learner for m in model.representations_.values()}),
        "complete": data.complete,
        "note": data.note,
    }


def for_validation(data: Dataset, seed: int) -> Dataset:
    """Return the training rows alone, the validation rows last, in the place of a test set.

    A tenth is left out everywhere; where the owner has a test set, a tenth of the training images.
    """
    train, _ = data.rows(seed)
    label = data.target
    if data.n_official_test:
        train, _ = train_test_split(train, test_size=0.1, random_state=seed, stratify=label[train])
    classes = label[train] if data.task == "classification" else None
    kept, held = train_test_split(train, test_size=0.2, random_state=seed, stratify=classes)
    order = np.concatenate([kept, held])
    return replace(data, data=take(data.data, order), target=label[order], n_official_test=len(held))


def done(path: Path) -> set[tuple[Any, ...]]:
    """Return the keys of the runs that a file of results has."""
    return {tuple(line["key"]) for line in store.read(path)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, help="default: 5, images 3")
    parser.add_argument("--part", choices=("test", "validation"), default="test")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="default: results/datasets.jsonl, or datasets-validation.jsonl")
    arguments = parser.parse_args()
    arguments.out = arguments.out or (RESULTS if arguments.part == "test" else RESULTS.with_stem("datasets-validation"))
    known = done(arguments.out)
    for name in arguments.cases.split(","):
        case = CASES[name]
        try:
            data = FETCHERS[case.data](download=False, **case.loader)
        except InputError as error:
            print(f"{name}: skipped. {error}", flush=True)
            continue
        for method in arguments.methods.split(","):
            if (method == "named" and not case.learner) or (method in ("solo", "combine") and case.alone):
                continue
            for seed in range(arguments.seeds or case.seeds):
                key = [name, method, seed]
                if tuple(key) in known:
                    continue
                part = data if arguments.part == "test" else for_validation(data, seed)
                line = {"key": key, **run(case, part, method, seed, arguments.device), **store.origin(arguments.device)}
                store.append(arguments.out, line)
                print(*key, f"{line['value']:.4f}", f"{line['payload_bytes']:,} B", f"{line['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
