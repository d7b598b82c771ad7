"""What a training lowers. A loss is stated once, row by row; how its gradients come about is the trainer's business."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

FULL = 4  # bytes of a number that sums of logarithms are precise enough in


class Loss(ABC):
    """A loss that is the mean of those of rows, each of which depends on nothing but the row's outputs and its target."""

    @abstractmethod
    def rows(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row."""

    def mean(self, outputs: Tensor, targets: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the mean loss of a batch, in which a row may count more or less; of one row alone, that row's loss."""
        losses = self.rows(outputs, targets)
        return (losses if weight is None else losses * weight).mean()


class ClosedFormLoss(Loss):
    """A loss whose gradient is known without autograd."""

    @abstractmethod
    def slopes(self, outputs: NDArray[Any], targets: NDArray[Any]) -> tuple[NDArray[Any], float]:
        """Return each row's gradient of its own loss with respect to its outputs, and the sum of the rows' losses."""


class SquaredDistance(ClosedFormLoss):
    """The squared distance between a row's outputs and its target."""

    def rows(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the squared distances."""
        return (outputs - targets).square().sum(dim=1)

    def slopes(self, outputs: NDArray[Any], targets: NDArray[Any]) -> tuple[NDArray[Any], float]:
        """Return twice the differences, and the sum of their squares."""
        difference = outputs - targets
        return 2 * difference, float(np.vdot(difference, difference))


@dataclass(frozen=True)
class LabelLoss(ClosedFormLoss):
    """Cross-entropy where targets are positions of classes, squared error where they are numbers.

    `smoothing` is that of labels (Szegedy et al., 2016): so much of a row is of all classes alike.
    """

    smoothing: float = 0.0

    def rows(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row."""
        return self._loss(outputs, targets, "none")

    def mean(self, outputs: Tensor, targets: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the mean loss; torch's own where rows count alike."""
        return self._loss(outputs, targets, "mean") if weight is None else super().mean(outputs, targets, weight)

    def _loss(self, outputs: Tensor, targets: Tensor, reduction: str) -> Tensor:
        if targets.is_floating_point():
            return F.mse_loss(outputs[:, 0], targets.to(outputs.dtype), reduction=reduction)
        return F.cross_entropy(outputs, targets, reduction=reduction, label_smoothing=self.smoothing)

    def slopes(self, outputs: NDArray[Any], targets: NDArray[Any]) -> tuple[NDArray[Any], float]:
        """Return twice the errors; or the probabilities, less what they ought to be."""
        if targets.dtype.kind == "f":
            errors = outputs - targets[:, None].astype(outputs.dtype)
            return 2 * errors, float(np.vdot(errors, errors))
        centred = outputs - outputs.max(axis=1, keepdims=True)
        odds: NDArray[Any] = np.exp(centred)
        sums = odds.sum(axis=1, keepdims=True)
        odds /= sums
        own = (np.arange(len(targets)), targets)
        wanted = (1 - self.smoothing) * centred[own] + self.smoothing * centred.mean(axis=1)
        odds -= self.smoothing / outputs.shape[1]
        odds[own] -= 1 - self.smoothing
        return odds, float((np.log(sums[:, 0]) - wanted).sum())


@dataclass(frozen=True, eq=False)
class HintLoss(ClosedFormLoss):
    """Cross-entropy where targets are answers of randomised response: the chance of the answer, by what is held of the class.

    `told` has the probability of each answer (columns) for each class (rows). Outputs that lower this loss are those of the true
    classes, as far as rows tell them: the noise of the answers is accounted for and not learnt (Patrini et al., 2017).
    """

    told: NDArray[np.float64]
    _logarithms: dict[tuple[torch.device, torch.dtype], Tensor] = field(default_factory=dict, init=False, repr=False)

    def rows(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row."""
        # By logarithms: a chance too small to be written would have no slope. Every step of a training asks for the same ones.
        # Of outputs of half the length, as mixed precision gives, the sums are taken in full.
        outputs = outputs.float() if outputs.element_size() < FULL else outputs
        place = outputs.device, outputs.dtype
        if place not in self._logarithms:
            self._logarithms[place] = torch.from_numpy(self.told).to(*place).T.log()
        told = self._logarithms[place]
        return -torch.logsumexp(F.log_softmax(outputs, dim=1) + told[targets], dim=1)

    def slopes(self, outputs: NDArray[Any], targets: NDArray[Any]) -> tuple[NDArray[Any], float]:
        """Return what is held of the classes, less what is held of them once the answer is known."""
        with np.errstate(divide="ignore"):  # what is never told
            told = np.log(self.told.T[targets]).astype(outputs.dtype)
        before, sums = _odds(outputs)
        after, sums_after = _odds(outputs + told)
        return before - after, float((sums - sums_after).sum())


def _odds(outputs: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the softmax of each row, and the logarithm of the sum that it was divided by."""
    highest = outputs.max(axis=1, keepdims=True)
    odds: NDArray[Any] = np.exp(outputs - highest)
    sums = odds.sum(axis=1, keepdims=True)
    return odds / sums, np.log(sums) + highest
