"""Encoders by kind of data: an MLP for tables, CNN0, CNN1 or CNN3 for images, NCF for categories, or the user's own module."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedonce.errors import parameter_error

SMALLEST_CNN0_IMAGE = 6  # pixels per side; below, nothing is left after CNN0's convolutions and pooling
SMALLEST_CNN1_IMAGE = 14
TUNED_HIDDEN = (128, 64)  # of the network that rounds train for a guest whose learner is none
TUNED_EMBEDDING = 16  # and of each of its columns of codes


ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}


def mlp(
    n_inputs: int, hidden: Sequence[int], n_outputs: int, dropout: float = 0.0, activation: str = "relu"
) -> nn.Sequential:
    """Fully connected layers, FC(hidden) in the paper's tables, with ReLU (or tanh) between them."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(n_inputs, width), ACTIVATIONS[activation]()]
        if dropout:
            layers.append(nn.Dropout(dropout))
        n_inputs = width
    return nn.Sequential(*layers, nn.Linear(n_inputs, n_outputs))


def chain(first: nn.Module, second: nn.Sequential) -> nn.Sequential:
    """Return one network after another: layer by layer where both are plain sequences, which closed forms need."""
    if isinstance(first, nn.Sequential) and type(first).forward is nn.Sequential.forward:
        return nn.Sequential(*first, *second)
    return nn.Sequential(first, second)


def cnn0(shape: Sequence[int], n_outputs: int, hidden: int = 128) -> nn.Sequential:
    """CNN0 of the paper: two 3x3 convolutions, pooling, a layer of 128, with dropout."""
    channels, height, width = shape
    n_features = 64 * ((height - 4) // 2) * ((width - 4) // 2)
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(n_features, hidden),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(hidden, n_outputs),
    )


