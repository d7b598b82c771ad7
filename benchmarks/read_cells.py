"""How well a message of cells is read, column by column: that many rows share it hides which row it is, and not what it says.

    python -m benchmarks.read_cells [--data phishing]

For a data set of flags, all guests of its usual division: the share of entries that are right where each flag is taken to be set
or not as the row's centre is nearer to, by who knows the centres in the columns' own units; the same for cells that are sent by
number alone, by who knows the columns of three rows in four (`fedonce.assess.leakage`).
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.columns import select
from benchmarks.data import fetch
from benchmarks.run import parties_of
from fedonce import Guest
from fedonce.assess.leakage import reconstruct
from fedonce.data.table import Table
from fedonce.learners import PCA, Cells


def by_centres(flags: NDArray[Any]) -> float:
    """Return how much is right where flags are read off the centres."""
    guest = Guest("guest", Cells(), dim=64)
    values, base = guest.learn(flags).values, guest.learner.base_
    assert isinstance(base, PCA)
    assert base.directions_ is not None
    assert base.mean_ is not None
    columns = values @ base.directions_[: values.shape[1]] + base.mean_
    rows = guest.preparation.transform(Table.of(flags))
    middle = (rows.min(axis=0) + rows.max(axis=0)) / 2
    return float(((columns > middle) == (rows > middle)).mean())


def by_known_rows(flags: NDArray[Any]) -> float:
    """Return how much is right where cells have numbers alone, and who reads them knows other rows."""
    values = Guest("guest", Cells(centres=False)).learn(flags).values
    table = Table.of(flags > flags.mean(axis=0))
    return float(np.mean([found.score for found in reconstruct(values, table) if found.score is not None]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="phishing")
    name = parser.parse_args().data
    data = fetch(name, {})
    for what, read in (("centres", by_centres), ("numbers alone", by_known_rows)):
        guests = [list(columns) for columns in parties_of(data, {}).values()][1:]
        right = [read(np.asarray(select(data.data, columns))) for columns in guests]
        print(f"{name}, cells by {what}: {100 * np.mean(right):.1f} % of entries are read right", flush=True)


if __name__ == "__main__":
    main()
