"""The host's training with a privacy budget: `network.fit` by DP-SGD.

Representations are functions, row by row, of what guests have released already, so that training on them adds the host's own
price and no other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from fedonce.errors import parameter_error
from fedonce.hostmodels.base import Examples
from fedonce.hostmodels.network import AggregationModel, build, stated
from fedonce.hostmodels.recipe import Recipe
from fedonce.learners import PCA, orientations
from fedonce.privacy.budget import Purse, Task, steps_task
from fedonce.privacy.dpsgd import PrivateSteps
from fedonce.training.loop import Rows
from fedonce.training.networks import code_sizes
from fedonce.training.problem import Problem
from fedonce.training.randomness import torch_seeded
from fedonce.training.settings import Training
from fedonce.training.trainer import trainer

TRAINING = "host's model"


def tasks(recipe: Recipe, n_rows: int, share: float, pca_share: float) -> list[Task]:
    """Return what the host will do with so many rows: PCA of its own columns where the recipe has it, and its training."""
    if recipe.members != 1:
        wanted = "1 with a privacy budget, which each member would spend again"
        raise parameter_error("Recipe", "members", wanted, recipe.members)
    training = recipe.training(n_rows)
    steps = steps_task(TRAINING, n_rows, training.batch, training.epochs, share)
    return [*(PCA().private_tasks(n_rows, pca_share) if recipe.fixed_encoder else []), steps]


def fit(
    examples: Examples,
    dims: Sequence[int],
    n_outputs: int,
    recipe: Recipe,
    rng: np.random.Generator,
    device: torch.device,
    purse: Purse,
) -> AggregationModel:
    """Train the host's model within its part of the budget; nothing but the model comes back."""
    own = examples.own
    with torch_seeded(rng):
        if recipe.fixed_encoder:
            network, dim = _encoder(own, recipe.encoder_dim, rng, device, purse)
            recipe = replace(recipe, network=network, encoder_dim=dim)
            device = torch.device("cpu")  # a small head in closed form
        sizes = code_sizes(recipe.network, own)
        model = build(own.shape[1:], dims, n_outputs, recipe, sizes).to(device, torch.get_default_dtype())
        private = purse.steps(TRAINING, own, recipe.clip)
        problem = stated(model, examples, recipe, device)
        if recipe.fixed_encoder:
            problem = _of_head(problem, model)
        trainer(problem, _training(recipe, len(own), private), rng, private).run()
    return model.cpu().eval()


def _training(recipe: Recipe, n_rows: int, private: PrivateSteps) -> Training:
    """Return how to train in the steps of the plan."""
    training = replace(recipe.training(n_rows), batch=private.batch, steps=private.event.steps, epochs=private.epochs)
    if recipe.drift is None or not private.event.noise:
        return training
    # At a rate that falls linearly, noise of scale s in each of T steps adds up to rate * s * sqrt(T / 3).
    step_noise = private.event.noise * private.clip / (private.event.rate * private.public_rows)
    return replace(training, rate=min(training.rate, recipe.drift / (step_noise * math.sqrt(private.event.steps / 3))))


def _of_head(problem: Problem, model: AggregationModel) -> Problem:
    """Return the same problem where the head alone is trained, on what the fixed encoder makes of own columns."""

    def change(*parts: Tensor) -> list[Tensor]:
        assert problem.change is not None
        with torch.no_grad():
            return [model.inputs(*problem.change(*parts))]

    return replace(problem, network=model.head, change=change)


def _encoder(
    own: Rows, dim: int, rng: np.random.Generator, device: torch.device, purse: Purse
) -> tuple[nn.Sequential, int]:
    """Return a private PCA of the host's own columns as a network that is not trained, and how many values it gives."""
    pca = PCA()
    pca.fit_private(own, dim, rng, device, purse)
    return _as_encoder(pca, own.shape[1:]), len(np.asarray(pca.directions_))


def _as_encoder(pca: PCA, shape: tuple[int, ...]) -> nn.Sequential:
    """Return a PCA of rows of a shape as a network that is not trained."""
    flatten = [nn.Flatten()] if len(shape) > 1 and not pca.oriented_ else []
    return nn.Sequential(*flatten, *pca.network(), nn.Hardtanh(-pca.bound, pca.bound)).requires_grad_(False)


def untrained_encoder(shape: tuple[int, ...], weight_shape: tuple[int, int]) -> nn.Sequential:
    """Return the encoder that a private training makes of rows of a shape, without what was learnt: for loading a model."""
    dim, width = weight_shape
    pca = PCA()
    pca.mean_, pca.directions_, pca.oriented_ = np.zeros(width), np.zeros((dim, width)), orientations.fits(shape)
    return _as_encoder(pca, shape)
