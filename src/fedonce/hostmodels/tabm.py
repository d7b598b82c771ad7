"""The host model "tabm": many networks that share their layers, on piecewise-linear encodings; see `tabm_network`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fedonce.errors import InputError, parameter_error
from fedonce.hostmodels.base import Examples, HostModel, Inputs, Tensors
from fedonce.hostmodels.names import Facts
from fedonce.hostmodels.network import drop_guests
from fedonce.hostmodels.tabm_network import Heads, HeadsLoss, Shape, Size, TabM, holders
from fedonce.training.loop import Rows, apply
from fedonce.training.networks import check_weights
from fedonce.training.problem import Problem
from fedonce.training.randomness import torch_seeded
from fedonce.training.settings import Epoch, Training
from fedonce.training.trainer import trainer

LARGEST_NORM = 1.0  # of a step's gradient
MOST_EPOCHS, MOST_ON_GPU = 40, 100
ROW_VISITS = 10_000_000  # rows times epochs, beyond which a large table is gone over less often
ON_CPU = Shape(heads=2, width=256, layers=2, bins=48, embedding=8, dropout=0.0)
ON_GPU = Shape(heads=32, width=512, layers=2, bins=48, embedding=16, dropout=0.1)


@dataclass(eq=False)
class TabMModel(HostModel):
    """k networks that share their layers; probabilities, or numbers, are averaged.

    Parameters
    ----------
    heads, width, embedding : int, optional
        How many networks, units per layer, and values that a column's bins become. None: 32, 512 and 16 on a GPU; 2, 256
        and 8 on a CPU, about a fiftieth of the work.
    dropout : float, optional
        Of all hidden units. None: 0.1 on a GPU, and nothing on a CPU, where it costs as much as a layer and the network is small.
    layers : int
        Hidden layers.
    bins : int
        At most so many bins per column.
    epochs, batch : int, optional
        None: by the number of rows.
    rate, weight_decay : float
        Of AdamW; the rate rises and then falls to nothing over the epochs.
    guest_dropout : float
        Share of the rows for which, in each epoch, guests are dropped at random, so that the model copes with absent ones.
    """

    name: ClassVar[str] = "tabm"
    facts: ClassVar[Facts] = Facts(exports=True)
    heads: int | None = None
    width: int | None = None
    embedding: int | None = None
    dropout: float | None = None
    layers: int = 2
    bins: int = 48
    epochs: int | None = None
    batch: int | None = None
    rate: float = 4e-3
    weight_decay: float = 3e-4
    guest_dropout: float = 0.1
    network_: TabM | None = field(default=None, init=False, repr=False)

    def check(self, owner: str) -> None:
        """Raise where a setting cannot be meant."""
        for name in ("heads", "width", "embedding", "layers", "bins", "epochs", "batch"):
            value = getattr(self, name)
            optional = getattr(type(self), name) is None
            if not (optional and value is None) and not _is_count(value):
                raise parameter_error("TabMModel", name, "a positive integer", value)
        for name, most in (("rate", math.inf), ("weight_decay", math.inf), ("dropout", 1.0), ("guest_dropout", 1.0)):
            value = getattr(self, name)
            if not (name == "dropout" and value is None) and not (isinstance(value, int | float) and 0 <= value < most):
                wanted = "a number from 0" if most == math.inf else "a number from 0 to below 1"
                raise parameter_error("TabMModel", name, wanted, value)

    def fit(
        self, examples: Examples, dims: Sequence[int], n_outputs: int, rng: np.random.Generator, device: torch.device
    ) -> list[Epoch]:
        """Train on all rows for all epochs: the rate falls to nothing, and rows to stop by would be missed in training."""
        n_rows = len(examples.own)
        with torch_seeded(rng):
            network = TabM.of(examples, dims, n_outputs, self._shape(device)).to(device)
            training = self.training(n_rows, MOST_EPOCHS if device.type == "cpu" else MOST_ON_GPU)
            history = trainer(self._problem(network, examples, device), training, rng).run()
        self.network_ = network.cpu().eval()
        return history

    def _problem(self, network: TabM, examples: Examples, device: torch.device) -> Problem:
        arrays = (examples.own, examples.values, examples.present)
        inputs = [torch.from_numpy(array).to(device, torch.float32) for array in arrays]
        target, weight = torch.from_numpy(examples.target).to(device), examples.weight

        def change(own: Tensor, values: Tensor, present: Tensor) -> list[Tensor]:
            return [own, values, drop_guests(present, self.guest_dropout)]

        return Problem(
            Heads(network),
            inputs,
            target.float() if target.is_floating_point() else target,
            HeadsLoss(),
            "the host model 'tabm'",
            self.name,
            weight=None if weight is None else torch.from_numpy(weight).to(device, torch.float32),
            change=change,
            largest_norm=LARGEST_NORM,
            row_work=network.size.work(1),
        )

    def training(self, n_rows: int, most_epochs: int = MOST_EPOCHS) -> Training:
        """Return how it trains on so many rows."""
        batch = self.batch or int(np.clip(n_rows // 32, 32, 512))
        epochs = self.epochs or int(np.clip(ROW_VISITS // n_rows, 5, most_epochs))
        return Training(epochs, batch, self.rate, self.weight_decay, "one-cycle", "adamw")

    def work(self, examples: Examples, n_outputs: int, device: torch.device) -> float:
        """Return about how many operations a training takes, were all columns of many values."""
        shape, n_rows = self._shape(device), len(examples.own)
        columns, guests = examples.own.shape[1] + examples.values.shape[1], examples.present.shape[1]
        size = Size(shape.heads, shape.width, shape.layers, columns, shape.bins, shape.embedding, 0, guests, n_outputs)
        return 3 * self.training(n_rows).epochs * size.work(n_rows)

    def _shape(self, device: torch.device) -> Shape:
        default = ON_CPU if device.type == "cpu" else ON_GPU
        given = {name: getattr(self, name) for name in ("heads", "width", "embedding", "dropout")}
        chosen = {name: value for name, value in given.items() if value is not None}
        return replace(default, layers=self.layers, bins=self.bins, **chosen)

    def outputs(self, own: Rows, values: Rows, present: Rows, device: torch.device) -> Rows:
        """Run the network."""
        return apply(self.module(), [own, values, present], device)

    def module(self) -> TabM:
        """Return the trained network."""
        if self.network_ is None:
            raise InputError("This TabMModel has not been trained yet; call fit first.")
        return self.network_

    def state(self) -> Tensors:
        """Return the weights and the bins."""
        return {name: value.cpu().numpy() for name, value in self.module().state_dict().items()}

    def restore(self, tensors: Tensors, inputs: Inputs) -> None:
        """Make a network of the size that the weights tell of, and load them."""
        size = _size_of(tensors, inputs)
        check_weights(lambda: TabM(size), tensors)
        _check_bins(tensors, inputs)
        made = TabM(size)
        made.load_state_dict({name: torch.from_numpy(value) for name, value in tensors.items()})
        self.network_ = made.eval()


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _size_of(tensors: Tensors, inputs: Inputs) -> Size:
    """Return the size of a network with these weights: never larger than they are, whatever the settings say."""
    heads, width, _ = tensors["last"].shape
    layers = 1 + sum(name.startswith("hidden.") and name.endswith(".weight") for name in tensors)
    columns, bins, embedding = tensors["embedding"].shape
    pairs = len(tensors["two.column"])
    return Size(heads, width, layers, columns, bins, embedding, pairs, len(inputs.dims), inputs.n_outputs)


def _check_bins(tensors: Tensors, inputs: Inputs) -> None:
    """Raise ValueError where bins are of columns that there are not or of another party, or have no width."""
    holder = holders(inputs.shape[0], inputs.dims)
    if any(tensors[name].dtype != np.int64 for name in ("many.column", "two.column", "holder")):
        raise ValueError("the columns of its bins are no integers")
    column = np.concatenate([tensors["many.column"], tensors["two.column"]])
    if np.any(column < 0) or np.any(column >= len(holder)) or not np.array_equal(tensors["holder"], holder[column]):
        raise ValueError("it has bins of columns that there are not, or of other parties")
    if not all(np.all(tensors[name] > 0) for name in ("many.width", "two.width")):
        raise ValueError("it has bins without a width")
