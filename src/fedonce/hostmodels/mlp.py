"""A small network for small tables, trained in closed form: a step costs what its arithmetic costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from fedonce.errors import InputError, parameter_error
from fedonce.hostmodels.base import Examples, HostModel, Inputs, Tensors
from fedonce.hostmodels.names import Facts
from fedonce.hostmodels.onetable import repeated, with_marks
from fedonce.training.loop import Rows, apply
from fedonce.training.losses import LabelLoss
from fedonce.training.networks import check_weights, mlp
from fedonce.training.problem import Problem
from fedonce.training.randomness import torch_seeded
from fedonce.training.settings import Epoch, Training
from fedonce.training.trainer import trainer

MOST_MEMBERS = 64


@dataclass(eq=False)
class MlpModel(HostModel):
    """Fully connected layers on own columns, guests' values and marks of who is present, all standardised.

    Parameters
    ----------
    hidden : tuple of int
        Widths of the hidden layers.
    epochs : int, optional
        None: as many as make about 600 steps, 10 to 60.
    members : int
        Networks that are trained alike from different random numbers; their outputs are averaged.
    rate, weight_decay : float
        Of AdamW with a one-cycle rate.
    guest_dropout : float
        Share of the rows that are there once more with guests left out at random, so that the model copes with absent ones.
    """

    name: ClassVar[str] = "mlp"
    facts: ClassVar[Facts] = Facts()
    hidden: tuple[int, ...] = (96, 48)
    epochs: int | None = None
    members: int = 2
    rate: float = 4e-3
    weight_decay: float = 0.2
    guest_dropout: float = 0.1
    scale_: Tensors = field(default_factory=dict, init=False, repr=False)  # mean and spread of each column
    networks_: tuple[nn.Sequential, ...] = field(default=(), init=False, repr=False)
    dims_: tuple[int, ...] = field(default=(), init=False, repr=False)

    def check(self, owner: str) -> None:
        """Raise where a setting cannot be meant."""
        if not self.hidden or not all(type(width) is int and width > 0 for width in self.hidden):
            raise parameter_error(f"MlpModel of {owner}", "hidden", "positive integers", self.hidden)
        if type(self.members) is not int or not 1 <= self.members <= MOST_MEMBERS:
            wanted = f"an integer from 1 to {MOST_MEMBERS}"
            raise parameter_error(f"MlpModel of {owner}", "members", wanted, self.members)
        if self.epochs is not None and (type(self.epochs) is not int or self.epochs < 1):
            raise parameter_error(f"MlpModel of {owner}", "epochs", "a positive integer or None", self.epochs)
        for name, most in (("rate", math.inf), ("weight_decay", math.inf), ("guest_dropout", 1)):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 <= value <= most or value == math.inf:
                wanted = "a finite number from 0" if most == math.inf else f"a number from 0 to {most}"
                raise parameter_error(f"MlpModel of {owner}", name, wanted, value)

    def fit(
        self, examples: Examples, dims: Sequence[int], n_outputs: int, rng: np.random.Generator, device: torch.device
    ) -> list[Epoch]:
        """Train each network on all rows; on the CPU, where so little is done soonest."""
        return self._train(examples, dims, n_outputs, rng, self.members)

    def fit_watched(
        self,
        examples: Examples,
        held: Examples,
        dims: Sequence[int],
        n_outputs: int,
        rng: np.random.Generator,
        device: torch.device,
    ) -> list[Epoch]:
        """Train one network: enough to be judged by."""
        return self._train(examples, dims, n_outputs, rng, 1)

    def _train(
        self, examples: Examples, dims: Sequence[int], n_outputs: int, rng: np.random.Generator, members: int
    ) -> list[Epoch]:
        self.dims_, self.networks_ = tuple(dims), ()
        examples = repeated(examples, self.guest_dropout, rng)
        table = with_marks(examples.own, examples.values, examples.present, dims)
        mean, spread = table.mean(axis=0, dtype=np.float64), table.std(axis=0, dtype=np.float64)
        mean[table.shape[1] - len(dims) :] = 0  # marks stay as they are, and so do columns of one value
        spread[table.shape[1] - len(dims) :] = 1
        spread[spread <= 1e-6 * np.maximum(np.abs(mean), 1)] = 1
        self.scale_ = {name: each.astype(np.float32) for name, each in (("mean", mean), ("spread", spread))}
        rows = torch.from_numpy(self._inputs(table, examples.present))
        training, history = self.training(len(table)), list[Epoch]()
        for _ in range(members):
            with torch_seeded(rng):
                network = mlp(table.shape[1], self.hidden, n_outputs)
                history = trainer(self._problem(network, rows, examples), training, rng).run()
            self.networks_ += (network.eval(),)
        return history

    def training(self, n_rows: int) -> Training:
        """Return how it trains on so many rows."""
        batch = int(np.clip(n_rows // 16, 16, 128))
        epochs = self.epochs or int(np.clip(round(600 * batch / n_rows), 10, 60))
        return Training(epochs, batch, self.rate, self.weight_decay, "one-cycle", "adamw")

    def _problem(self, network: nn.Sequential, rows: Tensor, examples: Examples) -> Problem:
        target, weight = torch.from_numpy(examples.target), examples.weight
        return Problem(
            network,
            [rows],
            target.float() if target.is_floating_point() else target,
            LabelLoss(),
            "the host model 'mlp'",
            self.name,
            weight=None if weight is None else torch.from_numpy(weight).float(),
        )

    def _inputs(self, table: Rows, present: Rows) -> Rows:
        """Return the columns standardised; an absent guest's values are as they are on average."""
        scaled = ((table - self.scale_["mean"]) / self.scale_["spread"]).astype(np.float32)
        end = table.shape[1] - len(self.dims_)
        scaled[:, end - sum(self.dims_) : end] *= np.repeat(present > 0, self.dims_, axis=1)
        return scaled

    def outputs(self, own: Rows, values: Rows, present: Rows, device: torch.device) -> Rows:
        """Average the networks' outputs."""
        if not self.networks_:
            raise InputError("This MlpModel has not been trained yet; call fit first.")
        table = self._inputs(with_marks(own, values, present, self.dims_), present)
        found = [apply(network, table, torch.device("cpu")) for network in self.networks_]
        return np.asarray(np.mean(found, axis=0), dtype=np.float32)

    def state(self) -> Tensors:
        """Return scales and weights."""
        weights = {
            f"{i}.{name}": value.cpu().numpy()
            for i, network in enumerate(self.networks_)
            for name, value in network.state_dict().items()
        }
        return self.scale_ | weights

    def restore(self, tensors: Tensors, inputs: Inputs) -> None:
        """Make the networks anew, and load their weights."""
        width = sum(inputs.shape) + sum(inputs.dims) + len(inputs.dims)
        self.check("a file")
        self.dims_ = inputs.dims
        self.scale_ = {name: tensors[name].astype(np.float32) for name in ("mean", "spread")}
        if any(each.shape != (width,) or not np.isfinite(each).all() for each in self.scale_.values()):
            raise ValueError("its scales do not fit its columns")
        if not (self.scale_["spread"] > 0).all():
            raise ValueError("its spreads must be above 0")
        self.networks_ = ()
        for i in range(self.members):
            own = {name.removeprefix(f"{i}."): each for name, each in tensors.items() if name.startswith(f"{i}.")}
            check_weights(lambda: mlp(width, self.hidden, inputs.n_outputs), own)
            made = mlp(width, self.hidden, inputs.n_outputs)
            made.load_state_dict({name: torch.from_numpy(value) for name, value in own.items()})
            self.networks_ += (made.eval(),)
