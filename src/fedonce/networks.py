"""Encoders by kind of data: an MLP for tables, the paper's CNN0 for images, or the user's own module."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn

from fedonce.errors import parameter_error

SMALLEST_CNN0_IMAGE = 6  # pixels a side; below, nothing is left after CNN0's convolutions and pooling


def mlp(n_inputs: int, hidden: Sequence[int], n_outputs: int, dropout: float = 0.0) -> nn.Sequential:
    """Fully connected layers, FC(hidden) in the paper's tables, with ReLU between them."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(n_inputs, width), nn.ReLU()]
        if dropout:
            layers.append(nn.Dropout(dropout))
        n_inputs = width
    return nn.Sequential(*layers, nn.Linear(n_inputs, n_outputs))


def cnn0(shape: Sequence[int], n_outputs: int, hidden: int = 128) -> nn.Sequential:
    """CNN0 of the paper: two 3x3 convolutions, pooling, a layer of 128, with dropout."""
    channels, height, width = shape
    n_features = 64 * ((height - 4) // 2) * ((width - 4) // 2)
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3), nn.ReLU(),
        nn.Conv2d(32, 64, 3), nn.ReLU(),
        nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(),
        nn.Linear(n_features, hidden), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(hidden, n_outputs),
    )  # fmt: skip


def fits_cnn0(shape: Sequence[int]) -> bool:
    """Tell whether rows are images large enough for CNN0."""
    return len(shape) == 3 and min(shape[1:]) >= SMALLEST_CNN0_IMAGE


def encoder(shape: Sequence[int], hidden: Sequence[int], n_outputs: int, network: nn.Module | None = None) -> nn.Module:
    """Choose an encoder from the shape of one row: the user's module, CNN0 for images, an MLP otherwise.

    Parameters
    ----------
    shape : sequence of int
        (columns,) for a table, (channels, rows, columns) for an image.
    hidden : sequence of int
        Widths of the MLP's hidden layers.
    n_outputs : int
        Number of values a row.
    network : torch.nn.Module, optional
        The user's own module. It is copied, with its weights, and must give `n_outputs` values a row.
    """
    if network is not None:
        return _checked_copy(network, shape, n_outputs)
    if fits_cnn0(shape):
        return cnn0(shape, n_outputs)
    layers = mlp(prod(shape), hidden, n_outputs)
    return layers if len(shape) == 1 else nn.Sequential(nn.Flatten(), *layers)


def _checked_copy(network: nn.Module, shape: Sequence[int], n_outputs: int) -> nn.Module:
    module = copy.deepcopy(network).to(dtype=torch.get_default_dtype())
    try:
        with torch.no_grad():
            module.eval()
            outputs = module(torch.zeros(2, *shape))
    except (RuntimeError, ValueError, TypeError) as error:
        wanted = f"a module that takes rows of shape {tuple(shape)} ({error})"
        raise parameter_error("a learner or recipe", "network", wanted, network) from error
    given = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
    if given != (2, n_outputs):
        wanted = f"a module that gives {n_outputs} values a row (for two rows it gave {given})"
        raise parameter_error("a learner or recipe", "network", wanted, network)
    return module


class Standardise(nn.Module):
    """Fixed shift and scale of each column, kept with the module that needs them."""

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.mean: Tensor
        self.scale: Tensor
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)

    def forward(self, rows: Tensor) -> Tensor:
        """Standardise rows."""
        return (rows - self.mean) / self.scale
