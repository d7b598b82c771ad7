"""A linear model of the host: a coefficient per own column and per guest's value, for those who must explain every decision."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from fedonce.errors import InputError
from fedonce.hostmodels.base import Examples, HostModel, Inputs, Tensors
from fedonce.hostmodels.holding import average
from fedonce.hostmodels.names import Facts
from fedonce.hostmodels.onetable import with_marks
from fedonce.training.loop import Rows
from fedonce.training.settings import Epoch
from fedonce.training.threads import product_work, threads_for

PENALTIES = tuple(10.0**power for power in range(-6, 2))  # per row, on standardised inputs
TRIED = PENALTIES[1:6]  # where many fits are to be done
FOLDS = 5
ENOUGH_ROWS = 20_000  # to choose the penalty by
UNSEEN = -20.0  # logit of a class without a training row
Numbers = NDArray[np.float64]


@dataclass(eq=False)
class LinearModel(HostModel):
    """Logistic regression of classes, ridge regression of numbers, on own columns and guests' values.

    Inputs are standardised. Where a guest does not have a row, its values are their means; and where it lacks training rows, a
    mark says whether it has the row. The penalty is the one with the least loss out of fold, on the training rows.
    """

    name: ClassVar[str] = "linear"
    facts: ClassVar[Facts] = Facts()
    weights_: Numbers | None = field(default=None, init=False, repr=False)  # (outputs, inputs), of standardised inputs
    bias_: Numbers = field(default_factory=lambda: np.zeros(0), init=False, repr=False)
    mean_: Numbers = field(default_factory=lambda: np.zeros(0), init=False, repr=False)
    scale_: Numbers = field(default_factory=lambda: np.zeros(0), init=False, repr=False)
    dims_: tuple[int, ...] = field(default=(), init=False, repr=False)
    penalty_: float | None = field(default=None, init=False, repr=False)

    def fit(
        self, examples: Examples, dims: Sequence[int], n_outputs: int, rng: np.random.Generator, device: torch.device
    ) -> list[Epoch]:
        """Choose the penalty out of fold, and learn from all rows."""
        inputs = self._started(examples, dims)
        with _quietly(inputs, n_outputs):
            self.penalty_ = _choose(inputs, examples, n_outputs, rng)
        return self.fit_all(examples, dims, n_outputs, rng, device)

    def fit_watched(
        self,
        examples: Examples,
        held: Examples,
        dims: Sequence[int],
        n_outputs: int,
        rng: np.random.Generator,
        device: torch.device,
    ) -> list[Epoch]:
        """Choose the penalty by the rows held back."""
        inputs = self._started(examples, dims)
        others, losses = self._inputs(held.own, held.values, held.present), {}
        with _quietly(inputs, n_outputs):
            for penalty in TRIED:
                found = _learn(inputs, examples.target, examples.weight, n_outputs, penalty)
                losses[penalty] = _loss(others, held, *found)
                if losses[penalty] == min(losses.values()):
                    self.penalty_, (self.weights_, self.bias_) = penalty, found
        return []

    def fit_all(
        self, examples: Examples, dims: Sequence[int], n_outputs: int, rng: np.random.Generator, device: torch.device
    ) -> list[Epoch]:
        """Learn from all rows with the penalty that was chosen."""
        inputs, penalty = self._started(examples, dims), self.penalty_
        assert penalty is not None
        with _quietly(inputs, n_outputs):
            self.weights_, self.bias_ = _learn(inputs, examples.target, examples.weight, n_outputs, penalty)
        return []

    def _started(self, examples: Examples, dims: Sequence[int]) -> Numbers:
        self.dims_ = tuple(dims)
        self._standardise(examples)
        return self._inputs(examples.own, examples.values, examples.present)

    def _standardise(self, examples: Examples) -> None:
        """Remember mean and spread of each input, of guests' values on the rows that they have; constant ones count nothing."""
        table = with_marks(examples.own, examples.values, examples.present, self.dims_).astype(np.float64)
        has = self._known(examples.own, examples.present)
        count = np.maximum(has.sum(axis=0), 1)
        self.mean_ = (table * has).sum(axis=0) / count
        spread = np.sqrt((np.square(table - self.mean_) * has).sum(axis=0) / count)
        self.scale_ = np.where(spread > 1e-9, spread, np.inf)

    def _known(self, own: Rows, present: Rows) -> NDArray[np.bool_]:
        """Tell, per row and input, whether it is there: own columns and marks always are."""
        values = np.repeat(present > 0, np.asarray(self.dims_, dtype=np.intp), axis=1)
        return np.hstack([np.ones(own.shape, bool), values, np.ones(present.shape, bool)])

    def _inputs(self, own: Rows, values: Rows, present: Rows) -> Numbers:
        table = with_marks(own, values, present, self.dims_).astype(np.float64)
        return np.where(self._known(own, present), (table - self.mean_) / self.scale_, 0.0)

    def outputs(self, own: Rows, values: Rows, present: Rows, device: torch.device) -> Rows:
        """Return the sums of inputs times coefficients."""
        # Not by a matrix product, the last digits of which depend on how many rows there are.
        found = np.einsum("ri,oi->ro", self._inputs(own, values, present), self._trained())
        return np.asarray(found + self.bias_, dtype=np.float32)

    def contributions(self, own: Rows, values: Rows, present: Rows, device: torch.device) -> NDArray[np.float64] | None:
        """Return each input times its coefficient; what a guest's mark adds is shared by its values alike."""
        weights = self._trained()
        each = self._inputs(own, values, present)[:, None, :] * weights
        n_values = sum(self.dims_)
        own_part, value_part, mark_part = np.split(each, [own.shape[1], own.shape[1] + n_values], axis=2)
        shared = np.repeat(mark_part / np.asarray(self.dims_, dtype=np.float64), self.dims_, axis=2)
        bias = np.broadcast_to(self.bias_[:, None], (*each.shape[:2], 1))
        return np.concatenate([own_part, value_part + shared, bias], axis=2)

    def coefficients(
        self, own_names: Sequence[str], guests: Sequence[str], host: str = "host"
    ) -> dict[str, dict[str, Numbers]]:
        """Return by party and input what one standard deviation of it adds to each output.

        `own_names` are the host's columns as prepared; `guests` are in the order of the training. A guest's values are
        "value 1", "value 2", ...; "has the row" is its mark.
        """
        weights = self._trained()
        n_own = weights.shape[1] - sum(self.dims_) - len(self.dims_)
        if len(own_names) != n_own or len(guests) != len(self.dims_):
            raise InputError(
                f"This LinearModel has {n_own} own columns and {len(self.dims_)} guests. "
                f"Got {len(own_names)} and {len(guests)} names; give one for each."
            )
        found = {host: dict(zip(own_names, weights.T[:n_own], strict=True))}
        values, marks = weights.T[n_own : n_own + sum(self.dims_)], weights.T[n_own + sum(self.dims_) :]
        parts = np.split(values, np.cumsum(self.dims_)[:-1]) if self.dims_ else []
        for guest, part, mark in zip(guests, parts, marks, strict=True):
            named = {f"value {number}": weight for number, weight in enumerate(part, 1)}
            found[guest] = named | {"has the row": mark}
        return found

    def state(self) -> Tensors:
        """Return coefficients, and what inputs are standardised by."""
        scale = np.where(np.isfinite(self.scale_), self.scale_, 0.0)
        return {"weights": self._trained(), "bias": self.bias_, "mean": self.mean_, "scale": scale}

    def restore(self, tensors: Tensors, inputs: Inputs) -> None:
        """Take back coefficients of the right shapes."""
        (width,) = inputs.shape
        width += sum(inputs.dims) + len(inputs.dims)
        shapes = {
            "weights": (inputs.n_outputs, width),
            "bias": (inputs.n_outputs,),
            "mean": (width,),
            "scale": (width,),
        }
        if {name: value.shape for name, value in tensors.items()} != shapes:
            raise ValueError("its coefficients are not one per output and input")
        if not all(value.dtype == np.float64 and np.isfinite(value).all() for value in tensors.values()):
            raise ValueError("its coefficients must be finite numbers")
        self.dims_, self.weights_, self.bias_ = inputs.dims, tensors["weights"], tensors["bias"]
        self.mean_, self.scale_ = tensors["mean"], np.where(tensors["scale"] > 0, tensors["scale"], np.inf)

    def _trained(self) -> Numbers:
        if self.weights_ is None:
            raise InputError("This LinearModel has not been trained yet; call fit first.")
        return self.weights_


