"""The four ways to a batch's gradients: in closed form or by autograd, with a privacy budget or without.

A *step* gets the positions of a batch's rows, leaves the gradients in the parameters and returns the batch's mean loss; a
private one returns 0, as exact figures of private rows have no place in a history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedonce.privacy.dpsgd import PrivateSteps, clipped_gradients
from fedonce.training.closedform import ClosedForm
from fedonce.training.losses import ClosedFormLoss
from fedonce.training.problem import Batch, Problem, TargetsOf

Step = Callable[[Batch, int], "Tensor | float"]


def autograd_step(problem: Problem, parameters: Sequence[nn.Parameter]) -> Step:
    """Make a step of any network."""
    network, weight = problem.network, problem.weight

    def step(batch: Batch, epoch: int) -> Tensor:
        for parameter in parameters:
            parameter.grad = None
        rows = torch.from_numpy(batch).to(problem.device, non_blocking=True)  # no need to wait for a GPU's last step
        outputs: Tensor = network(*problem.inputs_of(rows))
        targets = problem.targets_of(batch, rows, lambda: outputs, epoch)
        value = problem.loss.mean(outputs, targets, None if weight is None else weight[rows])
        value.backward()  # type: ignore[no-untyped-call]
        if problem.largest_norm is not None:
            nn.utils.clip_grad_norm_(parameters, problem.largest_norm)
        return value

    return step


def private_autograd_step(problem: Problem, parameters: Sequence[nn.Parameter], private: PrivateSteps) -> Step:
    """Make a step of DP-SGD of any network that treats each row by itself."""
    network = problem.network

    def step(batch: Batch, epoch: int) -> float:
        rows = torch.from_numpy(batch).to(problem.device)
        inputs = problem.inputs_of(rows)
        with torch.no_grad():
            targets = problem.targets_of(batch, rows, lambda: network(*inputs), epoch)
        clipped_gradients(network, inputs, targets, problem.loss.mean, private.clip)
        totals = [parameter.grad.cpu().numpy() for parameter in parameters if parameter.grad is not None]
        private.release(totals)
        for parameter, total in zip(parameters, totals, strict=True):
            parameter.grad = torch.from_numpy(total).to(parameter.device)
        return 0.0

    return step


def closed_form_step(problem: Problem, form: ClosedForm, loss: ClosedFormLoss) -> Step:
    """Make a step of linear layers, without autograd."""
    inputs_of, targets_of = _arrays(problem)

    def step(batch: Batch, epoch: int) -> float:
        outputs = form.forward(inputs_of(batch))
        slopes, total = loss.slopes(outputs, targets_of(batch, outputs, epoch))
        form.backward(slopes * (1 / len(batch)))
        return total / len(batch)

    return step


def private_closed_form_step(problem: Problem, form: ClosedForm, loss: ClosedFormLoss, private: PrivateSteps) -> Step:
    """Make a step of DP-SGD of linear layers, without autograd."""
    inputs_of, targets_of = _arrays(problem)

    def step(batch: Batch, epoch: int) -> float:
        outputs = form.forward(inputs_of(batch))
        form.backward(loss.slopes(outputs, targets_of(batch, outputs, epoch))[0], private.clip)
        private.release([form.gradient])
        return 0.0

    return step


def _arrays(problem: Problem) -> tuple[Callable[[Batch], NDArray[Any]], TargetsOf]:
    """Return a problem's inputs and targets as functions of a batch that give arrays."""
    rows = problem.inputs[0].numpy()

    def changed(batch: Batch) -> NDArray[Any]:
        with torch.no_grad():
            (inputs,) = problem.inputs_of(torch.from_numpy(batch))
        return inputs.numpy()

    inputs_of = rows.__getitem__ if problem.change is None else changed
    if not isinstance(problem.targets, Tensor):
        return inputs_of, problem.targets
    targets = problem.targets.numpy()
    return inputs_of, lambda batch, outputs, epoch: targets[batch]
