"""What a host's model is: it learns from the host's rows, the guests' values and labels, and gives outputs for rows."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedonce.errors import BudgetError, InputError
from fedonce.hostmodels.names import HOST_MODELS, Facts
from fedonce.privacy.budget import Purse, Task
from fedonce.training.loop import Rows
from fedonce.training.settings import Epoch, Training
from fedonce.training.stored import check_lengths, restored_settings, settings_of

Tensors = dict[str, NDArray[Any]]
WITHOUT_NOISE = "trains without noise"
# Of the budget, for the host's training, where one PCA has 1: with four parties the PCAs have a twentieth of it.
HOST_SHARE = 76.0


@dataclass(frozen=True)
class Examples:
    """What the host learns from: its own rows, the guests' values side by side, who is present, and what to predict.

    Parameters
    ----------
    own : array of shape (n, columns) or (n, channels, height, width)
        The host's prepared rows.
    values : array of shape (n, values of all guests)
        What guests sent; zeros where one is absent.
    present : array of shape (n, guests)
        1 where a guest has the row, else 0.
    target : array of shape (n,)
        Positions of classes, or numbers.
    weight : array of shape (n,), optional
        How much each row counts, of mean 1. None: all alike.
    noisy : tuple of bool
        For each guest, whether its values were blurred before they left; empty: none were.
    """

    own: Rows
    values: Rows
    present: Rows
    target: NDArray[Any]  # positions of classes, or numbers
    weight: NDArray[np.float64] | None = None  # per row, of mean 1; None: all rows count alike
    noisy: tuple[bool, ...] = ()  # per guest, whether its values were blurred before they left; empty: none were

    def take(self, rows: NDArray[np.intp]) -> Examples:
        """Return some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        return Examples(self.own[rows], self.values[rows], self.present[rows], self.target[rows], weight, self.noisy)

    @property
    def alone(self) -> Examples:
        """What the host has by itself: the same rows without any guest."""
        nothing = np.zeros((len(self.own), 0), np.float32)
        return replace(self, values=nothing, present=nothing, noisy=())

    @property
    def counted(self) -> Examples:
        """The same, all rows alike where none has a weight: so it may be among some of the rows."""
        return self if self.weight is None or self.weight.any() else replace(self, weight=None)


@dataclass(frozen=True)
class Split:
    """Positions of rows to learn from, and of rows held back."""

    learn: NDArray[np.intp]
    held: NDArray[np.intp]


@dataclass(frozen=True)
class Held:
    """Rows held back from trainings, and the outputs for them of models that had not seen them, split after split."""

    splits: tuple[Split, ...]
    outputs: Rows

    @property
    def rows(self) -> NDArray[np.intp]:
        """Positions of the rows, in the order of the outputs."""
        return np.concatenate([each.held for each in self.splits])


@dataclass(frozen=True)
class Inputs:
    """What a model takes and gives: the shape of an own row, the values of each guest, and the number of outputs.

    Parameters
    ----------
    shape : tuple of int
        Of one of the host's prepared rows.
    dims : tuple of int
        Values per row of each guest.
    n_outputs : int
        Number of classes; 1 for numbers.
    """

    shape: tuple[int, ...]
    dims: tuple[int, ...]
    n_outputs: int


