"""Learning with hints: some values by what a guest was told of labels, the others without, as they share best.

What the host publishes of its labels is noisy (`fedonce.party.hinting`). An encoder is trained to tell the class from the guest's
own columns; its loss knows how noisy the answers are, so that it learns the class and not the noise. How many of the values are
the encoder's is tried on rows held back, and none are where that does not pay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedonce.errors import InputError
from fedonce.learners.auto import Auto
from fedonce.learners.base import Learner, NetworkLearner, Tensors, coded_for, epochs_for
from fedonce.learners.names import LEARNERS, Facts
from fedonce.learners.pca import principal
from fedonce.learners.told import Told
from fedonce.training.checkpoints import Progress
from fedonce.training.loop import Rows, apply
from fedonce.training.networks import chain, cnn3, fits_cnn0, mlp, shifted
from fedonce.training.problem import Problem
from fedonce.training.randomness import torch_seeded
from fedonce.training.settings import Epoch, Training
from fedonce.training.stored import settings_of
from fedonce.training.trainer import trainer

LEAST_HINTED = 200  # rows with a hint: with fewer there is nothing to learn from them
SHARES = (0.25, 0.625, 1.0)  # of the values, that are tried as the encoder's; the alternative is none
HELD, MOST_HELD = 6, 10_000  # a sixth of the rows is held back for the trial, and no more than so many
MOST_PROBED = 10_000  # rows that a probe is trained on
TRIALS = 2  # cuts of a table's columns; an image is cut once
SURE = 2.5  # standard errors by which hints must be better in the trial: of three shares, one is often better by chance
NOISE = 0.05  # on an encoder's values while it is trained, as rounding puts some on them later


@dataclass(eq=False)
class Hinted(NetworkLearner):
    """A few values by an encoder that is trained on hints, the rest by a learner without labels.

    Parameters
    ----------
    base : str
        The learner of the rest.
    epochs : int, optional
        None: as many as make about 3,000 steps, 5 to 40.
    batch, rate, weight_decay
        Of AdamW with a one-cycle rate.
    share : float, optional
        The part of the values that the encoder gets. None: what a trial on rows held back speaks for; of a table at most those
        values that the other learner leaves free.
    """

    name: ClassVar[str] = "hinted"
    facts: ClassVar[Facts] = Facts()
    hidden: tuple[int, ...] = (128, 64)
    base: str = "auto"
    epochs: int | None = None
    batch: int = 256
    rate: float = 3e-3
    weight_decay: float = 1e-3
    share: float | None = None
    hinted_: int = field(default=0, init=False, repr=False)
    rest_: int = field(default=0, init=False, repr=False)
    base_: Learner | None = field(default=None, init=False, repr=False)
    mean_: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0), init=False, repr=False)
    turn_: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)), init=False, repr=False)

    @classmethod
    def around(cls, learner: Learner) -> Self:
        """Return a learner with hints, the rest of whose values are learnt as by this one."""
        if isinstance(learner, cls):
            return learner
        fresh, own = (settings_of(each, "The learner") for each in (LEARNERS[learner.name](), learner))
        epochs = own.get("epochs")
        if any(own[name] != fresh.get(name) for name in own if name not in ("epochs", "bytes_per_row")):
            raise InputError(
                f"With hints, the learner of the other values is taken by its name alone; this {learner.name!r} has settings of "
                f"its own. Give learner={learner.name!r}.",
                parameter="learner",
            )
        return cls(base=learner.name, epochs=epochs)

    def fit(
        self,
        rows: Rows,
        dim: int,
        rng: np.random.Generator,
        device: torch.device,
        told: Told | None = None,
        progress: Progress | None = None,
        coded: Sequence[int] = (),
    ) -> list[Epoch]:
        """Learn from rows, of some of which it is told a class."""
        self.base_ = LEARNERS[self.base]()
        history = self.base_.fit(rows, dim, rng, device, **coded_for(self.base_.fit, coded))
        if self.base_.steps is not None:
            raise InputError(
                f"The learner {self.base!r} gives values on steps of its own, beside which there is no room for hints; "
                "learn by 'auto', 'pca', 'autoencoder', 'nat', 'patches' or 'random'.",
                parameter="learner",
            )
        values = self.base_.transform(rows, device)
        mean, _, turn, _ = principal(values, values.shape[1])
        self.mean_, self.turn_ = mean, turn
        self.hinted_, self.network_ = 0, None
        # Codes are names, not numbers: an encoder of theirs would learn each value's hints by heart.
        if told is not None and len(told.hinted) >= LEAST_HINTED and not coded:
            known = told.hinted
            self.hinted_ = self._values_for(rows[known], told.take(known), dim, values.shape[1], rng, device)
            if self.hinted_:
                history = self._train(rows[known], told.take(known), self.hinted_, rng, device, progress)
        self.rest_ = min(dim - self.hinted_, values.shape[1])
        return history

    @property
    def one_scale(self) -> bool:
        """As the other learner, where none of the values is by hints."""
        return not self.hinted_ and self.base_ is not None and self.base_.one_scale

    @property
    def rest(self) -> str:
        """How the other values are learnt: what "auto" has chosen."""
        return self.base_.chosen().name if isinstance(self.base_, Auto) else self.base

    def _values_for(
        self, rows: Rows, told: Told, dim: int, others: int, rng: np.random.Generator, device: torch.device
    ) -> int:
        """Return how many of the values are the encoder's."""
        if self.share is not None:
            return min(dim, max(1, round(self.share * dim))) if self.share > 0 else 0
        # A table's values are worth what they tell together with the host's and other guests' columns, which no trial of a guest
        # knows: there, hints get the room that is left and take none (docs/hints.md has the figures).
        room = dim if rows.ndim == 4 else dim - others
        if room <= 0:
            return 0
        found = _tried_share(self, rows, told, dim, rng.spawn(1)[0], device)
        return min(room, max(1, round(found * dim))) if found else 0

    def _train(
        self,
        rows: Rows,
        told: Told,
        width: int,
        rng: np.random.Generator,
        device: torch.device,
        progress: Progress | None = None,
        epochs: int | None = None,
    ) -> list[Epoch]:
        """Train an encoder of so many values: from them, a linear layer that is not kept tells the class."""
        images = fits_cnn0(rows.shape[1:])
        last = 1 if len(rows) % self.batch == 1 else 0  # batch norm has no spread of one row
        data = torch.from_numpy(rows[: len(rows) - last]).to(device, torch.get_default_dtype())
        answers = torch.from_numpy(told.answers[: len(rows) - last]).to(device)
        epochs = epochs or self.epochs or epochs_for(len(rows), self.batch, 3000, 5, 40)
        training = Training(epochs, self.batch, self.rate, self.weight_decay, "one-cycle", "adamw")
        with self.encoder_to_train(rows, width, rng, device) as network:
            head = nn.Sequential(nn.Linear(width, told.classes))
            whole = nn.Sequential(network, _Noise(NOISE), *head) if images else chain(network, head)
            problem = Problem(
                whole.to(device, torch.get_default_dtype()),
                [data],
                answers,
                told.loss,
                self.owner,
                self.name,
                change=_moved if images else None,
                measured=network,
            )
            history = trainer(problem, training, rng, None, progress).run()
        self.fitted().eval()
        return history

    def build(self, shape: tuple[int, ...], dim: int) -> nn.Module:
        """Make the encoder: for images a larger one than the paper's, its values on one scale."""
        if self.network is not None or not fits_cnn0(shape):
            return super().build(shape, dim)
        return nn.Sequential(*cnn3(shape, dim), nn.BatchNorm1d(dim, affine=False))

    def transform(self, rows: Rows, device: torch.device) -> Rows:
        """Return the encoder's values, and beside them those of the rest, by how much they vary."""
        if self.base_ is None:
            raise InputError("This Hinted has not learnt yet; call fit first.")
        if not self.hinted_:
            return self.base_.transform(rows, device)
        # In float64, rounded once: a row's values do not depend on the rows beside it.
        rest = (self.base_.transform(rows, device) - self.mean_) @ self.turn_[: self.rest_].T
        return np.hstack([super().transform(rows, device), rest]).astype(np.float32)

    module = Learner.module  # it raises: two learners side by side are no one network

    def state(self) -> Tensors:
        """Return both learners' weights, and how their values go together."""
        assert self.base_ is not None
        own = {"hinted": np.array(self.hinted_), "rest": np.array(self.rest_), "mean": self.mean_, "turn": self.turn_}
        encoder = super().state() if self.hinted_ else {}
        return own | encoder | {f"base.{name}": value for name, value in self.base_.state().items()}

    def restore(self, tensors: Tensors) -> None:
        """Take them back."""
        self.hinted_, self.rest_ = int(tensors["hinted"]), int(tensors["rest"])
        self.mean_, self.turn_ = (tensors[name].astype(np.float64) for name in ("mean", "turn"))
        if self.turn_.ndim != 2 or self.turn_.shape[1:] != self.mean_.shape or not 0 <= self.rest_ <= len(self.turn_):
            raise ValueError("its values do not go together")
        self.base_ = LEARNERS[self.base]()
        self.base_.restore({name[5:]: value for name, value in tensors.items() if name.startswith("base.")})
        self.network_ = None
        if self.hinted_:
            super().restore(tensors)
            self.fitted().eval()
            if self.hinted_ != self.dim_:
                raise ValueError("its encoder gives another number of values than it says")


