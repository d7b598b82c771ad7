"""How to train: how long, in which batches, at which rate, by which optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedonce.errors import parameter_error

Update = Callable[[float], None]  # change the parameters by their gradients, at a rate
_OPTIMIZERS: dict[str, Any] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


class Epoch(TypedDict):
    """One line of a training's history."""

    epoch: int
    loss: float


@dataclass(frozen=True)
class Training:
    """How to train: how long, in which batches, at which rate.

    `schedule` is "constant" (the paper's), "one-cycle" (a rate that rises, then falls to nothing; Smith and Topin 2019) or
    "linear" (a rate that falls to nothing from the first step on).
    """

    epochs: int
    batch: int
    rate: float
    weight_decay: float = 0.0
    schedule: str = "constant"
    optimizer: str = "adam"  # "adam" and, without momentum, "sgd" (the paper's), or "adamw"
    steps: int | None = None  # stop after so many batches, in the middle of an epoch if need be

    def __post_init__(self) -> None:
        if self.schedule not in ("constant", "one-cycle", "linear"):
            raise parameter_error("Training", "schedule", "'constant', 'one-cycle' or 'linear'", self.schedule)
        if self.optimizer not in _OPTIMIZERS:
            raise parameter_error("Training", "optimizer", "'adam', 'adamw' or 'sgd'", self.optimizer)
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise parameter_error("Training", name, "a positive integer", getattr(self, name))

    def rate_at(self, progress: float) -> float:
        """Return the rate after a share of all steps: constant, or rising for 30 % of them and then falling to nothing."""
        if self.schedule != "one-cycle":
            return self.rate * (1 - progress if self.schedule == "linear" else 1)
        start, end, share = (0.04, 1.0, progress / 0.3) if progress < 0.3 else (1.0, 1e-5, (progress - 0.3) / 0.7)
        return self.rate * (end + (start - end) * (1 + math.cos(math.pi * share)) / 2)

    def progress(self, epoch: int, start: int, n_rows: int) -> float:
        """Return the share of all steps that is done before the batch that begins at `start` of an epoch."""
        if self.steps is None:
            return (epoch + start / n_rows) / self.epochs
        return (epoch * math.ceil(n_rows / self.batch) + start // self.batch) / self.steps

    def update(self, parameters: Sequence[nn.Parameter]) -> TorchUpdate:
        """Return torch's optimizer as a function of the rate."""
        kind = _OPTIMIZERS[self.optimizer]
        return TorchUpdate(kind(parameters, lr=self.rate, weight_decay=self.weight_decay, fused=True))


class TorchUpdate:
    """A torch optimizer as a function of the rate, whose memory can be kept (`fedonce.training.checkpoints`)."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    def __call__(self, rate: float) -> None:
        """Change the parameters by their gradients."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what it remembers of the steps so far, by the parameter's number and its own name."""
        memory = self.optimizer.state_dict()["state"]
        return {
            f"{number}.{name}": value.cpu().numpy()
            for number, entries in memory.items()
            for name, value in entries.items()
            if isinstance(value, Tensor)
        }

    def restore(self, tensors: dict[str, NDArray[Any]]) -> None:
        """Take it back."""
        memory: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            number, _, name = key.partition(".")
            memory.setdefault(int(number), {})[name] = torch.from_numpy(value)
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": memory})
