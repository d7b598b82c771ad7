"""The data of experiments: the project's loaders by name, a stand-in, and small sets that need no file."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from fedonce import tiles
from fedonce.datasets import FETCHERS, SOURCES, Dataset

# What stands for a data set in a small run: pixels, classes or numbers.
EMBEDDED = {
    name: "digits" if source.image else "diabetes" if source.task == "regression" else "breast-cancer"
    for name, source in SOURCES.items()
} | {
    "mnist-4-9": "breast-cancer",
    "digits": "digits",
    "digits-8x8": "digits",
    "breast-cancer": "breast-cancer",
    "diabetes": "diabetes",
    "shop": "breast-cancer",
}
EXAMPLE = Path(__file__).parents[1] / "examples" / "two_departments" / "make_tables.py"


def known() -> list[str]:
    """Return every name that `fetch` takes."""
    return list(EMBEDDED)


def options(name: str) -> list[str]:
    """Return what the loader of a data set can be told, beside where its files are."""
    if name not in FETCHERS:
        return []
    return [
        option for option in signature(FETCHERS[name]).parameters if option not in ("data_dir", "download", "verify")
    ]


def fetch(name: str, loader: dict[str, Any]) -> Dataset:
    """Load a data set; raises InputError where its files are not here."""
    if name in FETCHERS:
        return FETCHERS[name](download=False, **loader)
    return MADE[name]()


def mnist_4_9() -> Dataset:
    """MNIST's fours and nines as a table of 784 columns: the task of gisette, whose files are often missing."""
    data = FETCHERS["mnist"](download=False)
    kept = np.isin(data.target, (4, 9))
    return replace(
        data,
        name="mnist-4-9",
        data=data.data[kept],
        target=data.target[kept],
        image=None,
        parties=10,
        n_official_test=int(kept[-data.n_official_test :].sum()) if data.n_official_test else 0,
    )


def digits() -> Dataset:
    """Return scikit-learn's digits, enlarged to 16x16 pixels so that a convolution fits a quadrant; four quadrants."""
    images, y = load_digits().images, load_digits().target
    X = images.repeat(2, axis=1).repeat(2, axis=2).reshape(len(y), 256)
    names = tuple(f"pixel_{j}" for j in range(256))
    parties = tiles((16, 16), (2, 2))
    return Dataset("digits", X, y, names, "classification", parties, True, "BSD", "scikit-learn", image=(1, 16, 16))


def digits_8x8() -> Dataset:
    """Return scikit-learn's digits as they are; four quadrants."""
    X, y = load_digits(return_X_y=True)
    names = tuple(f"pixel_{j}" for j in range(64))
    parties = tiles((8, 8), (2, 2))
    return Dataset("digits-8x8", X, y, names, "classification", parties, True, "BSD", "scikit-learn", image=(1, 8, 8))


def breast_cancer() -> Dataset:
    """Return scikit-learn's breast cancer rows, ten parties of three columns."""
    X, y = load_breast_cancer(return_X_y=True)
    names = tuple(f"column_{j}" for j in range(X.shape[1]))
    return Dataset("breast-cancer", X, y, names, "classification", 10, True, "CC BY 4.0", "scikit-learn")


def diabetes() -> Dataset:
    """Return scikit-learn's diabetes rows, five parties of two columns."""
    X, y = load_diabetes(return_X_y=True)
    names = tuple(f"column_{j}" for j in range(X.shape[1]))
    return Dataset("diabetes", X, y, names, "regression", 5, True, "public", "scikit-learn", unit_range=True)


def shop() -> Dataset:
    """Return the people whom the bank and the shop of examples/two_departments share; the bank says who repaid."""
    with tempfile.TemporaryDirectory() as made:
        subprocess.run([sys.executable, str(EXAMPLE), made], check=True)
        bank, own = (
            pa.concat_tables([csv.read_csv(Path(made) / party / name) for name in names], promote_options="permissive")
            for party, names in (
                ("bank", ("bank.csv", "held_back.csv")),
                ("shop", ("shop.csv", "new_customers.csv")),
            )
        )
    both = bank.join(own, "customer", "client_no", join_type="inner").sort_by("customer")
    columns = both.drop_columns(["customer", "repaid"])
    n_bank = bank.num_columns - 2
    parties = {"bank": list(range(n_bank)), "shop": list(range(n_bank, columns.num_columns))}
    target = np.asarray(both["repaid"].to_numpy(zero_copy_only=False), dtype=object).astype(str)
    names = tuple(columns.column_names)
    return Dataset("shop", columns, target, names, "classification", parties, True, "Apache-2.0", "made up")


MADE = {
    "shop": shop,
    "mnist-4-9": mnist_4_9,
    "digits": digits,
    "digits-8x8": digits_8x8,
    "breast-cancer": breast_cancer,
    "diabetes": diabetes,
}
