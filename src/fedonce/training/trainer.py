"""The trainer: a learner or a host's model states a problem, and here is decided how it is trained.

    history = trainer(Problem(network, [rows], targets, SquaredDistance()), Training(10, 128, 1e-3), rng).run()

In closed form where the network is made of linear layers on the CPU and the loss is known in that form, else by autograd;
within a privacy budget where there is one; and resumable where somebody keeps its progress and there is no budget, of which
nothing may lie on a disk that the ledger does not know of.
"""

from __future__ import annotations

import numpy as np
import torch

from fedonce.errors import InputError
from fedonce.privacy.dpsgd import PrivateSteps, check_clippable
from fedonce.training.checkpoints import Memory, Progress, Remembers, Watch, listener
from fedonce.training.closedform import ClosedForm
from fedonce.training.loop import Loop
from fedonce.training.losses import ClosedFormLoss
from fedonce.training.problem import Problem
from fedonce.training.settings import Training
from fedonce.training.steps import (
    Step,
    autograd_step,
    closed_form_step,
    private_autograd_step,
    private_closed_form_step,
)
from fedonce.training.threads import network_work


def trainer(
    problem: Problem,
    training: Training,
    rng: np.random.Generator,
    private: PrivateSteps | None = None,
    progress: Progress | None = None,
) -> Loop:
    """Return the training of a problem, ready to run.

    With `private`, it draws the batches and makes their gradients noisy. With `progress`, epochs are told; they are also kept,
    and those of a training that was killed are not done again, unless there is a budget.
    """
    step, update = _closed_form(problem, training, private) or _autograd(problem, training, private)
    watch = None
    if progress is None and (tell := listener()) is not None:
        watch = Watch(Progress(tell), problem.stage or problem.owner, training, rng, update, None)
    elif progress is not None:
        memory = Memory({"network": problem.network}, problem.memory) if private is None else None
        watch = Watch(progress, problem.stage, training, rng, update, memory)
    return Loop(step, update, len(problem.inputs[0]), training, rng, private, watch, 3 * _work(problem, training.batch))


def _work(problem: Problem, batch: int) -> float:
    """Return about how many operations a batch takes through the network."""
    if problem.row_work is not None:
        return batch * problem.row_work
    measured = problem.network if problem.measured is None else problem.measured
    return network_work(measured, problem.inputs[0].shape[1:], batch)


def _closed_form(problem: Problem, training: Training, private: PrivateSteps | None) -> tuple[Step, Remembers] | None:
    """Return how to train without autograd; None where that cannot be."""
    network, loss = problem.network, problem.loss
    if problem.weight is not None or problem.largest_norm is not None or not isinstance(loss, ClosedFormLoss):
        return None
    if not ClosedForm.supports(network, problem.device) or not _takes_one_table(problem):
        return None
    form = ClosedForm(network)
    update = form.update(training.optimizer, training.weight_decay)
    if private is None:
        return closed_form_step(problem, form, loss), update
    return private_closed_form_step(problem, form, loss, private), update


def _takes_one_table(problem: Problem) -> bool:
    """Tell whether the network gets one row of numbers per row, by what it would get of no rows."""
    inputs = problem.inputs_of(torch.arange(0))
    return len(inputs) == 1 and inputs[0].ndim == 2


def _autograd(problem: Problem, training: Training, private: PrivateSteps | None) -> tuple[Step, Remembers]:
    """Return how to train any network."""
    network = problem.network
    if private is None:
        parameters = list(network.train().parameters())
        return autograd_step(problem, parameters), training.update(parameters)
    if problem.weight is not None:
        raise InputError(f"Rows of {problem.owner} have weights, which a training with a privacy budget does not take.")
    check_clippable(network, problem.inputs_of(torch.arange(0, device=problem.device)), problem.owner)
    parameters = [parameter for parameter in network.train().parameters() if parameter.requires_grad]
    return private_autograd_step(problem, parameters, private), training.update(parameters)
