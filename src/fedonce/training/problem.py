"""What a learner or a host's model states of its training: a network, its rows, where they are to go, and a loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedonce.training.losses import Loss

Batch = NDArray[np.intp]  # positions of a batch's rows
TargetsOf = Callable[[Batch, NDArray[Any], int], NDArray[Any]]  # given the batch, its outputs and the epoch


@dataclass(frozen=True)
class Problem:
    """What is trained, on what, towards what. `fedonce.training.trainer` decides how.

    Parameters
    ----------
    network : nn.Module
        What is trained; on the device of the inputs.
    inputs : sequence of tensors
        What it takes, one entry per row.
    targets : tensor, or function of a batch, its outputs and the epoch
        What the loss compares outputs with, one entry per row. A function may choose targets anew as the training goes on.
    loss : Loss
        What is lowered: the mean over rows.
    owner, stage : str
        Whose network it is, for errors; and its name where progress is told.
    weight : tensor, optional
        How much each row counts, 1 on average. None: all alike.
    change : callable, optional
        From a batch's inputs to what the network gets instead: rows with noise, or what a part that is not trained makes of them.
    memory : dict of arrays
        What `targets` changes, so that a training that was killed can go on.
    measured : nn.Module, optional
        The part of the network by whose size the number of threads is chosen. None: all of it.
    row_work : float, optional
        Operations of one row through the network, where its size does not tell them.
    largest_norm : float, optional
        What the gradient of a batch is shortened to where it is longer, without a budget.
    """

    network: nn.Module
    inputs: Sequence[Tensor]
    targets: Tensor | TargetsOf
    loss: Loss
    owner: str = "the training"
    stage: str = ""
    weight: Tensor | None = None
    change: Callable[..., Sequence[Tensor]] | None = None
    memory: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    measured: nn.Module | None = None
    row_work: float | None = None
    largest_norm: float | None = None

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return self.inputs[0].device

    def inputs_of(self, rows: Tensor) -> Sequence[Tensor]:
        """Return what the network gets of some rows."""
        own = [part[rows] for part in self.inputs]
        return own if self.change is None else self.change(*own)

    def targets_of(self, batch: Batch, rows: Tensor, outputs: Callable[[], Tensor], epoch: int) -> Tensor:
        """Return a batch's targets, which `outputs` are asked for only where they depend on them."""
        if isinstance(self.targets, Tensor):
            return self.targets[rows]
        return torch.from_numpy(self.targets(batch, outputs().detach().cpu().numpy(), epoch)).to(self.device)
