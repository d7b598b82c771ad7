"""The demonstration: digits in four quadrants, four parties; what one message each is worth, and what it gives away.

Quadrants are tables of 16 columns here, and all settings are the defaults, so that it takes seconds. With networks for images
and five seeds it is an experiment of its own, `python -m benchmarks.run digits`.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from fedonce.assess.attacks.known_rows import Attacker
from fedonce.assess.leakage import what_leaks
from fedonce.data.partition import tiles
from fedonce.data.table import Table
from fedonce.errors import FedOnceWarning, MissingPackageError
from fedonce.estimators import FedOnceClassifier

SHAPE, GRID = (8, 8), (2, 2)
DARKEST = 16  # of a pixel: public knowledge, of which bounds are made
SHOWN = 5  # digits in the pictures
KNOWN = 0.1  # share of the rows that the attacker of the pictures knows
PARTIES = {name: [int(str(place)) for place in pixels.columns] for name, pixels in tiles(SHAPE, GRID).items()}
HOST, WATCHED = list(PARTIES)[:2]  # the party with the labels, and the guest whose message is attacked
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Method:
    """Something to train: a name, what it is in a sentence, what it promises, and the estimator's parameters."""

    name: str
    what: str
    given: Mapping[str, Any]
    promise: str = ""


@dataclass(frozen=True)
class Sent:
    """What one guest sent: its learner, values per image, and the bytes of its message."""

    guest: str
    learner: str
    values: int
    bytes: int
    rows: int
    shown: NDArray[Any] = field(repr=False, compare=False)  # the values of the digits in the pictures


@dataclass(frozen=True)
class Exposed:
    """What attacks read in a guest's message: columns by verdict, and the digits of the pictures as they can be rebuilt."""

    columns: dict[str, int]
    worst: float
    rebuilt: NDArray[Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Outcome:
    """One method's result."""

    method: str
    what: str
    promise: str
    accuracy: float
    error: float
    messages: int
    bytes: int
    seconds: float
    chosen: str = ""
    validation: Any = None
    sent: tuple[Sent, ...] = ()
    exposed: Exposed | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        figures = {name: getattr(self, name) for name in ("method", "what", "accuracy", "error", "messages", "bytes")}
        read = None if self.exposed is None else self.exposed.columns
        return figures | {"seconds": self.seconds, "host model": self.chosen or None, "columns read": read}


@dataclass(frozen=True)
class Demonstration:
    """All results, and the images that they are about."""

    outcomes: list[Outcome]
    images: NDArray[Any]
    labels: NDArray[Any]
    n_train: int
    n_test: int
    skipped: str = ""  # why there is none with a budget

    def named(self, method: str) -> Outcome:
        """Return a method's result."""
        return next(each for each in self.outcomes if each.method == method)


SOLO = Method("Solo", "the host alone, one quadrant", {"parties": {HOST: PARTIES[HOST]}})
FEDONCE = Method("FedOnce", "one message from each guest, all settings the defaults", {"parties": PARTIES})
COMBINE = Method(
    "Combine", "all pixels in one place: what the parties may not do", {"parties": {"all": list(range(64))}}
)
FEWER = Method(
    "FedOnce, half a byte",
    "messages of half a byte for each image",
    {"parties": PARTIES, "bytes_per_row": 0.5},
    "no guarantee, but less to read",
)
LOCAL = Method(
    "FedOnce, local epsilon",
    "a noisy answer for every image (local_epsilon=4)",
    {"parties": PARTIES, "local_epsilon": 4, "bounds": (0, DARKEST)},
    "what a guest sends of an image is at most e^4 = 55 times likelier than had it been any other image",
)
BUDGET = Method(
    "FedOnce, epsilon",
    "a budget of all parties together (epsilon=2)",
    {
        "parties": PARTIES,
        "learner": "pca",
        "epsilon": 2,
        "bounds": (0, DARKEST),
        "target_bounds": list(range(10)),
    },
    "no image makes any released model more than e^2 = 7.4 times likelier, but for a chance of delta; the messages, which the "
    "host sees, are not covered",
)
METHODS = (SOLO, FEDONCE, COMBINE, FEWER, LOCAL, BUDGET)
ATTACKED = (FEDONCE, FEWER, LOCAL, BUDGET)


def run(seed: int = 0, tell: Tell = lambda method: None, methods: tuple[Method, ...] = METHODS) -> Demonstration:
    """Train, score and attack every method on the same rows."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
    shown = np.array([np.flatnonzero(y_train == digit)[0] for digit in range(SHOWN)])
    outcomes, skipped = [], ""
    for method in methods:
        tell(f"training {method.name}")
        try:
            outcomes.append(_outcome(method, (X_train, X_test, y_train, y_test), shown, seed))
        except MissingPackageError as error:  # budgets need one that is not always there
            skipped = str(error)
    return Demonstration(outcomes, X_train[shown], y_train[shown], len(X_train), len(X_test), skipped)


def _outcome(method: Method, split: tuple[NDArray[Any], ...], shown: NDArray[np.intp], seed: int) -> Outcome:
    X_train, X_test, y_train, y_test = split
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedOnceWarning)  # Solo and Combine are one party on purpose
        # Of FedOnce's rows some are held back, to say whether it was worth it; the others are scored on test rows alone.
        model = FedOnceClassifier(**method.given, random_state=seed, validate=method is FEDONCE).fit(X_train, y_train)
    accuracy = float(model.score(X_test, y_test))
    seconds = time.perf_counter() - started
    sent = tuple(
        Sent(guest, message.learner, message.values.shape[1], model.traffic_.per_guest[guest], len(X_train), values)
        for guest, message in model.representations_.items()
        for values in [message.values[shown]]
    )
    return Outcome(
        method.name,
        method.what,
        method.promise,
        accuracy,
        math.sqrt(accuracy * (1 - accuracy) / len(y_test)),
        model.traffic_.messages,
        model.traffic_.bytes,
        seconds,
        "" if model.validation_ is None else model.validation_.chosen,
        model.validation_,
        sent,
        _exposed(model, X_train, shown, seed) if method in ATTACKED else None,
    )


def _exposed(model: FedOnceClassifier, X: NDArray[Any], shown: NDArray[np.intp], seed: int) -> Exposed:
    """Attack the watched guest's message as `fedonce guest fit` does, and rebuild some images from all messages."""
    message = model.representations_[WATCHED]
    table = Table.of(X[:, PARTIES[WATCHED]])
    found = what_leaks(message.values, table, seed=seed, learner=message.learner)
    return Exposed(found.as_json()["counts"], found.worst, _rebuilt(model, X, shown, seed))


def _rebuilt(model: FedOnceClassifier, X: NDArray[Any], shown: NDArray[np.intp], seed: int) -> NDArray[Any]:
    """Return images as the host can rebuild them that knows a tenth of the guests' rows: its own quadrant, and its guesses."""
    others = np.setdiff1d(np.arange(len(X)), shown)
    known = np.random.default_rng(seed).permutation(others)[: round(KNOWN * len(X))]
    rebuilt = X[shown].astype(np.float64)
    for guest, message in model.representations_.items():
        attacker = Attacker(message.values[known], message.values[shown])
        guesses = attacker.guess(X[known][:, PARTIES[guest]])
        rebuilt[:, PARTIES[guest]] = np.clip(guesses["linear"], 0, DARKEST)
    return rebuilt
