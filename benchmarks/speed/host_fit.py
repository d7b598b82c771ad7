"""How long a whole fit takes with the default host model, as a ratio to the network, which was the default before.

    python -m benchmarks.speed.host_fit [--data breast-cancer,digits,phishing,superconduct] [--repeat 3]

Both are trained in turn in one process, guests included, and the medians are compared. The default as users get it ends with
scores on rows held back; the network is trained alone, as it was. Phishing and superconduct need FEDONCE_DATA.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

from sklearn.datasets import load_breast_cancer, load_digits

from benchmarks import store
from benchmarks.run import parties_of
from fedonce import FedOnceClassifier, FedOnceRegressor, FedOnceWarning
from fedonce.datasets import FETCHERS

RESULTS = store.RESULTS / "host_fit.json"
NETWORK = {"model": "network", "validate": False}


def of_scikit(load: Callable[..., Any], parties: int) -> Callable[[], tuple[Any, Any, Any, dict[str, Any]]]:
    """Return a loader of a data set of scikit-learn, evenly divided."""
    return lambda: (FedOnceClassifier, *load(return_X_y=True), {"parties": parties})


def of_paper(name: str) -> Callable[[], tuple[Any, Any, Any, dict[str, Any]]]:
    """Return a loader of the training rows of one of the paper's data sets, three bytes per row and guest."""

    def load() -> tuple[Any, Any, Any, dict[str, Any]]:
        data = FETCHERS[name](download=False)
        X, _, y, _ = data.split(0)
        kind = FedOnceClassifier if data.task == "classification" else FedOnceRegressor
        parties = parties_of(data, {})
        return kind, X, y, {"parties": parties, "host": next(iter(parties)), "dim": 3}

    return load


DATA = {
    "breast-cancer": of_scikit(load_breast_cancer, 2),
    "digits": of_scikit(load_digits, 4),
    "phishing": of_paper("phishing"),
    "superconduct": of_paper("superconduct"),
}


def seconds(name: str, repeat: int) -> dict[str, float]:
    """Return the median seconds of both."""
    kind, X, y, given = DATA[name]()
    taken: dict[str, list[float]] = {"default": [], "network": []}
    for _ in range(repeat):
        for which, more in (("default", {}), ("network", NETWORK)):
            started = time.perf_counter()
            kind(**given, **more, random_state=0).fit(X, y)
            taken[which].append(time.perf_counter() - started)
    return {which: round(statistics.median(each), 3) for which, each in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", FedOnceWarning)
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in arguments.data.split(","):
        line = seconds(name, arguments.repeat)
        line["network over default"] = round(line["network"] / line["default"], 2)
        found[name] = line | store.origin("cpu")
        print(name, line, flush=True)
        RESULTS.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