def told_by(learner: Learner) -> str:
    """Return how many of a learner's values are by hints, for its messages; empty where it is no such learner."""
    return (
        f"{learner.hinted_} of {learner.hinted_ + learner.rest_} values by hints" if isinstance(learner, Hinted) else ""
    )


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


def _tried_share(
    learner: Hinted, rows: Rows, told: Told, dim: int, rng: np.random.Generator, device: torch.device
) -> float:
    """Return which part of the values is best the encoder's, by a play of host and guest with the guest's own columns.

    What a value is worth to the host depends on columns that the guest does not have. So the guest's columns are cut in two: one
    half is what a host would have, the other is told in half as many values, with more or fewer of them by hints. A small
    network that has the first half and these values tells the classes of rows held back, by their answers. Hints are taken where
    that is better than without them beyond doubt.
    """
    losses = [
        trial
        for _ in range(1 if rows.ndim == 4 else TRIALS)
        if (trial := _trial(learner, rows, told, dim, rng, device)) is not None
    ]
    if not losses:
        return 0.0
    mean = np.mean(losses, axis=0)  # (shares, rows held back)
    gains = mean[0] - mean[1:]
    best = int(gains.mean(axis=1).argmax())
    error = gains[best].std() / np.sqrt(gains.shape[1])
    return SHARES[best] if gains[best].mean() > SURE * error else 0.0


