"""How long to train the host's network: tried on a part of the training rows, unless the recipe says it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedonce.hostmodels.base import Examples
from fedonce.hostmodels.network import Train, outputs
from fedonce.hostmodels.recipe import Recipe
from fedonce.training.loop import Rows
from fedonce.training.losses import LabelLoss
from fedonce.training.networks import fits_cnn0

# How long to train is tried on a part of the training rows: of images with few rows, of tables unless they are so many that
# nothing is memorised. With few rows every length is tried.
FEW_ROWS, MANY_ROWS = 5000, 100_000
CLEARLY = 0.95  # so much of a loss is clearly better than it


def is_tried(examples: Examples, recipe: Recipe) -> bool:
    """Tell whether trial says how long to train."""
    return recipe.epochs is None and len(examples.own) < (FEW_ROWS if fits_cnn0(examples.own.shape[1:]) else MANY_ROWS)


def choose_epochs(
    examples: Examples, recipe: Recipe, train: Train, rng: np.random.Generator, device: torch.device
) -> int:
    """Try how long to train on a part of the training rows: what cannot be learnt, a long training memorises.

    A twelfth, a quarter or all of the epochs. Numbers: the length with the least loss on the rest of the training rows. Classes:
    the longest that is not worse than the best by two standard errors. With many rows, all of the epochs are not tried where a
    quarter is clearly better or worse than a twelfth. The model is then trained again on all rows.
    """
    most = recipe.training(len(examples.own)).epochs
    order = rng.permutation(len(examples.own))
    held, kept = np.split(order, [len(order) // 6])
    if len(held) < 10:
        return most
    rest, part, losses = examples.take(held), examples.take(kept), dict[int, NDArray[np.float64]]()
    for epochs in sorted({max(1, most // 12), max(1, most // 4), most}):
        if epochs == most and len(losses) == 2 and len(examples.own) >= FEW_ROWS:
            short, longer = losses.values()
            if longer.mean() < CLEARLY * short.mean():
                return most
            if _worse(longer, short):
                return min(losses)
        model, _ = train(part, replace(recipe, epochs=epochs, members=1), rng)
        losses[epochs] = _row_losses(outputs(model, rest.own, rest.values, rest.present, device), rest)
    best = min(losses, key=lambda epochs: float(losses[epochs].mean()))
    if rest.target.dtype.kind == "f":
        return best
    return max(epochs for epochs, each in losses.items() if not _worse(each, losses[best]))


def _row_losses(raw: Rows, rest: Examples) -> NDArray[np.float64]:
    """Return the loss of each row, times how much the row counts."""
    losses = _plain_losses(raw, rest.target)
    return losses if rest.weight is None else losses * rest.weight


def _plain_losses(raw: Rows, target: NDArray[Any]) -> NDArray[np.float64]:
    if target.dtype.kind == "f":
        return np.asarray(np.square(raw[:, 0] - target), dtype=np.float64)
    return np.asarray(LabelLoss().rows(torch.from_numpy(raw).double(), torch.from_numpy(target)).numpy())


def _worse(losses: NDArray[np.float64], than: NDArray[np.float64]) -> bool:
    """Tell whether losses are higher than others of the same rows, by two standard errors."""
    more = losses - than
    return bool(more.mean() > 2 * more.std() / np.sqrt(len(more)))
