"""Rows held back from a training: to stop by, to weigh models with, and to say how good they are."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

from fedonce.errors import InputError
from fedonce.hostmodels.base import Split
from fedonce.training.loop import Rows

HELD_SHARE = 1 / 7
MOST_HELD = 20_000  # rows: more would not make a score much surer, and are better learnt from
FEW = 2_000  # rows below which every row is held back once, in turn
FOLDS = 3
LEAST = 2  # rows: of fewer, what is left cannot be learnt from


def splits(target: NDArray[np.generic], rng: np.random.Generator) -> tuple[Split, ...]:
    """Hold back a seventh of the rows; where rows are few, each fold in turn, so that all are."""
    n_rows, seed = len(target), int(rng.integers(2**31))
    if n_rows < LEAST:
        raise InputError(
            f"To choose among models, rows are held back: at least {LEAST} with labels are needed. Got n_samples={n_rows}. "
            "Add rows, or take the network (model).",
            parameter="model",
        )
    counts = np.zeros(0, np.intp) if target.dtype.kind == "f" else np.unique(target, return_counts=True)[1]
    if n_rows >= FEW:
        most = min(HELD_SHARE, MOST_HELD / n_rows)
        # Each class must have a row on both sides.
        by = target if len(counts) and counts.min() >= 2 and len(counts) <= most * n_rows else None
        learn, held = train_test_split(np.arange(n_rows), test_size=most, random_state=seed, stratify=by)
        return (Split(np.sort(learn), np.sort(held)),)
    if len(counts) and counts.max() >= 2:  # a class with fewer rows than folds would be missing from what is learnt
        made = StratifiedKFold(int(np.clip(counts.min(), 2, FOLDS)), shuffle=True, random_state=seed)
    else:
        made = KFold(min(FOLDS, n_rows), shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a class has one row: it is held back once, as all are
        return tuple(Split(learn, held) for learn, held in made.split(target, target))


def average(rows: NDArray[np.float64], weight: NDArray[np.float64] | None) -> float:
    """Return the mean of rows by their weights; of all alike where none has a weight, as may be among rows held back."""
    return float(np.average(rows, weights=weight if weight is not None and weight.any() else None))


def chances(outputs: Rows | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of logits."""
    shifted = np.exp(outputs - outputs.max(axis=1, keepdims=True), dtype=np.float64)
    found: NDArray[np.float64] = shifted / shifted.sum(axis=1, keepdims=True)
    return found


def standard_error(rows: NDArray[np.float64], weight: NDArray[np.float64] | None) -> float:
    """Return the standard error of a mean of rows by their weights."""
    if len(rows) < 2:
        return float("inf")
    weights = np.ones(len(rows)) if weight is None else weight
    centred = rows - np.average(rows, weights=weights)
    return float(np.sqrt(np.square(weights * centred).sum()) / weights.sum())
