"""An autoencoder: squeeze a row into a few numbers from which it can be rebuilt."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from fedonce.closedform import ClosedForm
from fedonce.errors import parameter_error
from fedonce.learners.base import NetworkLearner, epochs_for
from fedonce.networks import mlp
from fedonce.randomness import torch_seeded
from fedonce.training import Batch, Epoch, Rows, Training, autograd_step, closed_form_step


@dataclass(eq=False)
class Autoencoder(NetworkLearner):
    """Encoder and decoder trained to rebuild each row; the decoder never leaves the guest and is not kept.

    Parameters
    ----------
    epochs : int, optional
        None: as many as make about 6,000 steps, 10 to 100.
    batch, rate, weight_decay
        Of AdamW with a one-cycle rate.
    """

    name: ClassVar[str] = "autoencoder"
    hidden: tuple[int, ...] = (128, 64)
    epochs: int | None = None
    batch: int = 128
    rate: float = 3e-3
    weight_decay: float = 1e-4

    def fit(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device) -> list[Epoch]:
        """Learn from rows: the mean over rows of the squared error of rebuilding them."""
        if self.embeddings:
            wanted = "no NCF, whose codes are names and not numbers to rebuild; take 'nat', or leave categories one-hot encoded"
            raise parameter_error("Autoencoder", "network", wanted, self.network)
        epochs = epochs_for(len(rows), self.batch, 6000, 10, 100) if self.epochs is None else self.epochs
        training = Training(epochs, self.batch, self.rate, self.weight_decay, "one-cycle", "adamw")
        with torch_seeded(rng):
            network = self.start(rows, dim, device)
            decoder = mlp(dim, self.hidden[::-1], prod(rows.shape[1:])).to(device, torch.get_default_dtype())
            data = torch.from_numpy(rows).to(device, torch.get_default_dtype())
            if isinstance(network, nn.Sequential) and rows.ndim == 2:
                whole = nn.Sequential(*network, *decoder)
                if ClosedForm.supports(whole, device):
                    form, flat = ClosedForm(whole), data.numpy()
                    step = closed_form_step(form, flat, lambda batch, outputs, epoch: flat[batch])
                    return self.train(form.update("adamw", self.weight_decay), len(rows), step, training, rng)

            def loss(batch: Batch, epoch: int) -> Tensor:
                own = data[torch.from_numpy(batch).to(device)]
                rebuilt: Tensor = decoder(network(own))
                return (rebuilt - own.flatten(1)).square().sum(dim=1).mean()

            parameters = [*network.train().parameters(), *decoder.parameters()]
            return self.train(training.update(parameters), len(rows), autograd_step(parameters, loss), training, rng)
