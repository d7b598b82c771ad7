"""Settings of one run of a method, as experiment files give them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedonce import InputError
from fedonce.hostmodels import HOST_MODELS
from fedonce.learners import LEARNERS
from fedonce.learners.names import PROTECTION, is_protection
from fedonce.messages.codecs import BITS


@dataclass(frozen=True)
class Config:
    """What a method may be told. Each method reads what concerns it.

    Attributes
    ----------
    settings : str
        "ours": the default recipe; "paper": the paper's models and hyperparameters of the data set (`fedonce.presets`).
    learner : str
        How guests learn.
    model : str
        What the host learns with: a name of `fedonce.hostmodels`.
    recipe : str or None
        How a network of the host is built and trained, by name; None: as `settings` says.
    members : int
        Networks of the host that are trained alike, their outputs averaged.
    dim, bits : int
        Values per row and guest in a message, and bits per value.
    bytes_per_row : float or None
        How long guests' messages may be, for each row; for learners that heed it. `dim` and `bits` are then the most.
    bytes_total : float or None
        How long those of all guests together may be, for each row; for `benchmarks.methods.estimator`.
    epochs : float or None
        SplitNN and multi-round FedOnce: epochs of rounds. None: as many as the host's recipe trains.
    host_epochs, guest_epochs : int or None
        Epochs of the host's own training, and of the guests'; None: the recipe's and the learner's.
    trees, depth : int
        SecureBoost.
    federated : bool
        SecureBoost: whether real workers train it, up to ten parties; if not, XGBoost in one place, whose model is equal.
    noise : float
        Scale of the Gaussian noise on representations.
    local_epsilon : float or None
        Epsilon with which guests tell each row.
    hints : float or None
        Epsilon with which the host hints at its labels; numbers by ten even bins between public bounds. Infinite: as they are.
    hint_share : float or None
        The part of the values that is learnt by hints; None: what guests find best.
    protect : str or None
        How guests make messages that are hard to read, as in "cells:20".
    absent : int
        So many guests, drawn by the seed, do not answer, neither in training nor in prediction.
    late : int
        So many guests, drawn by the seed, are there in training and do not answer in prediction.
    validate : bool
        FedOnce and Solo: whether the host also scores itself on rows held back, as by default, which takes time.
    rare : float or None
        The rarer of two classes is thinned to this share of the rows; for `benchmarks.methods.calibration`.
    split_bits : int
        SplitNN: bits per value, in both directions.
    reg_alpha : float
        SecureBoost: XGBoost's L1 penalty; 10 is that of the published experiments.
    probe : bool
        Whether to score a linear model on the representations alone, too.
    half : int
        Which party has a random half of the rows, by number; for the methods of `benchmarks.methods.overlap`.
    others : bool
        Whether the other guests take part then.
    epsilon, delta : float or None
        Privacy budget, of the private methods; delta None: 1 / (10 rows).
    device : str
        "auto", "cpu" or "cuda".
    """

    settings: str = "ours"
    learner: str = "auto"
    model: str = "network"
    recipe: str | None = None
    members: int = 1
    dim: int = 8
    bits: int = 8
    bytes_per_row: float | None = None
    bytes_total: float | None = None
    epochs: float | None = None
    host_epochs: int | None = None
    guest_epochs: int | None = None
    trees: int = 100
    depth: int = 6
    federated: bool = True
    noise: float = 0.0
    local_epsilon: float | None = None
    hints: float | None = None
    hint_share: float | None = None
    protect: str | None = None
    absent: int = 0
    late: int = 0
    validate: bool = True
    rare: float | None = None
    probe: bool = False
    half: int = 2
    others: bool = True
    split_bits: int = 32
    reg_alpha: float = 10.0
    epsilon: float | None = None
    delta: float | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.settings not in ("ours", "paper"):
            raise InputError(f"'settings' must be 'ours' or 'paper'. Got {self.settings!r}.")
        if self.learner not in LEARNERS:
            raise InputError(f"'learner' must be one of {', '.join(LEARNERS)}. Got {self.learner!r}.")
        if self.model not in HOST_MODELS:
            raise InputError(f"'model' must be one of {', '.join(HOST_MODELS)}. Got {self.model!r}.")
        if self.recipe not in (None, "default", "large", "paper"):
            raise InputError(f"'recipe' must be 'default', 'large' or 'paper'. Got {self.recipe!r}.")
        if self.protect is not None and not is_protection(self.protect):
            raise InputError(f"'protect' must be {PROTECTION}. Got {self.protect!r}.")
        for name in ("bits", "split_bits"):
            if getattr(self, name) not in BITS:
                raise InputError(f"{name!r} must be one of {', '.join(map(str, BITS))}. Got {getattr(self, name)!r}.")
        for name in ("probe", "federated", "others", "validate"):
            self._check(name, bool, lambda value: True, "true or false")
        for name in ("dim", "trees", "depth", "members", "half"):
            self._check(name, int, lambda value: value >= 1, "a positive integer")
        for name in ("host_epochs", "guest_epochs"):
            self._check(name, int | None, lambda value: value is None or value >= 1, "a positive integer")
        self._check("epochs", int | float | None, lambda value: value is None or value > 0, "a positive number")
        for name in ("epsilon", "delta", "bytes_per_row", "bytes_total", "local_epsilon", "hints", "hint_share"):
            self._check(name, int | float | None, lambda value: value is None or value > 0, "a number above 0")
        for name in ("absent", "late"):
            self._check(name, int, lambda value: value >= 0, "an integer of at least 0")
        self._check("rare", float | None, lambda value: value is None or 0 < value < 0.5, "a number from 0 to 0.5")
        for name in ("noise", "reg_alpha"):
            self._check(name, int | float, lambda value: value >= 0, "a number of at least 0")

    def _check(self, name: str, kind: Any, fits: Callable[[Any], bool], wanted: str) -> None:
        value = getattr(self, name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool) or not fits(value):
            raise InputError(f"{name!r} must be {wanted}. Got {value!r}.")
