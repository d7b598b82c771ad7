"""Labels: what can be learnt from, and how a model sees them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.data.preparation import as_bounds
from fedonce.data.table import TOO_LARGE, as_text, is_missing, is_too_large
from fedonce.errors import FedOnceWarning, InputError, quoted, shown


@dataclass(frozen=True, eq=False)
class Targets:
    """What a model learns for each row: the position of its class, or its number on a scale of the model's."""

    values: NDArray[Any]
    classes: NDArray[Any] | None = None
    offset: float = 0.0
    spread: float = 1.0


@dataclass(frozen=True, eq=False)
class Labels:
    """How a host takes its labels.

    Parameters
    ----------
    host, task : str
        Whose they are, and what for.
    public : array, optional
        With a privacy budget: the classes, or the bounds of numbers, by public knowledge (`check_labels`).
    """

    host: str
    task: str
    public: NDArray[Any] | None = None

    def check(self, label: Any, n_rows: int) -> None:
        """Raise where labels cannot be learnt from, before anybody spends time on it."""
        values = np.asarray(label)
        if values.shape != (n_rows,) or not n_rows:
            raise InputError(
                f"The host {self.host!r} has {n_rows} rows and labels of shape {values.shape}; there must be one label per row. "
                "(Found input variables with inconsistent numbers of samples.)"
            )
        _check_gaps(values)
        if self.task == "classification":
            _check_classes(values, self.public)
        elif self.public is None:
            with np.errstate(over="ignore", invalid="ignore"):
                if not np.isfinite(_as_numbers(values).var()):
                    raise InputError("The labels y are too large to scale; divide them by a constant.")
        else:
            _check_several(values)

    def targets(self, label: Any, n_rows: int) -> Targets:
        """Return classes as their positions, numbers standardised."""
        self.check(label, n_rows)
        if self.public is not None:
            return self._public_targets(np.asarray(label), self.public)
        if self.task == "classification":
            classes, codes = np.unique(np.asarray(label), return_inverse=True)
            return Targets(codes.astype(np.int64), classes)
        numbers = np.asarray(label).astype(np.float64)
        offset, spread = float(numbers.mean()), float(numbers.std()) or 1.0
        return Targets((numbers - offset) / spread, None, offset, spread)

    def _public_targets(self, label: NDArray[Any], public: NDArray[Any]) -> Targets:
        """Return classes as their positions among the public ones, numbers between -1 and 1 by their public bounds."""
        if self.task == "classification":
            position = {as_text(value): code for code, value in enumerate(public.tolist())}
            return Targets(np.array([position[as_text(value)] for value in label.tolist()], dtype=np.int64), public)
        numbers = label.astype(np.float64)
        low, high = public
        if ((numbers < low) | (numbers > high)).any():
            warnings.warn(
                f"The host {self.host!r} has labels beyond the bounds given; they were set to the bounds.",
                FedOnceWarning,
                stacklevel=2,
            )
        offset, spread = float(low + high) / 2, float(high - low) / 2
        return Targets((np.clip(numbers, low, high) - offset) / spread, None, offset, spread)


def _check_gaps(values: NDArray[Any]) -> None:
    if values.dtype == object:
        _check_label_cells(values)
        bad = np.array([is_missing(value) for value in values])
    else:
        bad = ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    if bad.any():
        row = int(bad.argmax())
        found = values.tolist()[row]
        raise InputError(f"The labels y must not contain NaN or infinity. Got {found!r} in row {row}; drop such rows.")


def _check_classes(values: NDArray[Any], public: NDArray[Any] | None) -> None:
    if public is None:
        _check_several(values)
        return
    unknown = sorted({as_text(value) for value in values.tolist()} - {as_text(value) for value in public.tolist()})
    if unknown:
        raise InputError(
            f"The labels y have the class {quoted(unknown[0])}, which is not among those given: {shown(public.tolist())}."
        )


def _check_several(values: NDArray[Any]) -> None:
    try:
        classes = np.unique(values)
    except TypeError:
        raise InputError("The labels y mix text and numbers; make them all one or the other.") from None
    if len(classes) < 2:
        raise InputError(
            f"The labels must have at least two classes. Got one class only: {shown(classes.tolist()[0])}."
        )


def check_labels(labels: Any, task: str) -> NDArray[Any]:
    """Return the public classes in order, or the public bounds of numbers; raise where they are missing."""
    if task == "regression":
        pair = as_bounds(labels)
        if pair is None:
            raise InputError(
                "With a privacy budget the bounds of the labels must be given, target_bounds=(low, high) (of a Host: labels), "
                f"low below high. Got {shown(labels)}."
            )
        return np.array(pair)
    if labels is None or isinstance(labels, str) or np.ndim(labels) != 1 or len(np.unique(np.asarray(labels))) < 2:
        raise InputError(
            "With a privacy budget the classes must be given, two or more: target_bounds=[...] (of a Host: labels). "
            f"Got {shown(labels)}."
        )
    return np.unique(np.asarray(labels))


def _check_label_cells(values: NDArray[Any]) -> None:
    """Refuse labels of which one is many: no error may show them, and nothing could save them."""
    for row, value in enumerate(values):
        if isinstance(value, Iterable) and not isinstance(value, str | bytes):
            kind = type(value).__name__
            raise InputError(f"The labels y must be single values, one per row. Got a {kind} in row {row}.")
        if is_too_large(value):
            raise InputError(
                f"The labels y have {TOO_LARGE}, in row {row}; divide them by a constant, or make them text."
            )


def _as_numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError("The labels y must be numbers for regression; for classes, use classification.") from None