def _trial(
    learner: Hinted, rows: Rows, told: Told, dim: int, rng: np.random.Generator, device: torch.device
) -> NDArray[np.float64] | None:
    """Return the losses of rows held back, without hints and for each share of values by hints; None: too few columns."""
    ours, theirs = _cut(rows, rng)
    half = max(2, dim // 2)
    if min(prod(ours.shape[1:]), prod(theirs.shape[1:])) < 2 or half >= prod(theirs.shape[1:]):
        return None
    order = rng.permutation(len(rows))
    n_held = min(MOST_HELD, len(rows) // HELD)
    held, kept = np.sort(order[:n_held]), np.sort(order[n_held:])
    others: Learner = LEARNERS[learner.rest]()
    others.fit(theirs[kept], half, rng, device)
    plain = _by_spread(others.transform(theirs, device), kept)
    guest = Hinted(learner.hidden, batch=learner.batch, rate=learner.rate, weight_decay=learner.weight_decay)
    epochs = learner.epochs or epochs_for(len(kept), learner.batch, 3000, 5, 40)
    guest._train(theirs[kept], told.take(kept), half, rng, device, epochs=max(1, epochs // 2))
    learnt = _by_spread(apply(guest.fitted(), theirs, device), kept)
    probed = rng.permutation(kept)[:MOST_PROBED]
    losses = []
    for share in (0.0, *SHARES):
        by_hints = round(share * half)
        sent = np.hstack([learnt[:, :by_hints], plain[:, : half - by_hints]])
        losses.append(_probe(ours, sent, told, probed, held, rng))
    return np.stack(losses)


def _cut(rows: Rows, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Cut columns in two: of a table by chance, of an image across its longer side."""
    if rows.ndim == 4:
        axis = 2 if rows.shape[2] > rows.shape[3] else 3
        first, second = np.array_split(rows, 2, axis=axis)
    else:
        columns = rng.permutation(rows.shape[1])
        first, second = (rows[:, np.sort(part)] for part in np.array_split(columns, 2))
    one, other = (np.ascontiguousarray(part) for part in (first, second))
    return (one, other) if rng.random() < 0.5 else (other, one)


def _by_spread(values: Rows, kept: NDArray[np.intp]) -> Rows:
    """Turn values so that the first tell most."""
    mean, _, directions, _ = principal(values[kept], values.shape[1])
    turned: Rows = ((values - mean) @ directions.T).astype(np.float32)
    return turned


def _probe(
    ours: Rows, sent: Rows, told: Told, kept: NDArray[np.intp], held: NDArray[np.intp], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Train a small network on own columns and what was sent, and return its loss on each row held back."""
    table = np.hstack([ours.reshape(len(ours), -1), sent])
    mean, spread = table[kept].mean(axis=0), table[kept].std(axis=0)
    table = ((table - mean) / np.where(spread > 1e-6, spread, 1)).astype(np.float32)
    dtype = torch.get_default_dtype()
    with torch_seeded(rng):
        network = mlp(table.shape[1], (128,), told.classes).to(dtype=dtype)
        data, answers = torch.from_numpy(table[kept]).to(dtype), torch.from_numpy(told.answers[kept])
        training = Training(epochs_for(len(kept), 128, 1000, 3, 20), 128, 2e-3, 1e-2, "one-cycle", "adamw")
        trainer(Problem(network, [data], answers, told.loss), training, rng).run()
    outputs = apply(network, table[held], torch.device("cpu"))
    losses: NDArray[np.float64] = told.loss.rows(
        torch.from_numpy(outputs.astype(np.float64)), torch.from_numpy(told.answers[held])
    ).numpy()
    return losses
