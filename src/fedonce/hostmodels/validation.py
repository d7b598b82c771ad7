"""Was it worth it? The model's score on rows held back, beside that of the host alone, with standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from fedonce.hostmodels.base import Examples, Held, HostModel, Split
from fedonce.hostmodels.calibration import calibration_error, crossfitted
from fedonce.hostmodels.holding import chances, splits, standard_error
from fedonce.training.loop import Rows

MOST_LEARNT = 10_000  # rows that a model which holds none back itself learns from once more, to be judged


@dataclass(frozen=True)
class Score:
    """A mean over rows and its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        """Return both, for people."""
        return f"{self.value:.4g} ± {self.error:.2g}"


@dataclass(frozen=True)
class Validation:
    """What rows that were held back from the training say.

    Parameters
    ----------
    metric : str
        "accuracy", or "rmse" in the unit of the labels.
    rows : int
        Rows held back.
    joint, alone : Score
        Of the model with the guests, and of one of the host's own columns alone; None where there is no guest.
    gain : Score, optional
        How much better the joint one is, row by row: above 0 is better, whatever the metric.
    more : dict
        For classes: the expected calibration error as the model gave it and with a temperature ("calibration error",
        "calibration error, calibrated"); for two classes also "area under the curve" and "average precision of the rarer class".
    chosen : str
        What was trained; where it chose among models, which and by what score.
    """

    metric: str
    rows: int
    joint: Score
    alone: Score | None
    gain: Score | None
    more: dict[str, float]
    chosen: str = ""

    @property
    def as_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return what `as_json` gave; a file may be forged."""
        joint, alone, gain = (
            None if content[name] is None else Score(float(content[name]["value"]), float(content[name]["error"]))
            for name in ("joint", "alone", "gain")
        )
        if joint is None:
            raise ValueError("its validation has no score")
        more = {str(name): float(value) for name, value in content["more"].items()}
        return cls(str(content["metric"]), int(content["rows"]), joint, alone, gain, more, str(content["chosen"]))

    def __str__(self) -> str:
        """Return a line for people."""
        text = f"{self.metric} {self.joint} on {self.rows:,} rows held back"
        if self.alone is None or self.gain is None:
            return text
        return f"{text}; the host alone {self.alone}; better by {self.gain}"


def hold_out(
    model: HostModel,
    examples: Examples,
    dims: Sequence[int],
    n_outputs: int,
    rng: np.random.Generator,
    device: torch.device,
    parts: Sequence[Split] | None = None,
) -> Held:
    """Train copies of a model without some rows, and return their outputs for these."""
    if parts is None:
        parts = [_fewer(splits(examples.target, rng)[0], rng)]  # one, as each is a training more
    outputs = []
    for part in parts:
        trained, held = model.fresh, examples.take(part.held).counted
        trained.fit_watched(examples.take(part.learn).counted, held, dims, n_outputs, rng, device)
        outputs.append(trained.outputs(held.own, held.values, held.present, device))
    return Held(tuple(parts), np.concatenate(outputs))


def _fewer(part: Split, rng: np.random.Generator) -> Split:
    if len(part.learn) <= MOST_LEARNT:
        return part
    return replace(part, learn=np.sort(rng.permutation(part.learn)[:MOST_LEARNT]))


def judge(joint: Held, alone: Held | None, examples: Examples, spread: float, chosen: str = "") -> Validation:
    """Compare outputs for rows held back with their targets; `spread` is the unit of numbers."""
    goal = examples.take(joint.rows).counted
    classes = goal.target.dtype.kind != "f"
    rows = len(goal.target)
    first = _row_scores(joint.outputs, goal.target)
    second = None if alone is None else _row_scores(alone.outputs, goal.target)
    score = _mean if classes else _root
    unit = 1.0 if classes else spread
    return Validation(
        "accuracy" if classes else "rmse",
        rows,
        score(first, goal.weight, unit)[0],
        None if second is None else score(second, goal.weight, unit)[0],
        None if second is None else _gain(first, second, goal.weight, unit, score, 1 if classes else -1),
        _more(joint.outputs, goal) if classes else {},
        chosen,
    )


def _row_scores(outputs: Rows, target: NDArray[Any]) -> NDArray[np.float64]:
    if target.dtype.kind == "f":
        return np.asarray(np.square(outputs[:, 0].astype(np.float64) - target))
    return np.asarray(outputs.argmax(axis=1) == target, dtype=np.float64)


def _mean(rows: NDArray[np.float64], weight: Any, unit: float) -> tuple[Score, NDArray[np.float64]]:
    """Return the mean, and what each row adds to it."""
    mean = float(np.average(rows, weights=weight))
    return Score(mean, standard_error(rows, weight)), rows


def _root(rows: NDArray[np.float64], weight: Any, unit: float) -> tuple[Score, NDArray[np.float64]]:
    """Return the root of the mean, and what each row adds to it to first order (the delta method)."""
    root = float(np.sqrt(np.average(rows, weights=weight)))
    parts = rows / (2 * root) * unit if root > 0 else rows * 0
    return Score(root * unit, standard_error(parts, weight)), parts


def _gain(
    joint: NDArray[np.float64], alone: NDArray[np.float64], weight: Any, unit: float, score: Any, sign: int
) -> Score:
    (first, of_first), (second, of_second) = score(joint, weight, unit), score(alone, weight, unit)
    return Score(sign * (first.value - second.value), standard_error(of_first - of_second, weight))


def _more(logits: Rows, goal: Examples) -> dict[str, float]:
    """Return how far probabilities can be believed, and, for two classes, figures that fit a rare one."""
    before, after = chances(logits), chances(crossfitted(logits, goal.target, goal.weight))
    found = {
        "calibration error": calibration_error(before, goal.target, goal.weight),
        "calibration error, calibrated": calibration_error(after, goal.target, goal.weight),
    }
    count = goal.target if goal.weight is None else goal.target[goal.weight > 0]
    if logits.shape[1] == 2 and len(np.unique(count)) == 2:
        rarer = int(np.bincount(goal.target, minlength=2)[1] <= len(goal.target) / 2)
        given = goal.target == rarer, before[:, rarer]
        found["area under the curve"] = float(roc_auc_score(*given, sample_weight=goal.weight))
        precision = average_precision_score(*given, sample_weight=goal.weight)
        found["average precision of the rarer class"] = float(precision)
    return found
