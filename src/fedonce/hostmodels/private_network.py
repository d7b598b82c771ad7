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
from fedonce.hostmodels.network import AggregationModel, Recipe, build, drop_guests, loss
from fedonce.learners import PCA, orientations
from fedonce.privacy.budget import Purse, Task, steps_task
from fedonce.privacy.dpsgd import PrivateSteps, check_clippable
from fedonce.training.closedform import ClosedForm
from fedonce.training.loop import Batch, Rows, TensorsOf, private_module_step, private_step, train
from fedonce.training.networks import code_sizes
from fedonce.training.randomness import torch_seeded
from fedonce.training.settings import Training
from fedonce.training.threads import network_work, threads_for

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
    dtype = torch.get_default_dtype()
    with torch_seeded(rng):
        if recipe.fixed_encoder:
            network, dim = _encoder(own, recipe.encoder_dim, rng, device, purse)
            recipe = replace(recipe, network=network, encoder_dim=dim)
            device = torch.device("cpu")  # a small head in closed form
        model = build(own.shape[1:], dims, n_outputs, recipe, code_sizes(recipe.network, own)).to(device, dtype)
        private = purse.steps(TRAINING, own, recipe.clip)
        training = replace(
            recipe.training(len(own)), batch=private.batch, steps=private.event.steps, epochs=private.epochs
        )
        if recipe.drift is not None and private.event.noise:
            # At a rate that falls linearly, noise of scale s in each of T steps adds up to rate * s * sqrt(T / 3).
            step_noise = private.event.noise * private.clip / (private.event.rate * private.public_rows)
            training = replace(
                training, rate=min(training.rate, recipe.drift / (step_noise * math.sqrt(private.event.steps / 3)))
            )
        tensors = [torch.from_numpy(array).to(device, dtype) for array in (own, examples.values, examples.present)]
        target = torch.from_numpy(examples.target).to(device)

        def tensors_of(batch: Batch, epoch: int) -> tuple[list[Tensor], Tensor]:
            rows = torch.from_numpy(batch).to(device)
            x, r, p = (tensor[rows] for tensor in tensors)
            return [x, r, drop_guests(p, recipe.guest_dropout)], target[rows]

        work = 3 * network_work(model.head if recipe.fixed_encoder else model, own.shape[1:], training.batch)
        if recipe.fixed_encoder and ClosedForm.supports(model.head, device):
            with threads_for(work):
                _train_head(model, tensors_of, recipe.smoothing, private, training, rng)
        else:
            check_clippable(model, tensors, "the recipe")
            parameters, step = private_module_step(
                model.train(), tensors_of, lambda raw, wanted: loss(raw, wanted, recipe.smoothing), private
            )
            with threads_for(work):
                train(training.update(parameters), len(own), step, training, rng, private)
    return model.cpu().eval()


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


def _train_head(
    model: AggregationModel,
    tensors_of: TensorsOf,
    smoothing: float,
    private: PrivateSteps,
    training: Training,
    rng: np.random.Generator,
) -> None:
    """Train the head in closed form."""
    form = ClosedForm(model.head)
    wanted: list[Tensor] = []

    def inputs_of(batch: Batch) -> Rows:
        with torch.no_grad():
            parts, target = tensors_of(batch, 0)
            wanted[:] = [target]
            inputs: Rows = model.inputs(*parts).numpy()
        return inputs

    def slope_of(batch: Batch, outputs: Rows, epoch: int) -> Rows:
        target = wanted[0].numpy()
        if target.dtype.kind == "f":
            slope: Rows = 2 * (outputs - target[:, None].astype(outputs.dtype))
            return slope
        odds: Rows = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        odds -= smoothing / outputs.shape[1]
        odds[np.arange(len(target)), target] -= 1 - smoothing
        return odds

    step = private_step(form, inputs_of, slope_of, private)
    train(form.update(training.optimizer, training.weight_decay), private.n_rows, step, training, rng, private)
