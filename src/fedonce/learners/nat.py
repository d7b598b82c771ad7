"""NAT: noise as targets (Bojanowski and Joulin, 2017), the learner of the paper (Algorithm 1, lines 3 to 9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedonce.errors import BudgetError, InputError, parameter_error
from fedonce.learners.base import NetworkLearner, epochs_for, with_tanh
from fedonce.learners.names import Facts, private_ones
from fedonce.learners.targets import assign, draw_targets
from fedonce.privacy.budget import Purse, Task, steps_task
from fedonce.privacy.dpsgd import check_clippable
from fedonce.training.checkpoints import Memory
from fedonce.training.closedform import ClosedForm
from fedonce.training.loop import (
    Batch,
    Rows,
    TargetOf,
    autograd_step,
    closed_form_step,
    private_module_step,
    private_step,
)
from fedonce.training.randomness import torch_seeded
from fedonce.training.settings import Epoch, Training

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
        f in the paper: targets are assigned anew every so many epochs.
    optimizer : str
        "adam", "adamw" or "sgd".
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

    def fit(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device) -> list[Epoch]:
        """Learn from rows: the mean over rows of the squared distance to the assigned targets."""
        training = Training(self._epochs(len(rows)), self.batch, self.rate, self.weight_decay, optimizer=self.optimizer)
        with torch_seeded(rng):
            network = self.start(rows, dim, device)
            data = torch.from_numpy(rows).to(device, torch.get_default_dtype())
            targets, target_of = self._targets(len(rows), dim, rng)
            memory = Memory({"network": network}, {"targets": targets})
            if isinstance(network, nn.Sequential) and ClosedForm.supports(network, device):
                form = ClosedForm(network)
                step = closed_form_step(form, data.numpy(), target_of)
                update = form.update(self.optimizer, self.weight_decay)
                return self.train(update, len(rows), step, training, rng, memory=memory)

            def loss(batch: Batch, epoch: int) -> Tensor:
                outputs: Tensor = network(data[torch.from_numpy(batch).to(device)])
                target = torch.from_numpy(target_of(batch, outputs.detach().cpu().numpy(), epoch))
                return (outputs - target.to(device)).square().sum(dim=1).mean()

            parameters = list(network.train().parameters())
            step = autograd_step(parameters, loss)
            return self.train(training.update(parameters), len(rows), step, training, rng, memory=memory)

    def private_tasks(self, n_rows: int, share: float, exact: bool = False, unsound: bool = False) -> list[Task]:
        """Return the paper's steps, where they were asked for by name: their price is not a guarantee."""
        if not exact and not unsound:
            raise BudgetError(UNSOUND)
        return [steps_task("NAT", n_rows, self.batch, self._epochs(n_rows), share, nominal=True)]

    def fit_private(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device, purse: Purse) -> None:
        """Learn as the paper's FedOnce-L1 does: clipped and noisy gradients, towards targets that couple the rows."""
        if all(entry.what != "NAT" for entry in purse.planned):
            raise BudgetError(UNSOUND)
        private = purse.steps("NAT", rows, CLIP)
        training = Training(
            private.epochs, private.batch, self.rate, self.weight_decay, "constant", self.optimizer, private.event.steps
        )
        with torch_seeded(rng):
            network = self.start(rows, dim, device)
            data = torch.from_numpy(rows).to(device, torch.get_default_dtype())
            _, target_of = self._targets(len(rows), dim, rng)
            if isinstance(network, nn.Sequential) and ClosedForm.supports(network, device):
                form, flat = ClosedForm(network), data.numpy()
                step = private_step(
                    form, flat.__getitem__, lambda batch, out, epoch: 2 * (out - target_of(batch, out, epoch)), private
                )
                self.train(form.update(self.optimizer, self.weight_decay), len(rows), step, training, rng, private)
                return
            check_clippable(network, [data], f"the learner {self.name!r}")

            def tensors_of(batch: Batch, epoch: int) -> tuple[list[Tensor], Tensor]:
                own = data[torch.from_numpy(batch).to(device)]
                with torch.no_grad():
                    outputs = network(own).cpu().numpy()
                return [own], torch.from_numpy(target_of(batch, outputs, epoch)).to(device)

            parameters, step = private_module_step(
                network.train(), tensors_of, lambda out, target: (out - target).square().sum(), private
            )
            self.train(training.update(parameters), len(rows), step, training, rng, private)

    def _epochs(self, n_rows: int) -> int:
        return epochs_for(n_rows, self.batch, 6000, 10, 100) if self.epochs is None else self.epochs

    def _targets(self, n_rows: int, dim: int, rng: np.random.Generator) -> tuple[NDArray[Any], TargetOf]:
        """Draw a target for each row; return them, and the function that gives a batch its own, assigned anew when it is time."""
        if self.update_every < 1:
            raise parameter_error("NAT", "update_every", "a positive integer", self.update_every)
        dtype = torch.get_default_dtype()
        targets = torch.from_numpy(draw_targets(n_rows, dim, rng)).to(dtype).numpy()

        def target_of(batch: Batch, outputs: NDArray[Any], epoch: int) -> NDArray[Any]:
            """Return the batch's targets; they persist, so a row keeps its own until the next assignment."""
            if not np.isfinite(outputs).all():
                raise InputError(f"NAT diverged in epoch {epoch + 1}. Lower its rate ({self.rate}).")
            own = targets[batch]
            if epoch % self.update_every == 0 and len(batch):
                own = targets[batch] = own[assign(outputs, own)]
            return own

        return targets, target_of
