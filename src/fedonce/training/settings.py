"""How to train: how long, in which batches, at which rate, by which optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from fedonce.errors import parameter_error

Update = Callable[[float], None]  # change the parameters by their gradients, at a rate
OPTIMIZERS = ("adam", "adamw", "sgd")


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
        if self.optimizer not in OPTIMIZERS:
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
        return TorchUpdate(parameters, self.optimizer, self.weight_decay)


class TorchUpdate:
    """A torch optimizer as a function of the rate, whose memory can be kept (`fedonce.training.checkpoints`).

    It calls torch's own fused arithmetic. To make an object of `torch.optim` would first import torch's compiler, which is not
    used here and takes longer than many a training.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], optimizer: str, weight_decay: float = 0.0) -> None:
        self.parameters = list(parameters)
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self._memory: dict[int, dict[str, Tensor]] = {}  # by the parameter's number

    @torch.no_grad()
    def __call__(self, rate: float) -> None:
        """Change the parameters that have gradients by them."""
        changed = [number for number, each in enumerate(self.parameters) if each.grad is not None]
        parameters: list[Tensor] = [self.parameters[number] for number in changed]
        gradients = [each.grad for each in parameters if each.grad is not None]
        if self.optimizer == "sgd":
            self._by_sgd(parameters, gradients, rate)
        else:
            self._by_adam(parameters, gradients, [self._moments(number) for number in changed], rate)

    def _by_sgd(self, parameters: list[Tensor], gradients: list[Tensor], rate: float) -> None:
        sgd(
            parameters,
            gradients,
            [None] * len(parameters),
            fused=True,
            lr=rate,
            weight_decay=self.weight_decay,
            momentum=0.0,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )

    def _by_adam(
        self, parameters: list[Tensor], gradients: list[Tensor], moments: list[dict[str, Tensor]], rate: float
    ) -> None:
        adam(
            parameters,
            gradients,
            [each["exp_avg"] for each in moments],
            [each["exp_avg_sq"] for each in moments],
            [],
            [each["step"] for each in moments],
            fused=True,
            decoupled_weight_decay=self.optimizer == "adamw",
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=rate,
            weight_decay=self.weight_decay,
            eps=1e-8,
            maximize=False,
        )

    def _moments(self, number: int) -> dict[str, Tensor]:
        """Return what Adam remembers of a parameter, by the names that torch has for it."""
        if number not in self._memory:
            parameter = self.parameters[number]
            self._memory[number] = {
                "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        return self._memory[number]

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what it remembers of the steps so far, by the parameter's number and its own name."""
        return {
            f"{number}.{name}": value.cpu().numpy()
            for number, entries in self._memory.items()
            for name, value in entries.items()
        }

    def restore(self, tensors: dict[str, NDArray[Any]]) -> None:
        """Take it back."""
        self._memory = {}
        for key, value in tensors.items():
            number, _, name = key.partition(".")
            parameter, kept = self.parameters[int(number)], torch.from_numpy(value.copy())
            # In memory as the parameter lies, with channels last or not: fused steps go over both side by side.
            shaped = torch.zeros_like(parameter).copy_(kept) if kept.shape == parameter.shape else kept
            self._memory.setdefault(int(number), {})[name] = shaped.to(parameter.device, kept.dtype)
