"""A guest that has half of the host's rows: kept, left out, or training on the common rows alone.

    python -m benchmarks.overlap [--data phishing,superconduct --seeds 3]

The guest has a random half of the rows, in training and in test. Two settings: *one guest* (the paper's ten parties:
the first is the host, and the second, fifth or eighth its only guest), and *four parties* (each of three guests in turn has half
of the rows, the others all). Scores are on all test rows: accuracy in %, or root mean squared error of the label between 0 and 1.
Three ways: *keep* (the guest as it is), *drop* (left out), *common* (training on the rows that the guest has; test as in *keep*).
Needs FEDONCE_DATA.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from itertools import product

import numpy as np

from benchmarks import store
from benchmarks.data import fetch
from fedonce import FedOnceClassifier, FedOnceRegressor
from fedonce.datasets import Dataset

RESULTS = store.RESULTS / "overlap.jsonl"
SHARE = 0.5
WAYS = ("keep", "drop", "common")
SETTINGS = {"one guest": (2, 5, 8), "four parties": (2, 3, 4)}  # which guests have half of the rows, in turn


def parties(data: Dataset, setting: str, guest: int) -> dict[str, list[int]]:
    """Return who holds which columns."""
    blocks = np.array_split(np.arange(data.data.shape[1]), 10 if setting == "one guest" else 4)
    kept = (1, guest) if setting == "one guest" else range(1, 5)
    return {f"party{j}": blocks[j - 1].tolist() for j in kept}


def run(data: Dataset, setting: str, guest: int, way: str, seed: int) -> float:
    """Return the score on test rows of one split."""
    X, X_test, y, y_test = data.split(seed=seed)
    divided, name = parties(data, setting, guest), f"party{guest}"
    rng = np.random.default_rng([seed, guest])
    has, has_test = (rng.random(len(rows)) < SHARE for rows in (X, X_test))
    columns = [j for own in divided.values() for j in own]
    place = {j: position for position, j in enumerate(columns)}
    divided = {party: [place[j] for j in own] for party, own in divided.items()}
    X, X_test = X[:, columns], X_test[:, columns]
    kind = FedOnceClassifier if data.task == "classification" else FedOnceRegressor
    model = kind(parties=divided, host="party1", random_state=seed)
    if way == "common":
        model.fit(X[has], y[has])
    else:
        model.fit(X, y, present={name: has if way == "keep" else False})
    found = model.predict(X_test, present={name: has_test if way != "drop" else False})
    if data.task == "classification":
        return 100 * float((found == y_test).mean())
    return float(np.sqrt(np.mean((found - y_test) ** 2)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="phishing,superconduct")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    done = {tuple(line["key"]): line["value"] for line in store.read(RESULTS)}
    for name in given.data.split(","):
        data = fetch(name, {})
        for setting, guests in SETTINGS.items():
            scores = defaultdict(list)
            for key in product([name], [setting], guests, WAYS, range(given.seeds)):
                if key not in done:
                    done[key] = run(data, *key[1:])
                    store.append(RESULTS, {"key": key, "value": done[key], **store.origin("cpu")})
                scores[key[3]].append(done[key])
            report(f"{name}, {setting}:", scores)


def report(name: str, scores: dict[str, list[float]]) -> None:
    """Print mean and spread of each way, and of what keeping gains over each other, run by run."""
    better = -1 if np.mean(scores["keep"]) < 1 else 1  # errors are below one, accuracies above
    for way in WAYS:
        gain = better * (np.array(scores["keep"]) - np.array(scores[way]))
        told = (
            ""
            if way == "keep"
            else f"; keeping gains {gain.mean():.4f} ± {gain.std():.4f}, in {(gain > 0).sum()} of {len(gain)}"
        )
        print(f"{name} {way:6s} {np.mean(scores[way]):.4f} ± {np.std(scores[way]):.4f}{told}", flush=True)


if __name__ == "__main__":
    main()
