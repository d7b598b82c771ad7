"""How much each row counts: what a user gives per row, times what a user gives per class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight

from fedonce.errors import InputError, parameter_error, shown


def weights_of(
    sample_weight: ArrayLike | None,
    class_weight: str | Mapping[Any, float] | None,
    X: Any,
    label: NDArray[Any],
    task: str,
    owner: str,
) -> NDArray[np.float64] | None:
    """Return a weight per row; None: all count alike."""
    weight = None
    if sample_weight is not None:
        _check_numbers(sample_weight, owner)
        weight = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
    if class_weight is None:
        return weight
    by_class = class_weights(class_weight, label, task, owner)
    return by_class if weight is None else weight * by_class


def _check_numbers(sample_weight: ArrayLike, owner: str) -> None:
    try:
        np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):  # which would show one of them
        raise InputError(f"The 'sample_weight' of {owner} must be numbers, one per row.") from None


def class_weights(
    class_weight: str | Mapping[Any, float], label: NDArray[Any], task: str, owner: str
) -> NDArray[np.float64]:
    """Return the weight of each row's class; "balanced": all classes count alike, however rare."""
    if task == "regression":
        raise parameter_error(owner, "class_weight", "left out for numbers, which have no classes", class_weight)
    wanted = "'balanced', a dict of classes to weights, or None"
    if class_weight != "balanced" if isinstance(class_weight, str) else not isinstance(class_weight, Mapping):
        raise parameter_error(owner, "class_weight", wanted, class_weight)
    if not isinstance(class_weight, str):
        known = set(np.unique(label).tolist())
        unknown = [each for each in class_weight if each not in known]
        if unknown:
            raise InputError(
                f"The 'class_weight' of {owner} names the class {shown(unknown[0])}, which y does not have."
            )
    try:
        return np.asarray(compute_sample_weight(class_weight, label), dtype=np.float64)
    except (TypeError, ValueError):
        raise parameter_error(owner, "class_weight", wanted, class_weight) from None
