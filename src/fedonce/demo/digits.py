"""The demonstration: digits in four quadrants, four parties, and what one message each is worth."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from fedonce.data.partition import Pixels, tiles
from fedonce.errors import FedOnceWarning
from fedonce.estimators import FedOnceClassifier

SHAPE, GRID = (8, 8), (2, 2)
DIMS = (1, 2, 4)  # for the plot: what fewer values per row are worth
Methods = dict[str, tuple[str, dict[str, Any]]]  # a name, a sentence, and the estimator's parameters


@dataclass(frozen=True)
class Outcome:
    """One method's result."""

    method: str
    what: str
    accuracy: float
    messages: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class Demonstration:
    """All results, and the images that they are about."""

    outcomes: list[Outcome]
    images: NDArray[Any]
    labels: NDArray[Any]
    parties: dict[str, Pixels]
    host: str
    n_train: int
    n_test: int
    curve: list[Outcome]


def methods() -> Methods:
    """Return what is compared: a name, a sentence, and the estimator's parameters."""
    parties = tiles(SHAPE, GRID)
    host = next(iter(parties))
    everything = {"all": Pixels(tuple(range(64)), SHAPE)}
    return {
        "Solo": ("the host alone, one quadrant", {"parties": {host: parties[host]}}),
        "FedOnce (nat)": ("the paper's learner", {"parties": parties, "learner": "nat"}),
        "FedOnce (pca)": ("principal components", {"parties": parties, "learner": "pca"}),
        "FedOnce (autoencoder)": (
            "a network that rebuilds its rows",
            {"parties": parties, "learner": "autoencoder"},
        ),
        "Combine": ("all pixels in one place: not allowed, the yardstick", {"parties": everything}),
    }


def run(
    seed: int = 0, tell: Callable[[str], None] = lambda method: None, compared: Methods | None = None
) -> Demonstration:
    """Train and score every method on the same rows."""
    X, y = load_digits(return_X_y=True)
    split = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
    outcomes = []
    for method, (what, parameters) in (compared or methods()).items():
        tell(method)
        outcomes.append(_outcome(method, what, parameters, split, seed))
    curve = []
    for dim in () if compared else DIMS:
        tell(f"FedOnce (pca) with {dim} of 8 values")
        parameters = {"parties": tiles(SHAPE, GRID), "learner": "pca", "dim": dim}
        curve.append(_outcome(f"d={dim}", "", parameters, split, seed))
    shown = np.array([np.flatnonzero(y == digit)[0] for digit in range(5)])
    parties = tiles(SHAPE, GRID)
    n_train, n_test = len(split[0]), len(split[1])
    return Demonstration(outcomes, X[shown], y[shown], parties, next(iter(parties)), n_train, n_test, curve)


def _outcome(method: str, what: str, parameters: dict[str, Any], split: list[NDArray[Any]], seed: int) -> Outcome:
    X_train, X_test, y_train, y_test = split
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedOnceWarning)  # Solo and Combine are one party on purpose
        # Scored on test rows below: no rows need be held back.
        model = FedOnceClassifier(**parameters, random_state=seed, validate=False).fit(X_train, y_train)
    accuracy = float(model.score(X_test, y_test))
    sent = model.traffic_
    return Outcome(method, what, accuracy, sent.messages, sent.bytes, time.perf_counter() - started)
