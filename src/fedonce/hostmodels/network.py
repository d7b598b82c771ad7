"""The host's network: an encoder of its own columns, the guests' values, and a head on both (Algorithm 1, lines 18-31)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from fedonce.hostmodels.base import Examples
from fedonce.hostmodels.recipe import Recipe
from fedonce.system.former import moved_names
from fedonce.training.loop import IMAGE_NDIM, Rows, apply
from fedonce.training.losses import LabelLoss
from fedonce.training.networks import Standardise, code_sizes, encoder, mlp, shifted
from fedonce.training.problem import Problem
from fedonce.training.randomness import torch_seeded
from fedonce.training.settings import Epoch
from fedonce.training.trainer import trainer

__getattr__ = moved_names(
    {
        "fedonce.hostmodels.overlap": ["ByOverlap", "partial_guests"],
        "fedonce.hostmodels.recipe": ["IMAGES", "PAPER", "PRIVATE_CLASSES", "PRIVATE_NUMBERS", "TABLES", "find_recipe"],
    }
)

# Of a recipe's members, or of one; given the rows, the recipe and the generator. Returns the model and the first's history.
Train = Callable[[Examples, Recipe, np.random.Generator], tuple[nn.Module, "list[Epoch]"]]


class AggregationModel(nn.Module):
    """f_w of the paper: own columns and representations in, one output per class (or one value) out."""

    def __init__(
        self, shape: tuple[int, ...], dims: Sequence[int], n_outputs: int, recipe: Recipe, sizes: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.dims, self.marks = tuple(dims), recipe.marks
        self.encoder = encoder(shape, recipe.encoder_hidden, recipe.encoder_dim, recipe.network, sizes)
        self.representations = Standardise(torch.zeros(sum(dims)), torch.ones(sum(dims)))
        width = recipe.encoder_dim + sum(dims) + (len(dims) if recipe.marks else 0)
        self.head = mlp(width, recipe.head, n_outputs, recipe.dropout, recipe.activation)

    def fit_scale(self, values: Tensor, present: Tensor) -> None:
        """Standardise each guest's values by the rows that it has."""
        if not self.dims:
            return
        has = self.expand(present)
        count = has.sum(dim=0).clamp(min=1)
        mean = (values * has).sum(dim=0) / count
        variance = ((values - mean).square() * has).sum(dim=0) / count
        self.representations.mean.copy_(mean)
        self.representations.scale.copy_(torch.where(variance > 1e-12, variance.sqrt(), 1.0))

    def expand(self, present: Tensor) -> Tensor:
        """Repeat a mark per guest for each of its values."""
        return torch.cat([present[:, j : j + 1].expand(-1, d) for j, d in enumerate(self.dims)], dim=1)

    def inputs(self, own: Tensor, values: Tensor, present: Tensor) -> Tensor:
        """Return what the head sees: encoded own columns, the guests' values, and who is present."""
        parts = [self.encoder(own)]
        if self.dims:
            parts.append(self.representations(values) * self.expand(present))
            if self.marks:
                parts.append(present)
        return torch.cat(parts, dim=1)

    def forward(self, own: Tensor, values: Tensor, present: Tensor) -> Tensor:
        """Give outputs from the host's own rows, the guests' values side by side and who is present (1 or 0)."""
        outputs: Tensor = self.head(self.inputs(own, values, present))
        return outputs


class Ensemble(nn.Module):
    """Several models of the host; their outputs are averaged."""

    def __init__(self, members: Sequence[AggregationModel]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, own: Tensor, values: Tensor, present: Tensor) -> Tensor:
        """Average the members' outputs."""
        return torch.stack([member(own, values, present) for member in self.members]).mean(dim=0)


def train(
    examples: Examples,
    recipe: Recipe,
    rng: np.random.Generator,
    dims: Sequence[int],
    n_outputs: int,
    device: torch.device,
) -> tuple[nn.Module, list[Epoch]]:
    """Train as many networks as the recipe has members; return them as one, and the history of the first."""
    members, histories = [], []
    for generator in (rng, *rng.spawn(recipe.members - 1)):
        with torch_seeded(generator):
            sizes = code_sizes(recipe.network, examples.own)
            model = build(examples.own.shape[1:], dims, n_outputs, recipe, sizes).to(device, torch.get_default_dtype())
            problem = stated(model, examples, recipe, device)
            if recipe.standardise:
                model.fit_scale(*problem.inputs[1:])
            histories.append(trainer(problem, recipe.training(len(examples.own)), generator).run())
        members.append(model.cpu().eval())
    return members[0] if len(members) == 1 else Ensemble(members), histories[0]


def stated(model: AggregationModel, examples: Examples, recipe: Recipe, device: torch.device) -> Problem:
    """State what a network of the host is trained for: to predict, also where guests are absent."""
    arrays = (examples.own, examples.values, examples.present)
    inputs = [torch.from_numpy(array).to(device, torch.get_default_dtype()) for array in arrays]
    target = torch.from_numpy(examples.target).to(device)
    weight = None
    if examples.weight is not None:
        weight = torch.from_numpy(examples.weight).to(device, torch.get_default_dtype())

    change = partial(changed, recipe)
    return Problem(model, inputs, target, LabelLoss(recipe.smoothing), "the recipe", "network", weight, change)


def changed(recipe: Recipe, own: Tensor, values: Tensor, present: Tensor) -> list[Tensor]:
    """Return a batch as it is trained on: own images moved, and guests dropped, as the recipe says."""
    moved = shifted(own, recipe.shift) if recipe.shift and own.ndim == IMAGE_NDIM else own
    return [moved, values, drop_guests(present, recipe.guest_dropout)]


def build(
    shape: tuple[int, ...], dims: Sequence[int], n_outputs: int, recipe: Recipe, sizes: Sequence[int] = ()
) -> AggregationModel:
    """Make the host's model for own rows of a shape and guests of so many values; weights are drawn from torch's generator.

    `sizes` are those of `networks.code_sizes`.
    """
    return AggregationModel(shape, dims, n_outputs, recipe, sizes)


def drop_guests(present: Tensor, share: float) -> Tensor:
    """For a share of the rows, drop each guest with a chance of its own, drawn afresh for each row."""
    if not share or not present.shape[1]:
        return present
    chance = torch.rand(len(present), 1, device=present.device) * (torch.rand_like(present[:, :1]) < share)
    return present * (torch.rand_like(present) >= chance)


def outputs(model: nn.Module, own: Rows, values: Rows, present: Rows, device: torch.device) -> Rows:
    """Return the model's outputs, row by row."""
    return apply(model, [own, values, present], device)
