"""What `auto` rests on where categories have many values: `cooccurrence` beside principal components of hashed columns.

    python -m benchmarks.many_values

MovieLens, host auxiliary, trees, 16 values: few of the training rows, scored on 20,000 validation rows. And made-up tables of
8,000 rows, scored on 2,000, trees, 8 values: the host has a column of no use, and the guest categories of 300 values, each with
an effect of its own. `related` is the share of rows in which both categories are of one group; numbers have an effect, too.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.data import fetch
from benchmarks.rows import scored_on, take
from fedonce import FedOnceRegressor, FedOnceWarning

LEARNERS = ("pca", "cooccurrence")
ROWS, SCORED = (3000, 10_000, 30_000, 60_000), 20_000
VALUES, GROUPS, MADE_UP = 300, 5, 10_000
# Categories, numbers, and the share of rows in which categories are of one group.
TABLES = ((2, 0, 0.0), (2, 0, 0.7), (2, 4, 0.0), (2, 4, 0.7), (2, 20, 0.7), (1, 4, 0.0), (1, 20, 0.0))


def errors(train: Any, y: Any, test: Any, y_test: Any, **settings: Any) -> dict[str, float]:
    """Return the root mean squared error with either learner."""
    found = {}
    for learner in LEARNERS:
        model = FedOnceRegressor(learner=learner, model="trees", validate=False, random_state=0, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FedOnceWarning)
            predicted = model.fit(train, y).predict(test)
        found[learner] = round(float(np.sqrt(np.mean((predicted - y_test) ** 2))), 4)
    return found


def few_rows() -> None:
    """Learn from samples of MovieLens, and print how many rows there are per value."""
    data, rng = scored_on("validation", fetch("movielens", {}), 0), np.random.default_rng(0)
    X, X_held, y, y_held = data.split(0)
    held = rng.choice(len(y_held), SCORED, replace=False)
    settings = {"parties": dict(data.parties), "host": "auxiliary", "dim": 16}
    for n_rows in ROWS:
        rows = rng.choice(len(y), n_rows, replace=False)
        sample = take(X, rows)
        per_value = [round(n_rows / len(sample[name].unique()), 1) for name in ("user", "movie")]
        found = errors(sample, y[rows], take(X_held, held), y_held[held], **settings)
        print(json.dumps({"data": "movielens", "rows": n_rows, "rows per value": per_value} | found), flush=True)


def made_up(categories: int, numbers: int, related: float) -> None:
    """Learn from a table that was made up."""
    rng = np.random.default_rng(0)
    group, X = rng.integers(0, GROUPS, MADE_UP), pd.DataFrame({"own": rng.standard_normal(MADE_UP)})
    y = 0.5 * rng.standard_normal(MADE_UP)
    for name in ("a", "b")[:categories]:
        own = np.where(rng.random(MADE_UP) < related, group, rng.integers(0, GROUPS, MADE_UP))
        codes = GROUPS * (VALUES // GROUPS * rng.random(MADE_UP) ** 2).astype(int) + own
        X[name], y = [f"{name}{code}" for code in codes], y + rng.standard_normal(VALUES)[codes]
    for j in range(numbers):
        X[f"n{j}"] = rng.standard_normal(MADE_UP)
        y = y + X[f"n{j}"].to_numpy() * rng.standard_normal() / np.sqrt(numbers)
    known = MADE_UP * 4 // 5
    parties = {"host": ["own"], "guest": [name for name in X if name != "own"]}
    found = errors(X[:known], y[:known], X[known:], y[known:], parties=parties, dim=8)
    print(json.dumps({"categories": categories, "numbers": numbers, "related": related} | found), flush=True)


if __name__ == "__main__":
    few_rows()
    for each in TABLES:
        made_up(*each)
