"""Which learner is best where: every learner on every data set, host model and bytes equal.

    python -m benchmarks.learners [--data phishing,mnist] [--learners pca,auto] [--dims 8] [--seeds 3] [--part test]

Learners are compared, and the rule behind learner="auto" was chosen, on *validation* rows: a fifth of the training
rows. The test rows (`--part test`) are for the figures that we publish. Appends a JSON line per run to
benchmarks/results/learners.jsonl and skips what is there already.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from benchmarks import data as sources
from fedonce import FedOnceClassifier, FedOnceRegressor, FedOnceWarning, Pixels, __version__
from fedonce.partition import resolve

RESULTS = Path(__file__).parent / "results" / "learners.jsonl"
SOURCES = {
    "digits": lambda root: sources.digits(),
    "phishing": sources.phishing,
    "superconduct": sources.superconduct,
    "ujiindoorloc": sources.ujiindoorloc,
    "covtype": sources.covtype,
    "mnist": sources.mnist,
    "fashion-mnist": lambda root: sources.mnist(root, "fashion-mnist"),
}
METHODS = ("solo", "random", "nat", "pca", "autoencoder", "patches", "auto", "combine")


def score(data: sources.Data, method: str, dim: int, bits: int, seed: int, part: str, device: str) -> dict[str, Any]:
    """Train one method on one split; accuracy in per cent, or root mean squared error."""
    X, X_test, y, y_test = data.split(seed)
    if part == "validation":
        stratify = y if data.task == "classification" else None
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=seed, stratify=stratify)
    kind = FedOnceClassifier if data.task == "classification" else FedOnceRegressor
    learner = "auto" if method in ("solo", "combine") else method
    model = kind(_parties(data, method), learner=learner, dim=dim, bits=bits, random_state=seed, device=device)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedOnceWarning)
        model.fit(X, y)
    seconds = time.perf_counter() - started
    predicted = model.predict(X_test)
    classes = data.task == "classification"
    value = 100 * np.mean(predicted == y_test) if classes else np.sqrt(np.mean((predicted - y_test) ** 2))
    return {
        "value": float(value), "metric": "accuracy" if classes else "rmse", "rows": len(X), "messages": model.traffic_.messages,
        "payload_bytes": model.traffic_.payload_bytes, "bytes": model.traffic_.bytes, "seconds": round(seconds, 2),
        "chosen": sorted({message.learner for message in model.representations_.values()}),
    }  # fmt: skip


def _parties(data: sources.Data, method: str) -> Any:
    """Return the division; Solo has the host alone, Combine one party with all columns."""
    if method not in ("solo", "combine"):
        return data.parties
    image = {"mnist": (28, 28), "fashion-mnist": (28, 28), "digits": (8, 8)}.get(data.name)
    if method == "combine":
        return {"all": Pixels(tuple(range(data.X.shape[1])), image)} if image else 1
    blocks, host = resolve(data.parties, None, range(data.X.shape[1]), "benchmarks")
    own = blocks[host]
    return {host: Pixels(own.positions, own.shape) if own.shape else list(own.positions)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(SOURCES))
    parser.add_argument("--learners", default=",".join(METHODS))
    parser.add_argument("--dims", default="8")
    parser.add_argument("--bits", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--part", choices=("validation", "test"), default="validation")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    root = sources.folder()
    done = (
        {tuple(json.loads(line)["key"]) for line in arguments.out.read_text().splitlines()}
        if arguments.out.exists()
        else set()
    )
    for name in arguments.data.split(","):
        if root is None and name != "digits":
            print(f"{name}: skipped, FEDONCE_DATA names no folder with real data", file=sys.stderr)
            continue
        data = SOURCES[name](root)
        for method in arguments.learners.split(","):
            if method == "patches" and isinstance(data.parties, int):
                continue
            dims = [8] if method in ("solo", "combine") else [int(dim) for dim in arguments.dims.split(",")]
            for dim, seed in ((dim, seed) for dim in dims for seed in range(arguments.seeds)):
                key = [name, method, dim, arguments.bits, seed, arguments.part]
                if tuple(key) in done:
                    continue
                result = score(data, method, dim, arguments.bits, seed, arguments.part, arguments.device)
                gpu = torch.cuda.get_device_name() if torch.cuda.is_available() and arguments.device != "cpu" else None
                line = {
                    "key": key,
                    **result,
                    "version": __version__,
                    "machine": gpu or platform.processor() or platform.machine(),
                }
                with arguments.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(
                    *key,
                    f"{result['value']:.4f}",
                    f"{result['payload_bytes']:,} B",
                    f"{result['seconds']} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
