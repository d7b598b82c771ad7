"""NAT: noise as targets (Bojanowski and Joulin, 2017), the learner of the paper (Algorithm 1, lines 3 to 9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedonce.closedform import ClosedForm
from fedonce.errors import InputError, parameter_error
from fedonce.learners.base import NetworkLearner, epochs_for
from fedonce.randomness import torch_seeded
from fedonce.targets import assign, draw_targets
from fedonce.training import Batch, Epoch, Rows, Training, autograd_step, closed_form_step


@dataclass(eq=False)
class NAT(NetworkLearner):
    """Pull each row's output to a target of its own on the unit sphere, and let targets change owners within a batch.

    Parameters
    ----------
    epochs : int, optional
        T in the paper. None: as many as make about 6,000 steps, 10 to 100.
    batch : int
        b in the paper; the assignment is exact within a batch.
    rate, weight_decay : float
        Of the optimizer: eta and lambda in the paper.
    update_every : int
        f in the paper: targets are assigned anew every so many epochs.
    optimizer : str
        "adam", "adamw" or "sgd".
    """

    name: ClassVar[str] = "nat"
    epochs: int | None = None
    batch: int = 128
    rate: float = 1e-3
    weight_decay: float = 1e-5
    update_every: int = 1
    optimizer: str = "adam"

    def build(self, shape: tuple[int, ...], dim: int) -> nn.Module:
        """Make the encoder; for tables its outputs go through tanh, as in the published experiments."""
        network = super().build(shape, dim)
        if len(shape) > 1 or isinstance(self.network, nn.Module):
            return network
        return nn.Sequential(*(network if isinstance(network, nn.Sequential) else [network]), nn.Tanh())

    def fit(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device) -> list[Epoch]:
        """Learn from rows: the mean over rows of the squared distance to the assigned targets."""
        if self.update_every < 1:
            raise parameter_error("NAT", "update_every", "a positive integer", self.update_every)
        epochs = epochs_for(len(rows), self.batch, 6000, 10, 100) if self.epochs is None else self.epochs
        training = Training(epochs, self.batch, self.rate, self.weight_decay, optimizer=self.optimizer)
        with torch_seeded(rng):
            network = self.start(rows, dim, device)
            dtype = torch.get_default_dtype()
            data = torch.from_numpy(rows).to(device, dtype)
            targets = torch.from_numpy(draw_targets(len(rows), dim, rng)).to(dtype).numpy()

            def target_of(batch: Batch, outputs: NDArray[Any], epoch: int) -> NDArray[Any]:
                """Return the batch's targets; they persist, so a row keeps its own until the next assignment."""
                if not np.isfinite(outputs).all():
                    raise InputError(f"NAT diverged in epoch {epoch + 1}. Lower its rate ({self.rate}).")
                own = targets[batch]
                if epoch % self.update_every == 0:
                    own = targets[batch] = own[assign(outputs, own)]
                return own

            if isinstance(network, nn.Sequential) and ClosedForm.supports(network, device):
                form = ClosedForm(network)
                step = closed_form_step(form, data.numpy(), target_of)
                return self.train(form.update(self.optimizer, self.weight_decay), len(rows), step, training, rng)

            def loss(batch: Batch, epoch: int) -> Tensor:
                outputs: Tensor = network(data[torch.from_numpy(batch).to(device)])
                target = torch.from_numpy(target_of(batch, outputs.detach().cpu().numpy(), epoch))
                return (outputs - target.to(device)).square().sum(dim=1).mean()

            parameters = list(network.train().parameters())
            return self.train(training.update(parameters), len(rows), autograd_step(parameters, loss), training, rng)