def cnn1(shape: Sequence[int], n_outputs: int) -> nn.Sequential:
    """CNN1 of the paper, small enough for differential privacy: two convolutions with pooling, and one linear layer."""
    channels, *sides = shape
    if min(sides) < SMALLEST_CNN1_IMAGE:
        raise parameter_error("a learner or recipe", "network", "'cnn0' for images below 14 x 14 pixels", "cnn1")
    height, width = ((((side - 2) // 2 + 1) - 1 - 4) // 2 for side in sides)
    return nn.Sequential(
        nn.Conv2d(channels, 16, 8, stride=2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, stride=1),
        nn.Conv2d(16, 32, 4, stride=2),
        nn.ReLU(),
        nn.MaxPool2d(2, stride=1),
        nn.Flatten(),
        nn.Linear(32 * height * width, n_outputs),
    )


def cnn3(shape: Sequence[int], n_outputs: int, hidden: int = 256) -> nn.Sequential:
    """Return a larger network than the paper's: three 3x3 convolutions with batch norm, pooling, a layer of 256.

    Batch norm mixes rows while it is trained, so that it has no place in a training with a privacy budget.
    """
    channels, *sides = shape
    layers: list[nn.Module] = []
    for width, pooled in ((32, False), (64, True), (128, True)):
        layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        if pooled:
            layers.append(nn.MaxPool2d(2))
            sides = [side // 2 for side in sides]
        channels = width
    features = [nn.Flatten(), nn.Linear(channels * prod(sides), hidden), nn.ReLU()]
    network = nn.Sequential(*layers, *features, nn.Dropout(0.3), nn.Linear(hidden, n_outputs))
    # With channels last a step takes a tenth to a quarter less time on a CPU (`python -m benchmarks.speed.convolutions`).
    for layer in layers:
        if isinstance(layer, nn.Conv2d):
            layer.weight.data = layer.weight.data.to(memory_format=torch.channels_last)
    return network


def shifted(images: Tensor, most: int = 1) -> Tensor:
    """Return a batch of images moved by up to so many pixels, all alike and at random; what comes in is zeros."""
    down, right = (int(torch.randint(2 * most + 1, ()).item()) for _ in range(2))
    height, width = images.shape[2:]
    return nn.functional.pad(images, (most,) * 4)[:, :, down : down + height, right : right + width]


@dataclass(frozen=True)
class NCF:
    """Neural collaborative filtering (He et al., 2017): an embedding per column of categories, side by side, then layers.

    As `network` of a learner or a recipe; the party's columns with an embedding are then numbered by their values, be
    they text or numbers, instead of one-hot encoded or scaled.

    Parameters
    ----------
    embeddings : tuple of int
        Values that each column's embedding has; 0 for a column of numbers, which is taken as it is.
    hidden : tuple of int
        Widths of the layers after them.
    dropout : float
        Dropout of the embeddings.
    """

    embeddings: tuple[int, ...]
    hidden: tuple[int, ...]
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("embeddings", "hidden"):
            widths = getattr(self, name)
            least = 0 if name == "embeddings" else 1
            if not isinstance(widths, tuple | list) or not all(
                type(width) is int and width >= least for width in widths
            ):
                raise parameter_error("NCF", name, f"a tuple of integers of at least {least}", widths)
            object.__setattr__(self, name, tuple(widths))

    def build(self, sizes: Sequence[int], n_outputs: int) -> nn.Module:
        """Make the network for columns with so many codes each."""
        if len(sizes) != len(self.embeddings):
            wanted = f"as long as the party has columns ({len(sizes)})"
            raise parameter_error("NCF", "embeddings", wanted, self.embeddings)
        return _NCFNetwork(self, sizes, n_outputs)


class _NCFNetwork(nn.Module):
    """Embeddings and layers; code 0, a category that training rows do not have, is zeros."""

    def __init__(self, settings: NCF, sizes: Sequence[int], n_outputs: int) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(
            nn.Embedding(size, width, padding_idx=0) if width else nn.Identity()
            for size, width in zip(sizes, settings.embeddings, strict=True)
        )
        for table in self.embeddings:
            if isinstance(table, nn.Embedding):
                nn.init.normal_(table.weight, std=0.05)  # torch's own spread of 1 learns what the rows do not say
                with torch.no_grad():
                    table.weight[0] = 0
        self.dropout = nn.Dropout(settings.dropout)
        self.layers = mlp(sum(width or 1 for width in settings.embeddings), settings.hidden, n_outputs)

    def forward(self, rows: Tensor) -> Tensor:
        """Give values for rows of codes and numbers."""
        parts = [self._part(table, rows[:, j]) for j, table in enumerate(self.embeddings)]
        outputs: Tensor = self.layers(self.dropout(torch.cat(parts, dim=1)))
        return outputs

    @staticmethod
    def _part(table: nn.Module, column: Tensor) -> Tensor:
        if not isinstance(table, nn.Embedding):
            return column[:, None]
        codes = column.long()
        found: Tensor = table(torch.where(codes < table.num_embeddings, codes, 0))
        return found


Network = nn.Module | NCF | str | None  # what users may give as `network`


def code_sizes(network: Network, rows: NDArray[Any]) -> tuple[int, ...]:
    """Return how many codes each column of rows has, where the network is made of embeddings; else nothing."""
    return tuple(int(most) + 1 for most in rows.max(axis=0)) if isinstance(network, NCF) and rows.ndim == 2 else ()


def fits_cnn0(shape: Sequence[int]) -> bool:
    """Tell whether rows are images large enough for CNN0."""
    return len(shape) == 3 and min(shape[1:]) >= SMALLEST_CNN0_IMAGE


def encoder(
    shape: Sequence[int], hidden: Sequence[int], n_outputs: int, network: Network = None, sizes: Sequence[int] = ()
) -> nn.Module:
    """Choose an encoder: the one that is asked for, else by the shape of one row CNN0 for images, an MLP otherwise.

    Parameters
    ----------
    shape : sequence of int
        (columns,) for a table, (channels, rows, columns) for an image.
    hidden : sequence of int
        Widths of the MLP's hidden layers.
    n_outputs : int
        Number of values per row.
    network : torch.nn.Module, NCF, "cnn0", "cnn1", "cnn3" or None
        A module of the user's own is copied, with its weights, and must give `n_outputs` values per row.
    sizes : sequence of int
        For NCF: how many codes each column has.
    """
    if isinstance(network, NCF):
        return network.build(sizes or [1] * prod(shape), n_outputs)
    if isinstance(network, nn.Module):
        return _checked_copy(network, shape, n_outputs)
    if network not in (None, "cnn0", "cnn1", "cnn3"):
        wanted = "a torch module, an NCF, 'cnn0', 'cnn1', 'cnn3' or None"
        raise parameter_error("a learner or recipe", "network", wanted, network)
    if network is not None and not fits_cnn0(shape):
        wanted = "None or a module of your own where rows are no images of 6 x 6 pixels or more"
        raise parameter_error("a learner or recipe", "network", wanted, network)
    if network == "cnn1":
        return cnn1(shape, n_outputs)
    if network == "cnn3":
        return cnn3(shape, n_outputs)
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
        wanted = f"a module that gives {n_outputs} values per row (for two rows it gave {given})"
        raise parameter_error("a learner or recipe", "network", wanted, network)
    return module


def check_weights(build: Callable[[], nn.Module], weights: Mapping[str, NDArray[Any]], ignored: str = "\0") -> None:
    """Raise ValueError unless a network would have weights of these names and shapes, but for a part by its prefix.

    It is built without memory for its weights: a model's settings may be forged, and ask for more than there is.
    """
    with torch.device("meta"):
        wanted = {name: tuple(value.shape) for name, value in build().state_dict().items()}
    given = {name: tuple(value.shape) for name, value in weights.items()}
    for name in sorted(wanted.keys() | given.keys()):
        if not name.startswith(ignored) and wanted.get(name) != given.get(name):
            raise ValueError(f"the weights {name!r} have the shape {given.get(name)}, and must have {wanted.get(name)}")


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


class Correction(nn.Module):
    """A network added to values that a learner gives: nothing at first, and then in steps as large as the values spread.

    `sizes` says how many codes each column of rows has, 0 for numbers; columns of codes get embeddings.
    """

    def __init__(self, shape: tuple[int, ...], values: NDArray[Any], sizes: Sequence[int] = ()) -> None:
        super().__init__()
        coded = NCF(tuple(TUNED_EMBEDDING if size else 0 for size in sizes), TUNED_HIDDEN) if any(sizes) else None
        self.network = encoder(shape, TUNED_HIDDEN, values.shape[1], coded, sizes)
        last = [layer for layer in self.network.modules() if isinstance(layer, nn.Linear)][-1]
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.spread: Tensor
        self.register_buffer("spread", torch.from_numpy(np.maximum(values.std(axis=0), 1e-6)))

    def forward(self, rows: Tensor) -> Tensor:
        """Give what is to be added to the values of rows."""
        added: Tensor = self.network(rows) * self.spread
        return added
