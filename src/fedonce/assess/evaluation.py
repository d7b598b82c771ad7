"""How good a host's predictions are, and what each party is worth for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import (
    average_precision_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from fedonce.assess import importance
from fedonce.assess.importance import Worth
from fedonce.data.table import Table, as_text, is_missing
from fedonce.errors import InputError
from fedonce.hostmodels.calibration import calibration_error
from fedonce.messages.representation import Representation
from fedonce.party import Host
from fedonce.rows.matching import Matching
from fedonce.training.loop import Rows


def codes_of(host: Host, label: NDArray[Any]) -> NDArray[np.intp]:
    """Return the positions of labels among the host's classes; -1: a class that training did not have."""
    assert host.classes is not None
    position = {as_text(value): code for code, value in enumerate(host.classes.tolist())}
    return np.array([position.get(as_text(value), -1) for value in label.tolist()], dtype=np.intp)


def _check(label: NDArray[Any]) -> None:
    infinite = (float("inf"), float("-inf"))
    bad = [row for row, value in enumerate(label.tolist()) if is_missing(value) or value in infinite]
    if bad or not len(label):
        first = f"the first is row {bad[0] + 1}" if bad else ""
        what = f"{len(bad)} of {len(label)} rows have no finite label, {first}" if bad else "there are no rows"
        raise InputError(f"Predictions cannot be compared with labels: {what}. Drop such rows, or use predict.")


def scores(host: Host, label: NDArray[Any], outputs: NDArray[np.float64]) -> dict[str, float]:
    """Return how good predictions of classes are, or the errors of numbers.

    Accuracy, log loss, the expected calibration error, the area under the curve (of more than two classes the mean of each
    against the rest, where all are there), and, of two, the average precision of the rarer one, which is named.
    """
    _check(label)
    if host.classes is None:
        numbers = label.astype(np.float64)
        found = {"rmse": root_mean_squared_error(numbers, outputs), "mae": mean_absolute_error(numbers, outputs)}
        return {**found, "r2": r2_score(numbers, outputs)} if len(label) > 1 else found
    codes = codes_of(host, label)
    found = {"accuracy": float((outputs.argmax(axis=1) == codes).mean())}
    if (codes >= 0).all():
        found["log loss"] = log_loss(codes, outputs, labels=np.arange(len(host.classes)))
        found["calibration error"] = calibration_error(outputs, codes)
        found |= _rankings(codes, outputs, host.classes.tolist())
    return found


def _rankings(codes: NDArray[np.intp], outputs: NDArray[np.float64], classes: list[Any]) -> dict[str, float]:
    """Return how well rows are put in order, where every class is there."""
    counts = np.bincount(codes, minlength=len(classes))
    if len(classes) < 2 or not counts.all():
        return {}
    if len(classes) > 2:
        mean = roc_auc_score(codes, outputs, multi_class="ovr", average="macro")
        return {"area under the curve, mean of classes": float(mean)}
    rarer = int(counts[1] <= counts[0])
    rare = codes == rarer, outputs[:, rarer]
    name = str(classes[rarer]) if isinstance(classes[rarer], bool) else as_text(classes[rarer])
    return {
        "area under the curve": float(roc_auc_score(*rare)),
        f"average precision of {name}": float(average_precision_score(*rare)),
    }


def worth(
    host: Host,
    table: Table,
    label: NDArray[Any],
    messages: Sequence[Representation],
    repeats: int = 5,
    seed: int = 0,
    matching: Matching | None = None,
) -> list[Worth]:
    """Say what each party is worth: how much accuracy falls, or the error rises, when its columns are shuffled among rows.

    `matching` says how the rows of messages are found; None: as the host was made.
    """
    _check(label)
    values, present = host.arrange(table, messages, matching)
    goal = label.astype(np.float64) if host.classes is None else codes_of(host, label)

    def score(rows: Rows, values: Rows, present: Rows) -> float:
        outputs = host.outputs_of(rows, values, present)
        if host.classes is None:
            return -float(root_mean_squared_error(goal, outputs))
        return float((outputs.argmax(axis=1) == goal).mean())

    return importance.explain(
        score, host.preparation.transform(table), values, present, host.dims, host.name, repeats, seed
    )
