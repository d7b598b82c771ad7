"""Own columns and guests' values as one table, for models that take no more; and rows to learn from how to do without guests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.hostmodels.base import Examples
from fedonce.training.loop import Rows


def with_gaps(own: Rows, values: Rows, present: Rows, dims: Sequence[int]) -> Rows:
    """Return own columns and guests' values side by side, NaN where a guest does not have a row."""
    seen = np.where(_has(present, dims), values, np.float32(np.nan))
    return np.hstack([own, seen]).astype(np.float32, copy=False)


def with_marks(own: Rows, values: Rows, present: Rows, dims: Sequence[int]) -> Rows:
    """Return own columns, guests' values, zeros where a guest does not have a row, and 1 or 0 per guest for whether it has."""
    seen = np.where(_has(present, dims), values, np.float32(0))
    return np.hstack([own, seen, present]).astype(np.float32, copy=False)


def _has(present: Rows, dims: Sequence[int]) -> NDArray[np.bool_]:
    return np.repeat(present > 0, np.asarray(dims, dtype=np.intp), axis=1)


def without_guests(examples: Examples, rng: np.random.Generator) -> Examples:
    """Leave guests out: each with a chance that is drawn for each row, and that leaves out all of them in a fifth of the rows."""
    n_rows, n_guests = examples.present.shape
    chance = np.minimum(1.25 * rng.random((n_rows, 1)), 1.0)
    return replace(examples, present=examples.present * (rng.random((n_rows, n_guests)) >= chance))


def joined(first: Examples, second: Examples) -> Examples:
    """Return the rows of both."""
    weight = None
    if first.weight is not None and second.weight is not None:
        weight = np.concatenate([first.weight, second.weight])
    names = ("own", "values", "present", "target")
    own, values, present, target = (np.concatenate([getattr(first, name), getattr(second, name)]) for name in names)
    return Examples(own, values, present, target, weight, first.noisy)


def repeated(examples: Examples, share: float, rng: np.random.Generator) -> Examples:
    """Add a share of the rows once more, with guests left out."""
    if not share or not examples.present.shape[1]:
        return examples
    again = rng.choice(len(examples.own), round(share * len(examples.own)), replace=False)
    return joined(examples, without_guests(examples.take(again), rng))


def held_back(
    target: NDArray[Any], share: float, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows to learn from and rows to try on, with the same mix of classes, or of small and large numbers, in both."""
    order = rng.permutation(len(target))
    order = order[np.argsort(target[order], kind="stable")]
    step = round(1 / share)
    held = np.arange(len(order)) % step == step - 1  # of a class with few rows, none
    return np.sort(order[~held]), np.sort(order[held])
