"""How many entries `cooccurrence` should send where bytes are few: its error by bytes per row and by entries per byte.

    python -m benchmarks.few_bytes_categories

MovieLens, host auxiliary, trees: 60,000 of the training rows, scored on 20,000 validation rows. The last column, 32 entries per
byte, is as many as there may be (16), each of which has to make do with a fraction of a bit.
"""

from __future__ import annotations

import json
import warnings

import numpy as np

from benchmarks.data import fetch
from benchmarks.rows import scored_on, take
from fedonce import FedOnceRegressor, FedOnceWarning
from fedonce.learners import Cooccurrence

ROWS, SCORED = 60_000, 20_000
BYTES, PER_BYTE = (0.5, 1, 2, 4), (2, 3, 4, 32)


def main() -> None:
    """Print a line for each."""
    data, rng = scored_on("validation", fetch("movielens", {}), 0), np.random.default_rng(0)
    X, X_held, y, y_held = data.split(0)
    rows, held = rng.choice(len(y), ROWS, replace=False), rng.choice(len(y_held), SCORED, replace=False)
    for most in BYTES:
        for per_byte in PER_BYTE:
            model = FedOnceRegressor(
                parties=dict(data.parties),
                host="auxiliary",
                learner=Cooccurrence(values_per_byte=per_byte),
                bytes_per_row=most,
                model="trees",
                validate=False,
                random_state=0,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FedOnceWarning)
                predicted = model.fit(take(X, rows), y[rows]).predict(take(X_held, held))
            error = float(np.sqrt(np.mean((predicted - y_held[held]) ** 2)))
            told = {"bytes per row": most, "entries per byte": per_byte, "entries": model.dims_["ids"]}
            taken = model.traffic_.payload_bytes / ROWS
            print(json.dumps(told | {"taken": round(taken, 2), "error": round(error, 4)}), flush=True)


if __name__ == "__main__":
    main()
