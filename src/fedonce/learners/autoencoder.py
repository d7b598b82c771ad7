"""An autoencoder: squeeze a row into a few numbers from which it can be rebuilt."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from fedonce.errors import parameter_error
from fedonce.learners.base import NetworkLearner, epochs_for
from fedonce.learners.names import Facts
from fedonce.privacy.budget import Purse, Task, steps_task
from fedonce.training.checkpoints import Progress
from fedonce.training.loop import Rows
from fedonce.training.losses import SquaredDistance
from fedonce.training.networks import chain, mlp
from fedonce.training.problem import Problem
from fedonce.training.settings import Epoch, Training
from fedonce.training.trainer import trainer

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
    hidden : tuple of int
        Widths of the encoder's hidden layers; the decoder has them in reverse.
    network : torch.nn.Module, NCF, "cnn0", "cnn1" or None
        An encoder of your own instead.
    """

    name: ClassVar[str] = "autoencoder"
    facts: ClassVar[Facts] = Facts(private=True, exports=True)
    hidden: tuple[int, ...] = (128, 64)
    epochs: int | None = None
    batch: int = 128
    rate: float = 3e-3
    weight_decay: float = 1e-4
    private_batch: int = 4096

    def fit(
        self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device, progress: Progress | None = None
    ) -> list[Epoch]:
        """Learn from rows: the mean over rows of the squared error of rebuilding them."""
        self._refuse_codes()
        epochs = epochs_for(len(rows), self.batch, 6000, 10, 100) if self.epochs is None else self.epochs
        training = Training(epochs, self.batch, self.rate, self.weight_decay, "one-cycle", "adamw")
        with self.encoder_to_train(rows, dim, rng, device) as network:
            problem = self._problem(network, rows, self.hidden[::-1], device)
            return trainer(problem, training, rng, None, progress).run()

    def private_tasks(self, n_rows: int, share: float, exact: bool = False, unsound: bool = False) -> list[Task]:
        """Return its steps: ten times the share of a learner that makes do with a few sums."""
        batch = min(self.private_batch, max(1, n_rows // LARGEST_SHARE))
        return [steps_task(TRAINING, n_rows, batch, PRIVATE_EPOCHS if self.epochs is None else self.epochs, 10 * share)]

    def fit_private(
        self,
        rows: Rows,
        dim: int,
        rng: np.random.Generator,
        device: torch.device,
        purse: Purse,
        progress: Progress | None = None,
    ) -> None:
        """Learn by DP-SGD; each row's loss is its own, so that there is a gradient of one row to clip."""
        self._refuse_codes()
        private = purse.steps(TRAINING, rows, CLIP)
        training = Training(private.epochs, private.batch, PRIVATE_RATE, 0.0, "linear", "adam", private.event.steps)
        own = rows if self.network is not None else rows.reshape(len(rows), prod(rows.shape[1:]))
        cpu = torch.device("cpu")
        with self.encoder_to_train(own, dim, rng, cpu, bounded=True) as network:
            trainer(self._problem(network, own, self.hidden[-1:], cpu), training, rng, private, progress).run()

    def _problem(self, network: nn.Module, rows: Rows, hidden: tuple[int, ...], device: torch.device) -> Problem:
        """State what is learnt: to rebuild each row, by a decoder that has these hidden layers."""
        dtype = torch.get_default_dtype()
        decoder = mlp(self.dim_, hidden, prod(rows.shape[1:])).to(device, dtype)
        data = torch.from_numpy(rows).to(device, dtype)
        whole = chain(network, decoder)
        return Problem(whole, [data], data.flatten(1), SquaredDistance(), self.owner, self.name, measured=network)

    def _refuse_codes(self) -> None:
        if self.embeddings:
            wanted = "no NCF, whose codes are names and not numbers to rebuild; take 'nat', or leave categories one-hot encoded"
            raise parameter_error("Autoencoder", "network", wanted, self.network)
