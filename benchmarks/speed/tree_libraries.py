"""Which library for the host model "trees": accuracy on validation rows, seconds, and the size of the model.

    python -m benchmarks.speed.tree_libraries [--cases phishing,superconduct] [--threads 1]

Each library gets the same table, the host's own columns and the guests' values of `benchmarks.datasets` (seed 0), and stops by
the same sixth of the training rows; extra trees, which need not stop, get all of them. Boosting: at most 1,000 trees at rate
0.05, 63 leaves (XGBoost: depth 9), row share 0.8, column share 0.6. No test row is looked at. Seconds are of the processor: other
programs on the machine do not count. *Stored* is the model without pickle: the library's own text or bytes, or skops. Reads
FEDONCE_DATA; needs the packages xgboost and skops.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn import ensemble

from benchmarks.datasets import CASES, for_validation
from benchmarks.run import parties_of
from fedonce import FedOnceClassifier, FedOnceRegressor
from fedonce.datasets import FETCHERS
from fedonce.hostmodels import Facts, HostModel

DEFAULT = "phishing,superconduct,covtype,ujiindoorloc-longitude,ujiindoorloc-timestamp"
TREES, RATE, LEAVES, DEPTH, ROW_SHARE, COLUMN_SHARE, PATIENCE = 1000, 0.05, 63, 9, 0.8, 0.6, 50
Predict = Callable[[np.ndarray], np.ndarray]


@dataclass(eq=False)
class Collector(HostModel):
    """No model: it keeps what one would learn from, and what one would predict."""

    name: ClassVar[str] = "collector"
    facts: ClassVar[Facts] = Facts()
    kept: ClassVar[dict[str, Any]] = {}  # of the class: hosts copy their models

    def fit(self, examples, dims, n_outputs, rng, device):
        """Keep the training rows."""
        found = {"X": np.hstack([examples.own, examples.values]), "y": examples.target, "outputs": n_outputs}
        self.kept.update(found)
        return []

    def outputs(self, own, values, present, device):
        """Keep the rows, and predict nothing."""
        self.kept["X_held"] = np.hstack([own, values])
        return np.zeros((len(own), self.kept["outputs"]), np.float32)

    def state(self):
        """Return nothing."""
        return {}

    def restore(self, tensors, inputs):
        """Take nothing."""
        return


def problem(name: str) -> dict[str, Any]:
    """Return the host's table of a case of `benchmarks.datasets`: training rows, and validation rows to score on."""
    case = CASES[name]
    data = for_validation(FETCHERS[case.data](**case.loader), 0)
    X, X_held, y, y_held = data.split(0)
    estimator = FedOnceClassifier if data.task == "classification" else FedOnceRegressor
    parties = parties_of(data, {})
    model = estimator(parties, dim=case.dim, bits=case.bits, random_state=0, model=Collector()).fit(X, y)
    model.predict(X_held)
    kept = Collector.kept
    if data.task == "classification":
        return {**kept, "y_held": np.searchsorted(model.classes_, y_held)}
    return {**kept, "y_held": (y_held - y.mean()) / y.std(), "spread": y.std()}


def score(table: dict[str, Any], raw: np.ndarray) -> float:
    """Return accuracy in per cent, or the root mean squared error in the labels' own unit."""
    if table["outputs"] > 1:
        return float(100 * np.mean((raw > 0) == table["y_held"]))
    return float(table["spread"] * np.sqrt(np.mean(np.square(raw - table["y_held"]))))


def lightgbm(table: dict[str, Any], threads: int) -> tuple[Predict, int, int]:
    import lightgbm

    settings = {"learning_rate": RATE, "num_leaves": LEAVES, "feature_fraction": COLUMN_SHARE, "num_threads": threads}
    settings |= {"bagging_fraction": ROW_SHARE, "bagging_freq": 1, "seed": 0, "verbose": -1}
    settings |= {"objective": "binary" if table["outputs"] > 1 else "regression"}
    settings |= {"deterministic": True, "force_row_wise": True}
    train = lightgbm.Dataset(table["X"][table["kept"]], table["y"][table["kept"]])
    stop = train.create_valid(table["X"][table["stop"]], table["y"][table["stop"]])
    patience = lightgbm.early_stopping(PATIENCE, verbose=False)
    made = lightgbm.train(settings, train, TREES, valid_sets=[stop], callbacks=[patience])
    return lambda X: made.predict(X, raw_score=True), made.best_iteration, len(made.model_to_string())


def xgboost(table: dict[str, Any], threads: int) -> tuple[Predict, int, int]:
    import xgboost

    settings = {"eta": RATE, "max_depth": DEPTH, "subsample": ROW_SHARE, "colsample_bytree": COLUMN_SHARE, "seed": 0}
    settings |= {"nthread": threads, "objective": "binary:logistic" if table["outputs"] > 1 else "reg:squarederror"}
    train, stop = (xgboost.DMatrix(table["X"][rows], table["y"][rows]) for rows in (table["kept"], table["stop"]))
    made = xgboost.train(
        settings, train, TREES, evals=[(stop, "stop")], early_stopping_rounds=PATIENCE, verbose_eval=False
    )
    best = made[: made.best_iteration + 1]
    return (
        lambda X: best.predict(xgboost.DMatrix(X), output_margin=True),
        made.best_iteration,
        len(best.save_raw("ubj")),
    )


def histogram(table: dict[str, Any], threads: int) -> tuple[Predict, int, int]:
    kind = "Classifier" if table["outputs"] > 1 else "Regressor"
    made = getattr(ensemble, f"HistGradientBoosting{kind}")(
        learning_rate=RATE,
        max_iter=TREES,
        max_leaf_nodes=LEAVES,
        max_features=COLUMN_SHARE,
        early_stopping=True,
        n_iter_no_change=PATIENCE,
        random_state=0,
    )
    kept, stop = table["kept"], table["stop"]
    made.fit(table["X"][kept], table["y"][kept], X_val=table["X"][stop], y_val=table["y"][stop])
    return made.decision_function if table["outputs"] > 1 else made.predict, made.n_iter_, _with_skops(made)


def extra(table: dict[str, Any], threads: int) -> tuple[Predict, int, int]:
    kind, share = ("Classifier", 0.5) if table["outputs"] > 1 else ("Regressor", 1.0)
    made = getattr(ensemble, f"ExtraTrees{kind}")(300, max_features=share, n_jobs=threads, random_state=0)
    made.fit(table["X"], table["y"])
    predict = made.predict if table["outputs"] == 1 else lambda X: made.predict_proba(X)[:, 1] - 0.5
    return predict, 300, _with_skops(made)


def _with_skops(made: object) -> int:
    import skops.io

    return len(skops.io.dumps(made))


LIBRARIES = {"LightGBM": lightgbm, "XGBoost": xgboost, "HistGradientBoosting": histogram, "ExtraTrees": extra}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=DEFAULT)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        "| data | library | score | trees | seconds of training | of prediction | stored, MB |\n|---|---|---|---|---|---|---|"
    )
    for name in options.cases.split(","):
        table = problem(name)
        order = np.random.default_rng(0).permutation(len(table["y"]))
        table["stop"], table["kept"] = np.split(order, [len(order) // 6])
        for library, fit in LIBRARIES.items():
            started = time.process_time()
            predict, trees, size = fit(table, options.threads)
            trained = time.process_time()
            value = score(table, predict(table["X_held"]))
            took, then = trained - started, time.process_time() - trained
            print(
                f"| {name} | {library} | {value:.4g} | {trees} | {took:.1f} | {then:.2f} | {size / 1e6:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
