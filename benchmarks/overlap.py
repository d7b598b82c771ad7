"""A guest that has half of the host's rows: kept, left out, or training on the common rows alone.

    python -m benchmarks.overlap [--data phishing,superconduct --seeds 3]

Four parties, the first is the host; each guest in turn has a random half of the rows, in training and in test. Scores are on all
test rows: accuracy in %, or root mean squared error of the label between 0 and 1. Three ways: *keep* (zeros and a mark where the
guest lacks a row), *drop* (the guest left out), *common* (training on the rows that the guest has; test as in *keep*).
Needs FEDONCE_DATA.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np

from benchmarks import store
from benchmarks.data import fetch
from fedonce import FedOnceClassifier, FedOnceRegressor
from fedonce.datasets import Dataset

RESULTS = store.RESULTS / "overlap.jsonl"
PARTIES, SHARE = 4, 0.5
WAYS = ("keep", "drop", "common")


def run(data: Dataset, guest: str, way: str, seed: int) -> float:
    """Return the score on test rows of one split."""
    X, X_test, y, y_test = data.split(seed=seed)
    rng = np.random.default_rng([seed, int(guest[-1])])
    has, has_test = (rng.random(len(rows)) < SHARE for rows in (X, X_test))
    kind = FedOnceClassifier if data.task == "classification" else FedOnceRegressor
    model = kind(parties=PARTIES, random_state=seed)
    if way == "common":
        model.fit(X[has], y[has])
    else:
        model.fit(X, y, present={guest: has if way == "keep" else False})
    found = model.predict(X_test, present={guest: has_test if way != "drop" else False})
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
        scores = defaultdict(list)
        for seed in range(given.seeds):
            for guest in [f"party{j}" for j in range(2, PARTIES + 1)]:
                for way in WAYS:
                    key = (name, guest, way, seed)
                    if key not in done:
                        done[key] = run(data, guest, way, seed)
                        store.append(RESULTS, {"key": key, "value": done[key], **store.origin("cpu")})
                    scores[way].append(done[key])
        report(name, scores)


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
