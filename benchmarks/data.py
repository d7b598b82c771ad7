"""Real data for measurements, read from the folder in FEDONCE_DATA, and how it is divided among parties."""

from __future__ import annotations

import gzip
import lzma
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_svmlight_file
from sklearn.model_selection import train_test_split

from fedonce import tiles


@dataclass(frozen=True)
class Data:
    """Rows, labels, who holds what, and whether a class or a number is predicted."""

    name: str
    X: np.ndarray
    y: np.ndarray
    parties: Any
    task: str

    def split(self, seed: int, test: float = 0.1) -> list[np.ndarray]:
        """Return X_train, X_test, y_train, y_test; classes in equal shares."""
        stratify = self.y if self.task == "classification" else None
        return train_test_split(self.X, self.y, test_size=test, random_state=seed, stratify=stratify)


def folder() -> Path | None:
    """Return the folder with real data, or None."""
    named = os.environ.get("FEDONCE_DATA")
    return Path(named) if named and Path(named).is_dir() else None


def digits() -> Data:
    """Return the 8x8 digits of scikit-learn, four quadrants."""
    X, y = load_digits(return_X_y=True)
    return Data("digits", X, y, tiles((8, 8), (2, 2)), "classification")


def phishing(root: Path) -> Data:
    X, y = load_svmlight_file(str(root / "phishing" / "phishing"))
    return Data("phishing", X.toarray().astype(np.float32), y.astype(int), 10, "classification")


def superconduct(root: Path) -> Data:
    import pandas as pd

    table = pd.read_csv(root / "superconduct" / "train.csv.xz").to_numpy(np.float32)
    return Data("superconduct", table[:, :-1], _unit(table[:, -1]), 10, "regression")


def ujiindoorloc(root: Path) -> Data:
    """Return the real task: longitude from the 520 signals; 100 means "not heard"."""
    import pandas as pd

    with zipfile.ZipFile(root / "ujiindoorloc" / "UJIndoorLoc.zip") as archive:
        name = next(entry for entry in archive.namelist() if entry.endswith("trainingData.csv"))
        with archive.open(name) as file:
            table = pd.read_csv(file)
    signals = table.iloc[:, :520].replace(100, -110).to_numpy(np.float32)
    return Data("ujiindoorloc longitude", signals, _unit(table["LONGITUDE"].to_numpy(np.float32)), 10, "regression")


def covtype(root: Path) -> Data:
    with lzma.open(root / "covtype" / "covtype-subset-92962.data.xz") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    return Data("covtype (subset)", table[:, :-1], (table[:, -1] == 2).astype(int), 10, "classification")


def mnist(root: Path, name: str = "mnist") -> Data:
    """Return the training images of MNIST or Fashion-MNIST, four quadrants."""
    with gzip.open(root / name / "train-images-idx3-ubyte.gz") as file:
        X = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(root / name / "train-labels-idx1-ubyte.gz") as file:
        y = np.frombuffer(file.read(), np.uint8, offset=8).astype(int)
    return Data(name, X, y, tiles((28, 28), (2, 2)), "classification")


def _unit(label: np.ndarray) -> np.ndarray:
    """Scale a label to 0..1 by its range, as the paper does."""
    return (label - label.min()) / (label.max() - label.min())
