"""NAT: noise as targets (Bojanowski and Joulin, 2017), the learner of the paper (Algorithm 1, lines 3 to 9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedonce.errors import BudgetError, InputError, parameter_error
from fedonce.learners.base import NetworkLearner, epochs_for, with_tanh
from fedonce.learners.names import Facts, private_ones
from fedonce.learners.targets import assign, draw_targets
from fedonce.privacy.budget import Purse, Task, steps_task
from fedonce.training.checkpoints import Progress
from fedonce.training.loop import Rows
from fedonce.training.losses import SquaredDistance
from fedonce.training.problem import Batch, Problem
from fedonce.training.settings import Epoch, Training
from fedonce.training.trainer import trainer

CLIP = 1.0
UNSOUND = (
    "The learner 'nat' cannot keep a privacy budget: it assigns targets within a batch, so one row changes the targets, and the "
    "gradients, of all the others, and the noise that would hide one row's gradient does not hide that. "
    "The epsilon it is usually priced with is therefore false (docs/privacy.md has a measured violation); take "
    f"{private_ones()}, or repeat the paper's figures with Privacy(unsound_paper_reproduction=True)."
)


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
        f in the paper: targets are assigned afresh every so many epochs.
    optimizer : str
        "adam", "adamw" or "sgd".
    hidden : tuple of int
        Widths of the network's hidden layers, where the columns are no image.
    network : torch.nn.Module, NCF, "cnn0", "cnn1" or None
        A network of your own instead.
    """

    name: ClassVar[str] = "nat"
    facts: ClassVar[Facts] = Facts(exports=True)
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
        return with_tanh(network)

    def fit(
        self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device, progress: Progress | None = None
    ) -> list[Epoch]:
        """Learn from rows: the mean over rows of the squared distance to the assigned targets."""
        training = Training(self._epochs(len(rows)), self.batch, self.rate, self.weight_decay, optimizer=self.optimizer)
        with self.encoder_to_train(rows, dim, rng, device) as network:
            return trainer(self._problem(network, rows, rng, device), training, rng, None, progress).run()

    def private_tasks(self, n_rows: int, share: float, exact: bool = False, unsound: bool = False) -> list[Task]:
        """Return the paper's steps, where they were asked for by name: their price is not a guarantee."""
        if not exact and not unsound:
            raise BudgetError(UNSOUND)
        return [steps_task("NAT", n_rows, self.batch, self._epochs(n_rows), share, nominal=True)]

    def fit_private(
        self,
        rows: Rows,
        dim: int,
        rng: np.random.Generator,
        device: torch.device,
        purse: Purse,
        progress: Progress | None = None,
    ) -> None:
        """Learn as the paper's FedOnce-L1 does: clipped and noisy gradients, towards targets that couple the rows."""
        if all(entry.what != "NAT" for entry in purse.planned):
            raise BudgetError(UNSOUND)
        private = purse.steps("NAT", rows, CLIP)
        training = Training(
            private.epochs, private.batch, self.rate, self.weight_decay, "constant", self.optimizer, private.event.steps
        )
        with self.encoder_to_train(rows, dim, rng, device) as network:
            trainer(self._problem(network, rows, rng, device), training, rng, private, progress).run()

    def _epochs(self, n_rows: int) -> int:
        return epochs_for(n_rows, self.batch, 6000, 10, 100) if self.epochs is None else self.epochs

    def _problem(self, network: nn.Module, rows: Rows, rng: np.random.Generator, device: torch.device) -> Problem:
        """State what is learnt: to bring each row near its target, of which a batch's are assigned afresh when it is time."""
        if self.update_every < 1:
            raise parameter_error("NAT", "update_every", "a positive integer", self.update_every)
        dtype = torch.get_default_dtype()
        targets = torch.from_numpy(draw_targets(len(rows), self.dim_, rng)).to(dtype).numpy()

        def targets_of(batch: Batch, outputs: NDArray[Any], epoch: int) -> NDArray[Any]:
            """Return the batch's targets; they persist, so a row keeps its own until the next assignment."""
            if not np.isfinite(outputs).all():
                raise InputError(f"NAT diverged in epoch {epoch + 1}. Lower its rate ({self.rate}).")
            own = targets[batch]
            if epoch % self.update_every == 0 and len(batch):
                own = targets[batch] = own[assign(outputs, own)]
            return own

        data = torch.from_numpy(rows).to(device, dtype)
        memory = {"targets": targets}
        return Problem(network, [data], targets_of, SquaredDistance(), self.owner, self.name, memory=memory)
