"""An encoder that is trained on hints: to tell the class from a guest's columns, by answers that are noisy in a known way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from fedonce.learners.told import Told
from fedonce.training import networks
from fedonce.training.checkpoints import Progress
from fedonce.training.loop import Rows
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
) -> list[Epoch]:
    """Train an encoder of so many values on rows with hints: from the values, a linear layer that is not kept tells the class."""
    device, dtype = next(network.parameters()).device, torch.get_default_dtype()
    images = fits_cnn0(rows.shape[1:])
    used = len(rows) - (1 if len(rows) % training.batch == 1 else 0)  # batch norm has no spread of one row
    head = nn.Sequential(nn.Linear(width, told.classes))
    whole = nn.Sequential(network, _Noise(NOISE), *head) if images else chain(network, head)
    problem = Problem(
        whole.to(device, dtype),
        [torch.from_numpy(rows[:used]).to(device, dtype)],
        torch.from_numpy(told.answers[:used]).to(device),
        told.loss,
        "the learner 'hinted'",
        "hinted",
        change=_moved if images else None,
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
