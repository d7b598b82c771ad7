"""Which share of the variance of a guest's prepared columns d principal components keep: what the rule of `auto` looks at.

    python -m benchmarks.kept_variance [--data phishing,covtype] [--dims 3,8,12]

For each data set and d: the least and the greatest share over the guests, on the training rows of the experiment `learners`,
seed 0.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.columns import select
from benchmarks.data import fetch
from benchmarks.rows import scored_on
from benchmarks.run import parties_of
from fedonce import InputError
from fedonce.data.preparation import Preparation
from fedonce.data.table import Table
from fedonce.datasets import Dataset

TABLES = {"phishing": {}, "superconduct": {}, "ujiindoorloc": {"target": "longitude"}, "covtype": {}}


def shares(data: Dataset, dims: list[int]) -> dict[int, list[float]]:
    """Return by d the share that each guest's components keep."""
    table = scored_on("validation", data, 0).split(0).X_train
    found: dict[int, list[float]] = {dim: [] for dim in dims}
    for party, columns in list(parties_of(data, {}).items())[1:]:
        own = Table.of(select(table, list(columns)))
        rows = np.asarray(Preparation(party).fit(own).transform(own), dtype=np.float64)
        variances = np.linalg.eigvalsh(np.cov(rows, rowvar=False))[::-1]
        for dim in dims:
            found[dim].append(float(variances[:dim].sum() / variances.sum()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(TABLES))
    parser.add_argument("--dims", default="3,8,12")
    given = parser.parse_args()
    for name in given.data.split(","):
        try:
            data = fetch(name, TABLES.get(name, {}))
        except InputError as error:
            print(f"{name}: skipped. {error}", flush=True)
            continue
        for dim, kept in shares(data, [int(dim) for dim in given.dims.split(",")]).items():
            print(
                f"{name} d={dim}: {100 * min(kept):.0f} to {100 * max(kept):.0f} % over {len(kept)} guests", flush=True
            )


if __name__ == "__main__":
    main()