class HostModel(ABC):
    """One way to predict from own columns and the guests' values. Settings are dataclass fields; what was learnt ends in "_".

    To add one, write the four abstract methods, say in `facts` what it can do, and call `fedonce.hostmodels.register(YourModel)`;
    or name it in a package's entry points, group `fedonce.host_models`; or hand an instance of it to an estimator as `model=`.
    `docs/host-models.md` has a whole example.

    Own rows are (n, columns), or (n, channels, rows, columns) of an image. The guests' values lie side by side, (n, sum of dims),
    zeros where a guest does not have a row; `present` is 1 or 0 per row and guest.
    """

    name: ClassVar[str]
    facts: ClassVar[Facts] = Facts()

    def check(self, owner: str) -> None:
        """Raise where a setting cannot be meant; `owner` is whose parameter it is, for the error."""
        return

    @property
    def embeddings(self) -> tuple[int, ...]:
        """Widths of its embeddings, one per own column; those columns reach it as codes 1, 2, ... (0: not seen in training)."""
        return ()

    @abstractmethod
    def fit(
        self, examples: Examples, dims: Sequence[int], n_outputs: int, rng: np.random.Generator, device: torch.device
    ) -> list[Epoch]:
        """Learn to predict the target: positions of classes (integers), or numbers of mean 0 and spread 1 (floats).

        `dims` are the values of each guest. All randomness comes from `rng`. Returns the losses by epoch, or nothing where there
        are no epochs.
        """

    def fit_watched(
        self,
        examples: Examples,
        held: Examples,
        dims: Sequence[int],
        n_outputs: int,
        rng: np.random.Generator,
        device: torch.device,
    ) -> list[Epoch]:
        """Learn as `fit` does, with rows held back from `examples`: a model that stops early stops by these."""
        return self.fit(examples, dims, n_outputs, rng, device)

    def fit_all(
        self, examples: Examples, dims: Sequence[int], n_outputs: int, rng: np.random.Generator, device: torch.device
    ) -> list[Epoch]:
        """Learn from all rows after `fit_watched`, for as long as that found best; a model may keep what it learnt."""
        return self.fit(examples, dims, n_outputs, rng, device)

    def settled(self, images: bool = False, private: bool = False, rounds: bool = False) -> HostModel:
        """Return the model to train for what is asked of it: itself, unless it stands for a choice among others."""
        return self

    @property
    def fresh(self) -> HostModel:
        """An untrained model of the same kind and settings, to be trained on fewer rows or without guests."""
        return copy.deepcopy(self)

    @property
    def chosen(self) -> str:
        """What was trained, for people: its name, and, where it chose among others, which and by what score."""
        return self.name

    @property
    def held(self) -> Held | None:
        """What it gave, before it saw them, for rows that its training held back; None: it held none back."""
        return None

    @abstractmethod
    def outputs(self, own: Rows, values: Rows, present: Rows, device: torch.device) -> Rows:
        """Return `n_outputs` per row: logits of the classes, or the number; they must not depend on the other rows."""

    @abstractmethod
    def state(self) -> Tensors:
        """Return all that was learnt, as arrays."""

    @abstractmethod
    def restore(self, tensors: Tensors, inputs: Inputs) -> None:
        """Take back what `state` gave; afterwards `outputs` works as before. The arrays may be forged: check what you build."""

    def train(
        self,
        examples: Examples,
        dims: Sequence[int],
        n_outputs: int,
        rng: np.random.Generator,
        device: torch.device,
        purse: Purse | None,
    ) -> list[Epoch]:
        """Learn, with what a purse allows where there is one; a private training has no history."""
        self._check(examples)
        if purse is None:
            return self.fit(examples, dims, n_outputs, rng, device)
        self.fit_private(examples, dims, n_outputs, rng, device, purse)
        return []

    def _check(self, examples: Examples) -> None:
        if examples.own.ndim > 2:
            self.must("images", "takes no images")
        if not examples.present.all():
            self.must("absent", "cannot train with guests that lack rows")

    def private_tasks(self, n_rows: int, task: str, share: float = HOST_SHARE, exact: bool = False) -> list[Task]:
        """Return what it will do with so many rows under a privacy budget; noise is not yet fixed.

        A model has a private version where it overrides this and `fit_private`. `task` is "classification" or "regression".
        `share` weighs its part of the budget, where a guest's PCA has 1. `exact`: the budget is infinite; every model may run.
        """
        if exact:
            return [Task("", WITHOUT_NOISE, share)]
        private = HOST_MODELS.which("private")
        raise BudgetError(f"The host model {self.name!r} has no private version: with a budget, take {private}.")

    def check_private(self, shape: tuple[int, ...]) -> None:
        """Raise where it cannot train with a budget on own rows of a shape, before anything is spent."""
        return

    def fit_private(
        self,
        examples: Examples,
        dims: Sequence[int],
        n_outputs: int,
        rng: np.random.Generator,
        device: torch.device,
        purse: Purse,
    ) -> None:
        """Learn with what the purse allows; `rng` serves initial weights alone, all else comes from the purse."""
        purse.exactly(WITHOUT_NOISE)
        self.fit(examples, dims, n_outputs, rng, device)

    def contributions(self, own: Rows, values: Rows, present: Rows, device: torch.device) -> NDArray[np.float64] | None:
        """Return what moved each prediction, exactly; None from a model that cannot say.

        Per row and output: what each own column and each of the guests' values adds, and last what is there without any of
        them, (n, n_outputs, columns + values + 1). Their sum is the output. What it tells that a guest does not have a row is
        among that guest's values.
        """
        return None

    def module(self) -> nn.Module:
        """Return what `outputs` does as a network of own rows, values and present: for export, and for rounds."""
        raise self._cannot("exports", "gives no network to export")

    def start(self, own: Rows, dims: Sequence[int], n_outputs: int) -> None:
        """Get an untrained network ready for rounds that start from nothing; weights come from torch's generator."""
        raise self._cannot("rounds", "cannot be trained in rounds")

    def training(self, n_rows: int) -> Training:
        """Return how it trains on so many rows, as far as rounds follow it."""
        raise self._cannot("rounds", "cannot be trained in rounds")

    def loss(self, own: Tensor, values: Tensor, present: Tensor, target: Tensor) -> Tensor:
        """Return the mean loss of a batch of rounds."""
        raise self._cannot("rounds", "cannot be trained in rounds")

    def must(self, fact: str, lacks: str) -> None:
        """Raise where a fact is not so: say what it lacks, and which models do not."""
        if not getattr(self.facts, fact):
            raise self._cannot(fact, lacks)

    def _cannot(self, fact: str, lacks: str) -> InputError:
        return InputError(f"The host model {self.name!r} {lacks}; take model={HOST_MODELS.which(fact)}.")

    def to_json(self, owner: str) -> dict[str, Any]:
        """Return the settings, for a file: the name and the dataclass fields. `owner` is for errors."""
        return {"model": self.name, "settings": settings_of(self, f"The model {self.name!r} of {owner}")}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], n_arrays: int) -> Self:
        """Return a model with the settings of a file that also has so many arrays; it may be forged."""
        check_lengths(content["settings"], n_arrays)
        return cls(**restored_settings(content["settings"]))
