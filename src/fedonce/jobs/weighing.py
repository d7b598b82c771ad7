"""How much each row counts in a host's training: by a column of its table, and by its class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.data.table import as_text, did_you_mean, is_missing
from fedonce.errors import InputError, parameter_error, quoted
from fedonce.estimators.weights import class_weights

BALANCED = "balanced"
ClassWeight = str | Mapping[str, float] | None


@dataclass(frozen=True)
class Weighing:
    """How much rows count.

    Parameters
    ----------
    column : str, optional
        A column of the table, taken out of the features: a number of at least 0 per row.
    classes : "balanced", or dict by class, optional
        What rows count more by their class; the classes as text, those that are not named 1. "balanced": all classes alike,
        however rare.
    """

    column: str | None = None
    classes: ClassWeight = None

    def __post_init__(self) -> None:
        if self.classes is None or self.classes == BALANCED:
            return
        good = isinstance(self.classes, Mapping) and all(_is_weight(each) for each in self.classes.values())
        if not good:
            wanted = "'balanced', or a dict of classes to finite numbers of at least 0"
            raise parameter_error("HostJob", "class_weight", wanted, self.classes)

    def check_column(self, id: str | None, label: str | None) -> None:
        """Raise where the column of weights is one that has another use."""
        for parameter, name in (("id", id), ("label", label)):
            if self.column is not None and self.column == name:
                raise InputError(
                    f"Column {name!r} is to be the weights (weight) and also what {parameter!r} names; name another one.",
                    parameter="weight",
                )

    def weights(
        self, given: NDArray[Any] | None, label: NDArray[Any], task: str, path: object
    ) -> NDArray[np.float64] | None:
        """Return a weight per row, from the column's values and the labels; None: all count alike."""
        found = None if given is None else column_weights(given, f"Column {self.column!r} of {path}")
        if self.classes is None:
            return found
        by_class = class_weights(self._by_value(label, task), label, task, "HostJob")
        return by_class if found is None else found * by_class

    def _by_value(self, label: NDArray[Any], task: str) -> str | dict[Any, float]:
        """Return the weights by the labels themselves, which are named as text."""
        if task == "regression" or isinstance(self.classes, str) or self.classes is None:
            return BALANCED
        named = {_name(value): value for value in np.unique(label).tolist()}
        given = {name.lower() if label.dtype.kind == "b" else name: each for name, each in self.classes.items()}
        for name in given:
            if name not in named:
                raise InputError(
                    f"A weight is given (class_weight) for the class {quoted(name)}, which the labels do not have"
                    f"{did_you_mean(name, list(named))}",
                    parameter="class_weight",
                )
        return {named[name]: float(weight) for name, weight in given.items()}


def _name(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else as_text(value)


def _is_weight(value: object) -> bool:
    return type(value) in (int, float) and 0 <= float(value) < math.inf  # type: ignore[arg-type]


def column_weights(values: NDArray[Any], column: str) -> NDArray[np.float64]:
    """Return a column of weights as numbers; raise where they cannot be meant."""
    if values.dtype.kind not in "iufb":
        what = "dates" if values.dtype.kind == "M" else "text"
        raise InputError(
            f"{column} is to say how much rows count, and holds {what}; name one of numbers (weight).",
            parameter="weight",
        )
    gaps = np.flatnonzero([is_missing(each) for each in values.tolist()])
    if len(gaps):
        raise InputError(
            f"{column} has no weight in {len(gaps)} of {len(values)} rows, first in row {gaps[0] + 1}; fill them in, with 0 for "
            "rows that are not to count, or name another column (weight).",
            parameter="weight",
        )
    found = values.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if len(bad):
        raise InputError(
            f"{column} is to say how much rows count (weight), and {len(bad)} of {len(found)} are below 0 or infinite, first "
            f"in row {bad[0] + 1}; weights are finite numbers of at least 0.",
            parameter="weight",
        )
    if not found.any():
        raise InputError(
            f"{column} is 0 in every row: no row would count; name another column (weight).", parameter="weight"
        )
    return found
