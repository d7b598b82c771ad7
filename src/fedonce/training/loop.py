"""The only batch loop of the project: `train`, `run_epoch`, one step; and `apply`, which runs a fitted network over rows.

What differs between learners is how a batch's loss and gradients come about. That is a *step*: a callable that gets the
positions of a batch's rows, leaves the gradients in the parameters and returns the batch's mean loss.
"""

from __future__ import annotations

import copy
import logging
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedonce.errors import InputError, parameter_error
from fedonce.privacy.dpsgd import PrivateSteps, RowLoss, clipped_gradients
from fedonce.training.checkpoints import Watch
from fedonce.training.closedform import ClosedForm
from fedonce.training.settings import Epoch, Training, Update
from fedonce.training.threads import network_work, threads_for

logger = logging.getLogger(__name__)

APPLY_BLOCK = 256  # rows per block in `apply`; every block has this size, see there

Rows = NDArray[np.float32]
Batch = NDArray[np.intp]  # positions of a batch's rows
TargetOf = Callable[[Batch, NDArray[Any], int], NDArray[Any]]
InputsOf = Callable[[Batch], NDArray[Any]]
SlopeOf = Callable[[Batch, NDArray[Any], int], NDArray[Any]]  # each row's gradient of its own loss, given its outputs
TensorsOf = Callable[[Batch, int], tuple[Sequence[Tensor], Tensor]]  # a batch's inputs and targets
Step = Callable[[Batch, int], "Tensor | float"]


def train(
    update: Update,
    n_rows: int,
    step: Step,
    training: Training,
    rng: np.random.Generator,
    private: PrivateSteps | None = None,
    watch: Watch | None = None,
) -> list[Epoch]:
    """Fit parameters, epoch by epoch, by gradients from `step` and changes from `update`; return the mean losses.

    With `private`, it draws the batches, and no loss is returned: exact figures of private rows have no place in a history.
    With `watch`, epochs are told and kept, and those of a training that was killed are not done again.
    """
    history: list[Epoch] = [] if watch is None else watch.resume()
    if private is not None:
        n_rows = private.public_rows
        torch.manual_seed(private.random.seed())  # of dropout, which must be as secret as the noise; callers restore it
    for epoch in range(len(history), training.epochs):
        loss = run_epoch(update, n_rows, step, training, epoch, rng, private)
        if not math.isfinite(loss):
            raise InputError(
                f"Training diverged: the loss of epoch {epoch + 1} is {loss}. Lower the rate ({training.rate})."
            )
        history.append(Epoch(epoch=epoch + 1, loss=loss))
        logger.debug("epoch %d of %d: loss %.6g", epoch + 1, training.epochs, loss)
        if watch is not None:
            watch.done(history)
    return history if private is None else []


def run_epoch(
    update: Update,
    n_rows: int,
    step: Step,
    training: Training,
    epoch: int,
    rng: np.random.Generator,
    private: PrivateSteps | None = None,
) -> float:
    """Visit every row once, in a random order (`private`: rows as it draws them), and return the mean loss."""
    total: Tensor | float = 0.0
    order = rng.permutation(n_rows if private is None else 0)
    seen = 0
    for start in range(0, n_rows, training.batch):
        progress = training.progress(epoch, start, n_rows)
        if progress >= 1:
            break
        batch = order[start : start + training.batch] if private is None else private.sample()
        loss = step(batch, epoch)
        update(training.rate_at(progress))
        total = total + (loss.detach() if isinstance(loss, Tensor) else loss) * len(batch)
        seen += len(batch)
    return float(total) / max(seen, 1)  # a Poisson sample may be empty


def autograd_step(parameters: Sequence[nn.Parameter], loss: Callable[[Batch, int], Tensor]) -> Step:
    """Make a step of a differentiable loss."""

    def step(batch: Batch, epoch: int) -> Tensor:
        for parameter in parameters:
            parameter.grad = None
        value = loss(batch, epoch)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    return step


def closed_form_step(form: ClosedForm, rows: NDArray[Any], target_of: TargetOf) -> Step:
    """Make a step of the mean over rows of the squared distance to a target, without autograd."""

    def step(batch: Batch, epoch: int) -> float:
        outputs = form.forward(rows[batch])
        difference = outputs - target_of(batch, outputs, epoch)
        form.backward(difference * (2 / len(batch)))
        return float(np.vdot(difference, difference)) / len(batch)

    return step


def private_step(form: ClosedForm, inputs_of: InputsOf, slope_of: SlopeOf, private: PrivateSteps) -> Step:
    """Make a step of DP-SGD in closed form; it returns no loss."""

    def step(batch: Batch, epoch: int) -> float:
        outputs = form.forward(inputs_of(batch))
        form.backward(slope_of(batch, outputs, epoch), private.clip)
        private.release([form.gradient])
        return 0.0

    return step


def private_module_step(
    network: nn.Module, tensors_of: TensorsOf, row_loss: RowLoss, private: PrivateSteps
) -> tuple[list[nn.Parameter], Step]:
    """Return the parameters and a step of DP-SGD for any network that treats each row by itself; it returns no loss."""
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]

    def step(batch: Batch, epoch: int) -> float:
        inputs, targets = tensors_of(batch, epoch)
        clipped_gradients(network, inputs, targets, row_loss, private.clip)
        totals = [parameter.grad.cpu().numpy() for parameter in parameters if parameter.grad is not None]
        private.release(totals)
        for parameter, total in zip(parameters, totals, strict=True):
            parameter.grad = torch.from_numpy(total).to(parameter.device)
        return 0.0

    return parameters, step


@torch.no_grad()
def apply(network: nn.Module, rows: Rows | Sequence[Rows], device: torch.device) -> NDArray[np.float32]:
    """Run a network over rows, so that a row's output never depends on the other rows of the call.

    Matrix products choose their order of additions by the matrix's size, so the same row can differ in its last bits
    between calls of different length. Here every block has the same size (the last one is filled up), and sums are
    carried in float64 and rounded once, so that such differences vanish in the rounding.
    """
    inputs = [rows] if isinstance(rows, np.ndarray) else list(rows)
    exact = copy.deepcopy(network).to(device, torch.float64).eval()
    starts = range(0, max(len(inputs[0]), 1), APPLY_BLOCK)  # no rows: one block of nothing, for the shape of the output
    with threads_for(network_work(network, inputs[0].shape[1:], APPLY_BLOCK)):
        return np.concatenate([_apply_block(exact, inputs, start, device) for start in starts])


def _apply_block(network: nn.Module, inputs: list[Rows], start: int, device: torch.device) -> NDArray[np.float32]:
    block = [part[start : start + APPLY_BLOCK] for part in inputs]
    n = len(block[0])
    filled = [np.concatenate([part, np.zeros((APPLY_BLOCK - n, *part.shape[1:]), part.dtype)]) for part in block]
    outputs: NDArray[np.float32] = (
        network(*[torch.from_numpy(p).to(device, torch.float64) for p in filled])[:n].float().cpu().numpy()
    )
    return outputs


def pick_device(device: str, owner: str = "Guest or Host") -> torch.device:
    """Return the device of a name; "auto" is a GPU where there is one."""
    if not isinstance(device, str) or not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        raise parameter_error(owner, "device", "'auto', 'cpu' or 'cuda'", device)
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise parameter_error(owner, "device", "'auto' or 'cpu' here, as torch sees no GPU", device)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)
