"""Gradient-boosted trees as a host's model: LightGBM's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from fedonce.errors import InputError, parameter_error
from fedonce.hostmodels.base import Examples, HostModel, Inputs, Tensors
from fedonce.hostmodels.calibration import log_losses
from fedonce.hostmodels.forest import MOST_LEAVES, Forest
from fedonce.hostmodels.holding import average
from fedonce.hostmodels.names import Facts
from fedonce.hostmodels.onetable import held_back, with_gaps, without_guests
from fedonce.training.checkpoints import listener
from fedonce.training.loop import Rows
from fedonce.training.settings import Epoch
from fedonce.training.threads import pays

HELD = 1 / 6  # of the training rows, to find by them how many trees there should be
LEAST_HELD = 10  # rows by which that can be found
FEW_TREES = 100  # where it cannot
# So many times the rate, and fewer trees: to find how many, and for rows that a guest does not have.
HASTE, MORE_HASTE = 2, 4
# Chosen on validation rows (`benchmarks.host_settings`), as are the defaults of the settings.
ROWS_PER_LEAF = {"classes": 3, "numbers": 10}
# Rows for gaps are there several times, with other guests left out each time, up to so many rows in all.
COPIES, MOST_COPIED = {"classes": 4, "numbers": 2}, 200_000
SHARES = np.linspace(0, 1, 11)  # of what trees of own columns say beside those for gaps
OWN_BINS, VALUE_BINS = 255, 127  # what a guest sends was rounded before
# By how much the gain of a split on a value is taken down that was blurred before it left: there are many such splits, and the
# best of many gains is chance. Without it noisy guests cost accuracy (`python -m benchmarks.run noisy_hosts --part validation`).
BLURRED_GAIN = 0.2
OPERATIONS = 16  # that adding a number to a histogram takes about as long as
Ask = Callable[[Forest, Rows, int], NDArray[np.float64]]


@dataclass(eq=False)
class TreesModel(HostModel):
    """Gradient-boosted trees on own columns and guests' values; where a guest does not have a row, its values are missing.

    How many trees there are is found on a sixth of the training rows; then they are grown from all rows. Rows that a guest does
    not have get trees of their own, grown from five sixths of the rows with guests left out at random, and trees of own columns;
    the other sixth says how much either is to say. To cope with absent guests costs no accuracy where all are there, and where
    none is, the model is about what the host has alone.

    Parameters
    ----------
    trees : int
        At most so many; for more than two classes, for each of them.
    rate : float
        How much of what is left each tree learns.
    leaves : int, optional
        Of a tree, at most; None: 31 to 255, one for 100 rows.
    row_share, column_share : float
        Share of the rows that a tree is grown from, and of the columns that each of its splits chooses among.
    patience : int
        After so many trees that were of no use, no more are grown.
    """

    name: ClassVar[str] = "trees"
    facts: ClassVar[Facts] = Facts()
    trees: int = 1500
    rate: float = 0.05
    leaves: int | None = None
    row_share: float = 0.8
    column_share: float = 0.5
    patience: int = 50
    forest_: Forest | None = field(default=None, init=False, repr=False)  # for rows that all guests have
    gaps_: Forest | None = field(default=None, init=False, repr=False)  # for the others; None where there are no guests
    own_: Forest | None = field(default=None, init=False, repr=False)  # of own columns, for the others, too
    own_share_: float = field(
        default=0.0, init=False, repr=False
    )  # how much the latter say where some guests have the row
    inputs_: Inputs | None = field(default=None, init=False, repr=False)
    n_trees_: int | None = field(
        default=None, init=False, repr=False
    )  # that were best on rows held back, grown in haste

    def check(self, owner: str) -> None:
        """Raise where a setting is out of its range."""
        for name, least, most in (("trees", 1, 100_000), ("leaves", 2, MOST_LEAVES), ("patience", 1, 100_000)):
            value = getattr(self, name)
            if (type(value) is not int or not least <= value <= most) and (name, value) != ("leaves", None):
                raise parameter_error(f"TreesModel of {owner}", name, f"an integer from {least} to {most}", value)
        for name in ("rate", "row_share", "column_share"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 < value <= 1:
                raise parameter_error(f"TreesModel of {owner}", name, "a number above 0, up to 1", value)

    def fit(
        self, examples: Examples, dims: Sequence[int], n_outputs: int, rng: np.random.Generator, device: torch.device
    ) -> list[Epoch]:
        """Find how many trees there should be, and grow them."""
        kept, held = held_back(examples.target, HELD, rng)
        self.n_trees_ = None
        if len(held) >= LEAST_HELD:
            self.fit_watched(examples.take(kept).counted, examples.take(held).counted, dims, n_outputs, rng, device)
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
        """Grow trees in haste, and as many as are best for the rows held back."""
        self.inputs_, self.gaps_, self.own_ = Inputs(examples.own.shape[1:], tuple(dims), n_outputs), None, None
        settings = self._settings(examples) | self._hasty(rng, HASTE)
        self.forest_, self.n_trees_ = self._grow_watched(settings, examples, held)
        return []

    def fit_all(
        self, examples: Examples, dims: Sequence[int], n_outputs: int, rng: np.random.Generator, device: torch.device
    ) -> list[Epoch]:
        """Grow trees from all rows: as many as were best, and more in proportion as each learns less; and those for gaps."""
        self.inputs_ = Inputs(examples.own.shape[1:], tuple(dims), n_outputs)
        n_trees = min(self._most(), FEW_TREES // HASTE) if self.n_trees_ is None else self.n_trees_
        settings = self._settings(examples)
        self.forest_ = self._grow(settings | self._hasty(rng, 1), examples, HASTE * n_trees)
        self.gaps_, self.own_ = None, None
        if dims:
            self._fit_gaps(examples, settings, n_trees, rng)
        return []

    def _fit_gaps(self, examples: Examples, settings: dict[str, Any], n_trees: int, rng: np.random.Generator) -> None:
        """Grow trees for rows that a guest does not have, and of own columns; rows held back say how much either is to say."""
        hasty, fewer = settings | self._hasty(rng, MORE_HASTE), max(1, HASTE * n_trees // MORE_HASTE)
        kept, held = held_back(examples.target, HELD, rng)
        few = len(held) < LEAST_HELD
        learn = examples if few else examples.take(kept).counted
        copies = int(np.clip(MOST_COPIED // len(learn.own), 1, COPIES["numbers" if _numbers(learn) else "classes"]))
        lacking = without_guests(learn.take(np.tile(np.arange(len(learn.own)), copies)), rng)
        self.gaps_, self.own_share_ = self._grow(hasty, lacking, fewer), 0.0
        # With as many trees as were best with guests, of the rows kept alone, a row without any guest fares clearly worse.
        less_hasty = settings | self._hasty(rng, HASTE)
        if not few:
            rest = without_guests(examples.take(held).counted, rng)
            own, n_trees = self._grow_watched(less_hasty, _alone(learn), _alone(rest))
            self.own_share_ = self._best_share(rest, own)
        self.own_ = self._grow(less_hasty, _alone(examples), n_trees)

    def _best_share(self, rest: Examples, own: Forest) -> float:
        """Return how much trees of own columns should say, by rows that some guests have."""
        has = rest.present > 0
        rest = rest.take(np.flatnonzero(has.any(axis=1) & ~has.all(axis=1))).counted
        if not len(rest.target):
            return 0.0
        assert self.gaps_ is not None
        table, n_outputs = with_gaps(rest.own, rest.values, rest.present, self._inputs().dims), self._inputs().n_outputs
        first, second = (_per_output(each.predict(table, 1), n_outputs) for each in (self.gaps_, own))
        means = ((1 - share) * first + share * second for share in SHARES)
        losses = [
            np.square(mean[:, 0] - rest.target) if _numbers(rest) else log_losses(mean, rest.target) for mean in means
        ]
        return float(SHARES[np.argmin([average(each, rest.weight) for each in losses])])

    def work(self, examples: Examples) -> float:
        """Return about how many operations it takes to grow all trees, once their number is known."""
        per_tree = self._work(len(examples.own), self._leaves(len(examples.own)))
        grown = (1 + HASTE + (HASTE / MORE_HASTE if self._inputs().dims else 0)) * (self.n_trees_ or FEW_TREES)
        return per_tree * grown * max(1, self._inputs().n_outputs - 1)

    def _work(self, n_rows: int, leaves: int) -> float:
        return OPERATIONS * n_rows * self._n_columns() * math.log2(leaves)

    def _leaves(self, n_rows: int) -> int:
        return self.leaves or int(np.clip(n_rows // 100, 31, 255))

    def _most(self) -> int:
        return max(1, self.trees // HASTE)

    def _hasty(self, rng: np.random.Generator, haste: int) -> dict[str, Any]:
        return {"seed": int(rng.integers(2**31)), "learning_rate": min(1.0, haste * self.rate)}

    def _settings(self, examples: Examples) -> dict[str, Any]:
        """Return LightGBM's parameters."""
        n_rows, n_outputs = len(examples.own), self._inputs().n_outputs
        numbers = _numbers(examples)
        task: dict[str, Any] = {"objective": "regression" if numbers else "binary"}
        if n_outputs > 2:
            task = {"objective": "multiclass", "num_class": n_outputs}
        leaves = self._leaves(n_rows)
        return task | {
            "learning_rate": self.rate,
            "num_leaves": leaves,
            "min_data_in_leaf": int(np.clip(n_rows // 50, 2, ROWS_PER_LEAF["numbers" if numbers else "classes"])),
            "max_bin_by_feature": [OWN_BINS] * examples.own.shape[1] + [VALUE_BINS] * examples.values.shape[1],
            "bagging_fraction": self.row_share if n_rows * self.row_share >= 1 else 1.0,
            "bagging_freq": 1,
            "feature_fraction_bynode": self.column_share,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 0 if pays(self._work(n_rows, leaves)) else 1,
            "verbose": -1,
            **self._gains(examples),
        }

    def _gains(self, examples: Examples) -> dict[str, Any]:
        if not any(examples.noisy):
            return {}
        of_values = np.repeat(np.where(examples.noisy, BLURRED_GAIN, 1.0), self._inputs().dims).tolist()
        return {"feature_contri": [1.0] * examples.own.shape[1] + of_values}

    def _grow_watched(self, settings: dict[str, Any], examples: Examples, held: Examples) -> tuple[Forest, int]:
        """Grow as many trees as are best for the rows held back; return them, and how many they are."""
        import lightgbm

        rows, others = self._rows(examples, settings), self._rows(held, settings)
        others.set_reference(rows)
        stop = lightgbm.early_stopping(max(1, self.patience // HASTE), verbose=False)
        watching = [stop, *_watching()]
        made = lightgbm.train(settings, rows, self._most(), [others], callbacks=watching, keep_training_booster=True)
        n_trees = int(np.clip(made.best_iteration, 1, self._most()))
        return self._forest(made, n_trees), n_trees

    def _grow(self, settings: dict[str, Any], examples: Examples, n_trees: int) -> Forest:
        import lightgbm

        # Kept as it is: LightGBM would write all trees as text and read them again, only to give the rows free.
        rows = self._rows(examples, settings)
        made = lightgbm.train(settings, rows, n_trees, callbacks=_watching(), keep_training_booster=True)
        return self._forest(made, n_trees)

    def _forest(self, made: Any, n_trees: int) -> Forest:
        n_outputs = self._inputs().n_outputs
        text = made.model_to_string(num_iteration=n_trees)
        return Forest.of(text, self._n_columns(), 1 if n_outputs == 2 else n_outputs)

    def _rows(self, examples: Examples, settings: dict[str, Any]) -> Any:
        """Return rows as LightGBM takes them."""
        import lightgbm

        table = with_gaps(examples.own, examples.values, examples.present, self._inputs().dims)
        return lightgbm.Dataset(table, examples.target, weight=examples.weight, params=settings)

    def outputs(self, own: Rows, values: Rows, present: Rows, device: torch.device) -> Rows:
        """Return the sums of the trees."""
        found = self._by_trees(Forest.predict, own, values, present)
        return found.astype(np.float32)

    def contributions(self, own: Rows, values: Rows, present: Rows, device: torch.device) -> NDArray[np.float64] | None:
        """Return the exact Shapley values of the trees (TreeSHAP; Lundberg et al., 2018)."""
        return self._by_trees(Forest.contributions, own, values, present)

    def _by_trees(self, ask: Ask, own: Rows, values: Rows, present: Rows) -> NDArray[np.float64]:
        """Ask those trees that a row is for: all guests have it, or not."""
        forest, inputs = self._trained(), self._inputs()
        table = with_gaps(own, values, present, inputs.dims)
        whole = (present > 0).all(axis=1)
        threads = _threads(len(own), forest)
        if self.gaps_ is None or whole.all():
            return _per_output(ask(forest, table, threads), inputs.n_outputs)
        found = self._for_gaps(ask, table, present, threads)
        if whole.any():
            found[whole] = ask(forest, table[whole], threads)
        return _per_output(found, inputs.n_outputs)

    def _for_gaps(self, ask: Ask, table: Rows, present: Rows, threads: int) -> NDArray[np.float64]:
        """Ask trees for gaps, and of own columns: the latter alone where no guest has a row."""
        assert self.gaps_ is not None
        found = ask(self.gaps_, table, threads)
        if self.own_ is None:  # of a file from before there were such trees
            return found
        share = np.where((present > 0).any(axis=1), self.own_share_, 1.0).reshape(-1, *(1,) * (found.ndim - 1))
        return (1 - share) * found + share * ask(self.own_, table, threads)

    def state(self) -> Tensors:
        """Return the trees."""
        parts = {"trees": self._trained(), "gaps": self.gaps_, "own": self.own_}
        kept = {
            f"{part}.{name}": array
            for part, forest in parts.items()
            if forest is not None
            for name, array in forest.arrays().items()
        }
        return kept if self.own_ is None else kept | {"own_share": np.array([self.own_share_])}

    def restore(self, tensors: Tensors, inputs: Inputs) -> None:
        """Take back trees, every index of which is checked."""
        if len(inputs.shape) != 1:
            raise ValueError("trees take no images")
        self.inputs_, n_outputs = inputs, 1 if inputs.n_outputs == 2 else inputs.n_outputs
        found: dict[str, Forest] = {}
        for part in ("trees", "gaps", "own") if inputs.dims else ("trees",):
            arrays = {
                name.removeprefix(f"{part}."): each for name, each in tensors.items() if name.startswith(f"{part}.")
            }
            if arrays or part != "own":  # which older files do not have
                found[part] = Forest.restored(arrays, self._n_columns(), n_outputs)
        self.forest_, self.gaps_, self.own_ = found["trees"], found.get("gaps"), found.get("own")
        share = tensors["own_share"] if "own" in found else np.zeros(1)
        if share.shape != (1,) or not 0 <= share[0] <= 1:
            raise ValueError("its share of own columns must be a number from 0 to 1")
        self.own_share_ = float(share[0])

    def _trained(self) -> Forest:
        if self.forest_ is None:
            raise InputError("This TreesModel has not been trained yet; call fit first.")
        return self.forest_

    def _inputs(self) -> Inputs:
        assert self.inputs_ is not None
        return self.inputs_

    def _n_columns(self) -> int:
        inputs = self._inputs()
        return sum(inputs.shape) + sum(inputs.dims)


def _watching() -> list[Any]:
    """Return what LightGBM calls after every tree, where somebody is told how far a training is."""
    tell = listener()
    return [] if tell is None else [lambda state: tell(state.iteration + 1, state.end_iteration, TreesModel.name)]


def _numbers(examples: Examples) -> bool:
    return examples.target.dtype.kind == "f"


def _alone(examples: Examples) -> Examples:
    """Return what the host has alone: splits do not choose among columns that are all missing."""
    return replace(examples, present=np.zeros_like(examples.present))


def _threads(n_rows: int, forest: Forest) -> int:
    """Return how many threads a prediction gets; 0: all that the environment gives."""
    return 0 if pays(float(OPERATIONS) * n_rows * len(forest.leaves)) else 1


def _per_output(raw: NDArray[np.float64], n_outputs: int) -> NDArray[np.float64]:
    """Return one per output: of two classes, trees give the logarithm of the odds alone, which is shared by both."""
    return np.concatenate([-raw / 2, raw / 2], axis=1) if n_outputs == 2 else raw
