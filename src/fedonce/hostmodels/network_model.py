"""The host's network as a `HostModel`; a recipe says how it is built and trained."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from fedonce.errors import InputError, parameter_error
from fedonce.hostmodels import network, private_network
from fedonce.hostmodels.base import HOST_SHARE, Examples, HostModel, Inputs, Tensors
from fedonce.hostmodels.length import choose_epochs, is_tried
from fedonce.hostmodels.names import Facts
from fedonce.hostmodels.overlap import ByOverlap, partial_guests, with_and_without
from fedonce.hostmodels.recipe import Recipe, find_recipe
from fedonce.privacy.budget import Purse, Task
from fedonce.privacy.dpsgd import check_clippable
from fedonce.training.loop import Rows
from fedonce.training.losses import LabelLoss
from fedonce.training.networks import check_weights, code_sizes
from fedonce.training.settings import Epoch, Training
from fedonce.training.stored import check_lengths, restored_settings, settings_of
from fedonce.training.threads import network_work


@dataclass(eq=False)
class NetworkModel(HostModel):
    """An encoder of the host's own columns, the guests' values, and a head on both.

    Parameters
    ----------
    recipe : str or Recipe
        "default", "large" (images: a larger network), "paper", or one's own.
    epochs : int, optional
        Overrides the recipe's own.
    """

    name: ClassVar[str] = "network"
    facts: ClassVar[Facts] = Facts(images=True, private=True, rounds=True, exports=True)
    recipe: object = "default"
    epochs: int | None = None
    recipe_: Recipe | None = field(default=None, init=False, repr=False)  # the one that it was trained with
    network_: nn.Module | None = field(default=None, init=False, repr=False)
    sizes_: tuple[int, ...] = field(default=(), init=False, repr=False)  # of embeddings
    partial_: tuple[bool, ...] = field(default=(), init=False, repr=False)  # of a file, until its weights are there

    def check(self, owner: str) -> None:
        """Raise where there is no such recipe."""
        self._find((1,), owner=owner)

    @property
    def embeddings(self) -> tuple[int, ...]:
        """Widths of the embeddings of the host's own columns."""
        return self.recipe.embeddings if isinstance(self.recipe, Recipe) else ()

    def fit(
        self, examples: Examples, dims: Sequence[int], n_outputs: int, rng: np.random.Generator, device: torch.device
    ) -> list[Epoch]:
        """Train by the recipe."""
        recipe = self._choose(examples.own)
        if not isinstance(recipe.members, int) or recipe.members < 1:
            raise parameter_error("Recipe", "members", "a positive integer", recipe.members)
        train = partial(network.train, dims=dims, n_outputs=n_outputs, device=device)
        if is_tried(examples, recipe):
            trial = copy.deepcopy(rng).spawn(1)[0]  # of its own: the training is the same with and without the trial
            recipe = replace(recipe, epochs=choose_epochs(examples, recipe, train, trial, device))
        self.network_, history = train(examples, recipe, rng)
        if any(partial_guests(examples.present)):
            own = np.random.default_rng(rng.integers(2**63))
            self.network_ = with_and_without(examples, self.network_, recipe, train, own)
        return history

    def work(self, examples: Examples, n_outputs: int) -> float:
        """Return about how many operations a training takes."""
        recipe, n_rows = self._find(examples.own.shape[1:]), len(examples.own)
        with torch.device("meta"):
            made = network.build(examples.own.shape[1:], [examples.values.shape[1]], n_outputs, recipe)
        training = recipe.training(n_rows)
        steps = training.epochs * n_rows / training.batch
        return 3 * recipe.members * steps * network_work(made, examples.own.shape[1:], training.batch)

    def fit_private(
        self,
        examples: Examples,
        dims: Sequence[int],
        n_outputs: int,
        rng: np.random.Generator,
        device: torch.device,
        purse: Purse,
    ) -> None:
        """Train by DP-SGD."""
        recipe = self._choose(examples.own, "regression" if examples.target.dtype.kind == "f" else "classification")
        self.network_ = private_network.fit(examples, dims, n_outputs, recipe, rng, device, purse)

    def private_tasks(self, n_rows: int, task: str, share: float = HOST_SHARE, exact: bool = False) -> list[Task]:
        """Return the steps of its training, and before them a PCA of the host's own columns where the recipe has one."""
        return private_network.tasks(self._find((1,), task), n_rows, share, 1.0)

    def check_private(self, shape: tuple[int, ...]) -> None:
        """Raise where one's own encoder mixes rows."""
        own = self.recipe.network if isinstance(self.recipe, Recipe) else None
        if isinstance(own, nn.Module):
            check_clippable(copy.deepcopy(own), [torch.zeros(1, *shape)], "the recipe")

    def outputs(self, own: Rows, values: Rows, present: Rows, device: torch.device) -> Rows:
        """Run the network."""
        return network.outputs(self.module(), own, values, present, device)

    def module(self) -> nn.Module:
        """Return the trained network."""
        if self.network_ is None:
            raise InputError("This NetworkModel has not been trained yet; call fit first.")
        return self.network_

    def start(self, own: Rows, dims: Sequence[int], n_outputs: int) -> None:
        """Make an untrained network."""
        recipe = self._choose(own)
        self.network_ = untrained(own.shape[1:], dims, n_outputs, recipe, self.sizes_)

    def training(self, n_rows: int) -> Training:
        """Return how the recipe trains."""
        return self._trained_with().training(n_rows)

    def loss(self, own: Tensor, values: Tensor, present: Tensor, target: Tensor) -> Tensor:
        """Return the recipe's loss, with images moved and guests dropped as it says."""
        recipe = self._trained_with()
        raw = self.module()(*network.changed(recipe, own, values, present))
        return LabelLoss(recipe.smoothing).mean(raw, target)

    def state(self) -> Tensors:
        """Return the weights."""
        return {name: value.cpu().numpy() for name, value in self.module().state_dict().items()}

    def restore(self, tensors: Tensors, inputs: Inputs) -> None:
        """Make the network as its training did, and load its weights."""
        made = self._rebuilt(tensors, inputs)
        made.load_state_dict({name: torch.from_numpy(value) for name, value in tensors.items()})
        self.network_ = made.eval()

    def _rebuilt(self, tensors: Tensors, inputs: Inputs) -> nn.Module:
        recipe = self._trained_with()

        def build(recipe: Recipe) -> nn.Module:
            return untrained(inputs.shape, inputs.dims, inputs.n_outputs, recipe, self.sizes_, self.partial_)

        if not recipe.fixed_encoder:
            check_weights(lambda: build(recipe), tensors)
            return build(recipe)
        fixed = next(value for name, value in tensors.items() if name.startswith("encoder.") and value.ndim == 2)
        dim, width = fixed.shape
        check_weights(
            lambda: build(replace(recipe, network=None, encoder_hidden=(), encoder_dim=dim)), tensors, "encoder."
        )
        encoder = private_network.untrained_encoder(inputs.shape, (dim, width))
        return build(replace(recipe, network=encoder, encoder_dim=dim))

    def to_json(self, owner: str) -> dict[str, Any]:
        """Return the recipe that it was trained with, and what else of its shape the weights do not say.

        Without its name: the keys are those from before there were other models.
        """
        trained = self.module()
        partial = [bool(each) for each in trained.partial.tolist()] if isinstance(trained, ByOverlap) else []
        recipe = settings_of(self._trained_with(), f"The recipe of {owner}")
        return {"recipe": recipe, "sizes": list(self.sizes_), "partial": partial}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], n_arrays: int) -> Self:
        """Return a model with the recipe of a file."""
        check_lengths(content["recipe"], n_arrays)
        recipe = Recipe(**restored_settings(content["recipe"]))
        made = cls(recipe)
        made.recipe_, made.sizes_, made.partial_ = recipe, tuple(content["sizes"]), tuple(content["partial"])
        return made

    def _choose(self, own: Rows, budget: str | None = None) -> Recipe:
        """Choose the recipe for the host's own rows, and remember it."""
        self.recipe_ = self._find(own.shape[1:], budget)
        self.sizes_ = code_sizes(self.recipe_.network, own)
        return self.recipe_

    def _find(self, shape: tuple[int, ...], budget: str | None = None, owner: str = "Host") -> Recipe:
        return find_recipe(self.recipe, self.epochs, shape, owner, budget)

    def _trained_with(self) -> Recipe:
        if self.recipe_ is None:
            raise InputError("This NetworkModel has not been trained yet; call fit first.")
        return self.recipe_


def untrained(
    shape: tuple[int, ...],
    dims: Sequence[int],
    n_outputs: int,
    recipe: Recipe,
    sizes: Sequence[int] = (),
    partial: Sequence[bool] = (),
) -> nn.Module:
    """Make the host's model, with as many members as the recipe has; two such where guests are `partial`."""
    if any(partial):
        two = [untrained(shape, dims, n_outputs, recipe, sizes) for _ in range(2)]
        return ByOverlap(two[0], two[1], partial)
    members = [network.build(shape, dims, n_outputs, recipe, sizes) for _ in range(recipe.members)]
    return members[0] if len(members) == 1 else network.Ensemble(members)
