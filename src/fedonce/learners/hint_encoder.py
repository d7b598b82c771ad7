"""An encoder that is trained on hints: to tell the class from a guest's columns, by answers that are noisy in a known way."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from fedonce.learners.told import Told
from fedonce.training import networks
from fedonce.training.checkpoints import Progress
from fedonce.training.loop import Rows, apply
from fedonce.training.losses import Loss, ProbabilityLoss
from fedonce.training.networks import chain, cnn3, fits_cnn0, shifted
from fedonce.training.problem import Problem
from fedonce.training.settings import Epoch, Training
from fedonce.training.trainer import trainer

NOISE = 0.05  # on an image's values while an encoder is trained, as rounding puts some on them later


def encoder(shape: Sequence[int], hidden: Sequence[int], width: int) -> nn.Module:
    """Make an encoder of so many values: for images a larger one than the paper's, its values on one scale."""
    if not fits_cnn0(shape):
        return networks.encoder(shape, hidden, width)
    return nn.Sequential(*cnn3(shape, width), nn.BatchNorm1d(width, affine=False))


def train(
    network: nn.Module,
    rows: Rows,
    told: Told,
    width: int,
    training: Training,
    rng: np.random.Generator,
    progress: Progress | None = None,
    teachers: int = 0,
) -> list[Epoch]:
    """Train an encoder of so many values on rows with hints: from the values, a linear layer that is not kept tells the class.

    With teachers, as many encoders as that are trained on a part of the rows each, and tell what they hold of the class of rows that
    they have not seen. The encoder is trained on this: it never sees a row's own answer, which it could only learn by heart.
    """
    targets, loss = torch.from_numpy(told.answers), told.loss
    if teachers:
        targets, loss = torch.from_numpy(_taught(network, rows, told, width, training, rng, teachers)), ProbabilityLoss()
    return _train(_with_head(network, rows, width, told), network, rows, targets, loss, training, rng, progress)


def _taught(
    network: nn.Module, rows: Rows, told: Told, width: int, training: Training, rng: np.random.Generator, teachers: int
) -> Rows:
    """Return the probabilities of the classes of each row, by an encoder that was trained on other rows."""
    held = np.empty((len(rows), told.classes), np.float32)
    device = next(network.parameters()).device
    for part in np.array_split(rng.permutation(len(rows)), teachers):
        others = np.setdiff1d(np.arange(len(rows)), part)
        whole = _with_head(copy.deepcopy(network), rows, width, told)
        answers = torch.from_numpy(told.answers[others])
        _train(whole, whole, rows[others], answers, told.loss, training, rng, None)
        held[part] = torch.softmax(torch.from_numpy(apply(whole, rows[part], device)), dim=1).numpy()
    return held


def _with_head(network: nn.Module, rows: Rows, width: int, told: Told) -> nn.Module:
    head = nn.Sequential(nn.Linear(width, told.classes))
    images = fits_cnn0(rows.shape[1:])
    return nn.Sequential(network, _Noise(NOISE), *head) if images else chain(network, head)


def _train(
    whole: nn.Module,
    network: nn.Module,
    rows: Rows,
    targets: Tensor,
    loss: Loss,
    training: Training,
    rng: np.random.Generator,
    progress: Progress | None,
) -> list[Epoch]:
    device, dtype = next(network.parameters()).device, torch.get_default_dtype()
    used = len(rows) - (1 if len(rows) % training.batch == 1 else 0)  # batch norm has no spread of one row
    problem = Problem(
        whole.to(device, dtype),
        [torch.from_numpy(rows[:used]).to(device, dtype)],
        targets[:used].to(device),
        loss,
        "the learner 'hinted'",
        "hinted",
        change=_moved if fits_cnn0(rows.shape[1:]) else None,
        measured=network,
    )
    return trainer(problem, training, rng, None, progress).run()


class _Noise(nn.Module):
    """Noise of one scale on values while they are trained, and none later."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, values: Tensor) -> Tensor:
        """Add the noise."""
        return values + self.scale * torch.randn_like(values) if self.training else values


def _moved(images: Tensor) -> list[Tensor]:
    return [shifted(images)]