@contextmanager
def _quietly(inputs: Numbers, n_outputs: int) -> Iterator[None]:
    with threads_for(product_work(len(inputs), inputs.shape[1], n_outputs)), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the last digits of a fit are not found yet
        yield


def _choose(inputs: Numbers, examples: Examples, n_outputs: int, rng: np.random.Generator) -> float:
    """Return the penalty with the least loss out of fold; the largest where there are too few rows to try."""
    order = rng.permutation(len(inputs))[:ENOUGH_ROWS]
    order = order[np.argsort(examples.target[order], kind="stable")]  # every fold has its share of each class
    if len(order) < 2 * FOLDS:
        return PENALTIES[-1]
    losses = dict.fromkeys(PENALTIES, 0.0)
    for fold in range(FOLDS):
        held = np.arange(len(order)) % FOLDS == fold
        kept, rest = order[~held], order[held]
        learn = examples.take(kept).counted
        for penalty in PENALTIES:
            found = _learn(inputs[kept], learn.target, learn.weight, n_outputs, penalty)
            losses[penalty] += _loss(inputs[rest], examples.take(rest), *found)
    return min(losses, key=lambda penalty: losses[penalty])


def _loss(inputs: Numbers, examples: Examples, weights: Numbers, bias: Numbers) -> float:
    raw = inputs @ weights.T + bias
    if examples.target.dtype.kind == "f":
        each = np.square(raw[:, 0] - examples.target)
    else:
        raw -= raw.max(axis=1, keepdims=True)
        each = np.log(np.exp(raw).sum(axis=1)) - raw[np.arange(len(raw)), examples.target]
    return average(each, examples.weight)


def _learn(
    inputs: Numbers, target: NDArray[Any], weight: Numbers | None, n_outputs: int, penalty: float
) -> tuple[Numbers, Numbers]:
    """Return coefficients, (outputs, inputs), and a constant per output."""
    from sklearn.linear_model import LogisticRegression, Ridge

    strength = penalty * len(inputs)
    if target.dtype.kind == "f":
        ridge = Ridge(alpha=strength).fit(inputs, target, weight)
        return ridge.coef_.reshape(1, -1), np.array([float(ridge.intercept_)])
    seen = np.unique(target)
    weights, bias = np.zeros((n_outputs, inputs.shape[1])), np.full(n_outputs, UNSEEN)
    if len(seen) == 1:
        bias[seen] = 0.0
        return weights, bias
    made = LogisticRegression(C=1 / strength, max_iter=300).fit(inputs, target, weight)
    coef, constant = made.coef_, made.intercept_
    if len(seen) == 2:  # one line for both: half of it each
        coef, constant = np.vstack([-coef, coef]) / 2, np.concatenate([-constant, constant]) / 2
    weights[seen], bias[seen] = coef, constant
    return weights, bias
