"""An encoder that learns from hints: what a guest was told of its rows, the training, and the trial whether hints pay.

The encoder is trained to tell the class from a guest's columns, by answers that are noisy in a known way. With its own images a
guest tries on rows that it holds back whether a message with such values is better than one without.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedonce.learners.base import epochs_for
from fedonce.messages.codecs.budget import beside, within
from fedonce.messages.codecs.steps import Steps
from fedonce.privacy.response import matrix
from fedonce.training import networks
from fedonce.training.checkpoints import Progress
from fedonce.training.loop import Rows, apply
from fedonce.training.losses import HintLoss
from fedonce.training.networks import chain, cnn3, fits_cnn0, mlp, shifted
from fedonce.training.problem import Problem
from fedonce.training.randomness import torch_seeded
from fedonce.training.settings import Epoch, Training
from fedonce.training.trainer import trainer

logger = logging.getLogger(__name__)

NOISE = 0.05  # on an image's values while an encoder is trained, as rounding puts some on them later
HELD, MOST_HELD = 6, 10_000  # a sixth of the rows is held back, and no more than so many
MOST_READ = 10_000  # rows that a reader is trained on
# Standard errors by which hints must be better. They are over rows, and a reader that begins otherwise differs by about as much
# again. So a message that is no better is now and then taken for a better one.
SURE = 2.5
TRUE_ENOUGH = 0.5  # share of true hints above which each class gets a value
MOST = 0.625  # the largest share by hints, of values and of bytes, unless the fewest values need more


@dataclass(frozen=True, eq=False)
class Told:
    """What a guest was told of its rows: an answer each, -1 where there is none, of so many classes, with which epsilon.

    `asked`: the learner 'hinted' was named, and not taken because there are hints.
    """

    answers: NDArray[np.int64]
    classes: int
    epsilon: float
    asked: bool = False

    @property
    def hinted(self) -> NDArray[np.intp]:
        """The rows that there is a hint for."""
        return np.flatnonzero(self.answers >= 0)

    @property
    def keep(self) -> float:
        """With which probability an answer is true."""
        return float(matrix(self.classes, self.epsilon)[0, 0])

    @property
    def loss(self) -> HintLoss:
        """What an encoder is to lower."""
        return HintLoss(matrix(self.classes, self.epsilon))

    def take(self, rows: NDArray[np.intp]) -> Told:
        """Return what was told of some rows."""
        return replace(self, answers=self.answers[rows])


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


def values_by_hints(classes: int, keep: float, dim: int, bytes_per_row: float | None = None) -> int:
    """Return how many of an image's values are the encoder's, where hints pay.

    A value for each class but one tells the odds of all. Where bytes are given, that many are best, though no more than bytes:
    other values are rounded for them, and not given up. Where other values make room, and most hints are false, it is as many
    as number the classes in bits, which tell them apart (`python -m benchmarks.run hint_values`).
    """
    if bytes_per_row is not None:
        return min(dim, classes - 1, max(1, int(bytes_per_row)))
    fewest = max(1, math.ceil(math.log2(classes)))
    wanted = classes - 1 if keep > TRUE_ENOUGH else fewest
    return min(dim, max(fewest, min(wanted, int(MOST * dim))))


def in_bytes(learnt: Rows, rest: Rows, bytes_per_row: float) -> Steps:
    """Return the steps on which values lie: those by hints, and beside them the rest, as far as there is room for it."""
    return beside(learnt, rest, bytes_per_row, MOST if rest.shape[1] else 1.0)


@dataclass(frozen=True)
class Trial:
    """A trial of hints: of two messages, with values by hints and without, which tells more of the answers of rows held back.

    The encoder learns from the other rows, and so does a small network that reads a message. Whatever the encoder has memorised
    counts against it, then. The host's columns are not there: what they tell anyway is not known here.

    Parameters
    ----------
    build : callable
        Makes an encoder for images of a shape, of so many values.
    training : Training
        How the guest's encoder is trained; that of the trial for half as long.
    bytes_per_row : float, optional
        Bytes that a row's values may take; both messages are then rounded as they would be sent.
    """

    build: Callable[[tuple[int, ...], int], nn.Module]
    training: Training
    bytes_per_row: float | None = None

    def pays(
        self,
        rows: Rows,
        values: Rows,
        told: Told,
        by_hints: int,
        dim: int,
        rng: np.random.Generator,
        device: torch.device,
    ) -> bool:
        """Tell whether a message is better in which so many of `dim` values are by hints, instead of the last of `values`."""
        order = rng.permutation(len(rows))
        n_held = min(MOST_HELD, len(rows) // HELD)
        held, kept = order[:n_held], order[n_held:]
        shorter = replace(self.training, epochs=max(1, self.training.epochs // 2))
        with torch_seeded(rng):
            network = self.build(rows.shape[1:], by_hints).to(device, torch.get_default_dtype())
            train(network, rows[kept], told.take(kept), by_hints, shorter, rng)
        read = np.concatenate([held, kept[:MOST_READ]])
        learnt, plain, answers = apply(network, rows[read], device), values[read], told.take(read)
        rest = plain[:, : dim - by_hints]
        messages = plain, np.hstack([learnt, rest])
        if (most := self.bytes_per_row) is not None:
            steps = within(plain, most), in_bytes(learnt, rest, most)
            messages = steps[0].rounded(messages[0]), steps[1].rounded(messages[1])
        lead = errors_better(*(_read(each, answers, n_held, rng) for each in messages))
        logger.info(
            "%d of %d values by hints: %s. The message is better by %.1f standard errors (%g are needed)",
            by_hints,
            dim,
            "taken" if lead > SURE else "not taken",
            lead,
            SURE,
        )
        return lead > SURE


def errors_better(without: NDArray[np.float64], with_hints: NDArray[np.float64]) -> float:
    """Return by how many standard errors rows' losses are lower with hints."""
    gains = without - with_hints
    return float(gains.mean() / max(gains.std() / np.sqrt(len(gains)), 1e-12))


def _read(sent: Rows, told: Told, n_held: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Train a small network to tell the class from values, and return its loss on each row held back."""
    known = sent[n_held:]
    mean, spread = known.mean(axis=0), known.std(axis=0)
    table = ((sent - mean) / np.where(spread > 1e-6, spread, 1)).astype(np.float32)
    dtype = torch.get_default_dtype()
    with torch_seeded(rng):
        network = mlp(table.shape[1], (128,), told.classes).to(dtype=dtype)
        data, answers = torch.from_numpy(table[n_held:]).to(dtype), torch.from_numpy(told.answers[n_held:])
        training = Training(epochs_for(len(known), 128, 1000, 3, 20), 128, 2e-3, 1e-2, "one-cycle", "adamw")
        trainer(Problem(network, [data], answers, told.loss), training, rng).run()
    outputs = apply(network, table[:n_held], torch.device("cpu"))
    losses: NDArray[np.float64] = told.loss.rows(
        torch.from_numpy(outputs.astype(np.float64)), torch.from_numpy(told.answers[:n_held])
    ).numpy()
    return losses
