"""An autoencoder: squeeze a row into a few numbers from which it can be rebuilt."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from fedonce.errors import parameter_error
from fedonce.learners.base import NetworkLearner, epochs_for
from fedonce.learners.names import Facts
from fedonce.privacy.budget import Purse, Task, steps_task
from fedonce.privacy.dpsgd import check_clippable
from fedonce.training.checkpoints import Memory
from fedonce.training.closedform import ClosedForm
from fedonce.training.loop import Batch, Rows, autograd_step, closed_form_step, private_module_step, private_step
from fedonce.training.networks import mlp
from fedonce.training.randomness import torch_seeded
from fedonce.training.settings import Epoch, Training

# With a privacy budget: few large batches, one hidden layer, which has less noise to bear.
TRAINING = "autoencoder"
PRIVATE_EPOCHS, PRIVATE_RATE, CLIP = 30, 1e-2, 0.5
LARGEST_SHARE = 4  # a batch is at most a quarter of the rows


@dataclass(eq=False)
class Autoencoder(NetworkLearner):
    """Encoder and decoder trained to rebuild each row; the decoder never leaves the guest and is not kept.

    Parameters
    ----------
    epochs : int, optional
        None: as many as make about 6,000 steps, 10 to 100.
    batch, rate, weight_decay
        Of AdamW with a one-cycle rate.
    private_batch : int
        Rows in a sample, on average, with a privacy budget.
    """

    name: ClassVar[str] = "autoencoder"
    facts: ClassVar[Facts] = Facts(private=True, exports=True)
    hidden: tuple[int, ...] = (128, 64)
    epochs: int | None = None
    batch: int = 128
    rate: float = 3e-3
    weight_decay: float = 1e-4
    private_batch: int = 4096

    def fit(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device) -> list[Epoch]:
        """Learn from rows: the mean over rows of the squared error of rebuilding them."""
        self._refuse_codes()
        epochs = epochs_for(len(rows), self.batch, 6000, 10, 100) if self.epochs is None else self.epochs
        training = Training(epochs, self.batch, self.rate, self.weight_decay, "one-cycle", "adamw")
        with torch_seeded(rng):
            network = self.start(rows, dim, device)
            decoder = mlp(dim, self.hidden[::-1], prod(rows.shape[1:])).to(device, torch.get_default_dtype())
            data = torch.from_numpy(rows).to(device, torch.get_default_dtype())
            memory = Memory({"network": network, "decoder": decoder})
            if isinstance(network, nn.Sequential) and rows.ndim == 2:
                whole = nn.Sequential(*network, *decoder)
                if ClosedForm.supports(whole, device):
                    form, flat = ClosedForm(whole), data.numpy()
                    step = closed_form_step(form, flat, lambda batch, outputs, epoch: flat[batch])
                    update = form.update("adamw", self.weight_decay)
                    return self.train(update, len(rows), step, training, rng, memory=memory)

            def loss(batch: Batch, epoch: int) -> Tensor:
                own = data[torch.from_numpy(batch).to(device)]
                rebuilt: Tensor = decoder(network(own))
                return (rebuilt - own.flatten(1)).square().sum(dim=1).mean()

            parameters = [*network.train().parameters(), *decoder.parameters()]
            step = autograd_step(parameters, loss)
            return self.train(training.update(parameters), len(rows), step, training, rng, memory=memory)

    def private_tasks(self, n_rows: int, share: float, exact: bool = False, unsound: bool = False) -> list[Task]:
        """Return its steps: ten times the share of a learner that makes do with a few sums."""
        batch = min(self.private_batch, max(1, n_rows // LARGEST_SHARE))
        return [steps_task(TRAINING, n_rows, batch, PRIVATE_EPOCHS if self.epochs is None else self.epochs, 10 * share)]

    def fit_private(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device, purse: Purse) -> None:
        """Learn by DP-SGD; each row's loss is its own, so that there is a gradient of one row to clip."""
        self._refuse_codes()
        private = purse.steps(TRAINING, rows, CLIP)
        training = Training(private.epochs, private.batch, PRIVATE_RATE, 0.0, "linear", "adam", private.event.steps)
        own = rows if self.network is not None else rows.reshape(len(rows), prod(rows.shape[1:]))
        flat = own.reshape(len(own), prod(own.shape[1:]))
        with torch_seeded(rng):
            network = self.start(own, dim, torch.device("cpu"), bounded=True)
            decoder = mlp(dim, self.hidden[-1:], flat.shape[1]).to(torch.get_default_dtype())
            whole = nn.Sequential(*(network if isinstance(network, nn.Sequential) else [network]), *decoder)
            if ClosedForm.supports(whole, torch.device("cpu")):
                form = ClosedForm(whole)
                step = private_step(form, flat.__getitem__, lambda batch, out, _: 2 * (out - flat[batch]), private)
                self.train(form.update("adam"), len(rows), step, training, rng, private)
                return
            data = torch.from_numpy(own).to(torch.get_default_dtype())
            check_clippable(whole, [data], f"the learner {self.name!r}")

            def tensors_of(batch: Batch, epoch: int) -> tuple[list[Tensor], Tensor]:
                chosen = data[torch.from_numpy(batch)]
                return [chosen], chosen.flatten(1)

            parameters, step = private_module_step(
                whole.train(), tensors_of, lambda out, target: (out - target).square().sum(), private
            )
            self.train(training.update(parameters), len(rows), step, training, rng, private)

    def _refuse_codes(self) -> None:
        if self.embeddings:
            wanted = "no NCF, whose codes are names and not numbers to rebuild; take 'nat', or leave categories one-hot encoded"
            raise parameter_error("Autoencoder", "network", wanted, self.network)
