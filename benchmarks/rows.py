"""Which rows a run learns from, and on which it is scored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from fedonce.datasets import Dataset

# "test": the owner's test set where there is one, else a tenth by seed. "validation": a fifth of the training rows; test rows
# play no part. (A validation row of one seed may be a test row of another.) "quarter": a quarter of all rows, by seed.
PARTS = ("test", "validation", "quarter")


def scored_on(part: str, data: Dataset, seed: int) -> Dataset:
    """Return a data set whose split by the seed scores on a part of the rows: these come last, in the place of a test set."""
    if part == "test":
        return data
    every = np.arange(len(data.target)) if part == "quarter" else _without_test_rows(data, seed)
    kept, held = _divide(data, every, 0.25 if part == "quarter" else 0.2, seed)
    order = np.concatenate([kept, held])
    return replace(data, data=take(data.data, order), target=data.target[order], n_official_test=len(held))


def take(data: Any, rows: NDArray[Any]) -> Any:
    """Return some rows of an array or an Arrow table, by position."""
    return data[rows] if isinstance(data, np.ndarray) else data.take(rows)


def _without_test_rows(data: Dataset, seed: int) -> NDArray[Any]:
    """Leave a tenth out everywhere; where the owner has a test set, a tenth of the training rows beside it."""
    train, _ = data.rows(seed)
    return _divide(data, train, 0.1, seed, always_by_class=True)[0] if data.n_official_test else train


def _divide(
    data: Dataset, rows: NDArray[Any], share: float, seed: int, always_by_class: bool = False
) -> list[NDArray[Any]]:
    by_class = always_by_class or data.task == "classification"
    parts: list[NDArray[Any]] = train_test_split(
        rows, test_size=share, random_state=seed, stratify=data.target[rows] if by_class else None
    )
    return parts
