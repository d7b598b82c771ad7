"""Learning with hints: some values by what a guest was told of labels, the others without.

What the host publishes of its labels is noisy (`fedonce.party.hinting`). An encoder is trained to tell the class from the guest's
own columns; its loss knows how noisy the answers are, so that it learns the class and not the noise. A few of an image's values
are the encoder's, and none where a trial on rows held back does not show that this pays: `fedonce.learners.hint_encoder`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedonce.errors import InputError, parameter_error
from fedonce.learners.base import Learner, NetworkLearner, Tensors, coded_for, epochs_for, progress_for, sent_for
from fedonce.learners.hint_encoder import Told, Trial, encoder, in_bytes, train, values_by_hints
from fedonce.learners.names import LEARNERS, Facts
from fedonce.learners.pca import principal
from fedonce.messages.codecs.budget import LEAST_BYTES, MOST_BYTES
from fedonce.messages.codecs.steps import Steps
from fedonce.training.checkpoints import Progress
from fedonce.training.loop import Rows
from fedonce.training.settings import Epoch, Training
from fedonce.training.stored import added_later, settings_of

ASKED = 0.5  # of a table's values, that are by hints where this learner is asked for
LEAST_HINTED = 200  # rows with a hint: with fewer there is nothing to learn from them


@dataclass(eq=False)
class Hinted(NetworkLearner):
    """A few values by an encoder that is trained on hints, the rest by a learner without labels.

    Parameters
    ----------
    hidden, network
        Of the encoder, as of every learner that is a network; for images a network of three convolutions by default.
    base : str
        The learner of the rest.
    epochs : int, optional
        None: as many as make about 3,000 steps, 5 to 40.
    batch, rate, weight_decay
        Of AdamW with a one-cycle rate.
    share : float, optional
        The part of the values that the encoder gets. None: of images as many as it takes to tell classes apart, where a trial on
        rows held back speaks for it; of tables half where this learner is named, and else none.
    bytes_per_row : float, optional
        Bytes that a row's values may take in the message, on average: values by hints get the finest steps that are worth their
        bytes, and the rest share what is left.
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
    bytes_per_row: float | None = added_later()
    steps_: Steps | None = field(default=None, init=False, repr=False)
    hinted_: int = field(default=0, init=False, repr=False)
    rest_: int = field(default=0, init=False, repr=False)
    base_: Learner | None = field(default=None, init=False, repr=False)
    mean_: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0), init=False, repr=False)
    turn_: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)), init=False, repr=False)

    @classmethod
    def around(cls, learner: Learner, bytes_per_row: float | None = None) -> Self:
        """Return a learner with hints, the rest of whose values are learnt as by this one."""
        if isinstance(learner, cls):
            learner.bytes_per_row = bytes_per_row if learner.bytes_per_row is None else learner.bytes_per_row
            return learner
        if learner.name not in LEARNERS:
            raise InputError(
                f"With hints, the learner of the other values is taken by its name, and {learner.name!r} is not known by it; "
                "call fedonce.learners.register with it first.",
                parameter="learner",
            )
        fresh, own = (settings_of(each, "The learner") for each in (LEARNERS[learner.name](), learner))
        epochs, most = own.get("epochs"), own.get("bytes_per_row")
        if any(own[name] != fresh.get(name) for name in own if name not in ("epochs", "bytes_per_row")):
            raise InputError(
                f"With hints, the learner of the other values is taken by its name alone; this {learner.name!r} has settings of "
                f"its own. Give learner={learner.name!r}.",
                parameter="learner",
            )
        bytes_per_row = most if bytes_per_row is None else bytes_per_row
        return cls(base=learner.name, epochs=epochs, bytes_per_row=bytes_per_row)

    def check(self) -> None:
        """Raise where a setting is out of its range."""
        for name, least, most, wanted in (
            ("share", 0, 1, "a number from 0 to 1"),
            ("bytes_per_row", LEAST_BYTES, MOST_BYTES, f"a number from {LEAST_BYTES} to {MOST_BYTES:g}"),
        ):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (number and least <= value <= most):
                raise parameter_error("the learner 'hinted'", name, f"{wanted}, or None", value)
        if self.base not in LEARNERS or self.base == self.name:
            raise parameter_error("the learner 'hinted'", "base", "the name of another learner", self.base)

    def fit(
        self,
        rows: Rows,
        dim: int,
        rng: np.random.Generator,
        device: torch.device,
        told: Told | None = None,
        progress: Progress | None = None,
        coded: Sequence[int] = (),
        sent: NDArray[np.intp] | None = None,
    ) -> list[Epoch]:
        """Learn from rows, of some of which it is told a class."""
        self.check()
        if LEARNERS[self.base].facts.on_steps:
            raise InputError(
                f"The learner {self.base!r} gives values on steps of its own, beside which there is no room for hints; "
                "learn by 'auto', 'pca', 'autoencoder', 'nat', 'patches' or 'random'.",
                parameter="learner",
            )
        self.hinted_, self.rest_, self.network_, self.steps_ = 0, 0, None, None
        self.mean_, self.turn_ = np.zeros(0), np.zeros((0, 0))
        start = copy.deepcopy(rng)
        rest = None
        if told is not None and self._uses(told, rows):
            rest, of_rest = self._fit_rest(rows, dim, rng, device, progress)
            history = self._fit_hinted(rows, dim, told, rng, device, progress)
            if history is not None:
                return history
            self.hinted_, self.network_ = 0, None
        alone = self.without_hints()
        if rest is None or rest.steps is not None:  # these heed bytes per row
            more = progress_for(alone.fit, progress) | coded_for(alone.fit, coded) | sent_for(alone.fit, sent)
            rest, of_rest = alone, alone.fit(rows, dim, start, device, **more)
        elif hasattr(alone, "bytes_per_row"):
            rest.bytes_per_row = alone.bytes_per_row  # type: ignore[attr-defined]
        self.base_ = rest
        self.rest_ = rest.transform(rows[:1], device).shape[1]
        return of_rest

    def _fit_rest(
        self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device, progress: Progress | None
    ) -> tuple[Learner, list[Epoch]]:
        """Learn the values that stand beside those by hints."""
        self.base_ = self.without_hints()
        if self.bytes_per_row is not None and hasattr(self.base_, "bytes_per_row"):
            self.base_.bytes_per_row = MOST_BYTES  # its values are rounded beside those by hints, not before
        return self.base_, self.base_.fit(rows, dim, rng, device, **progress_for(self.base_.fit, progress))

    def _fit_hinted(
        self,
        rows: Rows,
        dim: int,
        told: Told,
        rng: np.random.Generator,
        device: torch.device,
        progress: Progress | None,
    ) -> list[Epoch] | None:
        """Learn the values by hints, and how both kinds share the message; None: hints are not worth it."""
        assert self.base_ is not None
        values, known = self.base_.transform(rows, device), told.hinted
        self.mean_, _, self.turn_, _ = principal(values, values.shape[1])
        self.hinted_ = self._values_for(rows[known], values[known], told.take(known), dim, rng, device)
        if not self.hinted_:
            return None
        history = self._train(rows[known], told.take(known), rng, device, progress)
        self.rest_ = min(dim - self.hinted_, len(self.turn_))
        most = self.bytes_per_row
        told_nothing = most is not None and not self._share_out(
            super().transform(rows, device), self._rest(values), most
        )
        return None if told_nothing else history

    def without_hints(self) -> Learner:
        """Return the learner of the rest, which learns alone where there are no hints."""
        self.check()
        base: Learner = LEARNERS[self.base]()
        for name, value in (("epochs", self.epochs), ("bytes_per_row", self.bytes_per_row)):
            if value is not None and hasattr(base, name):
                setattr(base, name, value)
        return base

    def _uses(self, told: Told, rows: Rows) -> bool:
        """Tell whether hints are thought of at all.

        A table's values are worth what they tell together with the host's and other guests' columns, which no guest can try:
        there, hints are taken where somebody asks for this learner by name (docs/hints.md has the figures).
        """
        if len(told.hinted) < LEAST_HINTED:
            return False
        return self.share > 0 if self.share is not None else rows.ndim == 4 or told.asked

    def _rest(self, values: Rows) -> Rows:
        """Return the values beside those by hints, by how much they vary; `values` are the base's."""
        # In float64, rounded once: a row's values do not depend on the rows beside it.
        rest: Rows = ((values - self.mean_) @ self.turn_[: self.rest_].T).astype(np.float32)
        return rest

    def _share_out(self, learnt: Rows, rest: Rows, bytes_per_row: float) -> bool:
        """Share the bytes of a row out, and leave away those of the rest for which there are none.

        False: there are so few that values by hints would tell nothing.
        """
        steps = in_bytes(learnt, rest, bytes_per_row)
        assert steps.groups is not None
        if not steps.levels[: self.hinted_].any():
            return False
        # They are in the order in which they vary: what is not told is at the end.
        self.rest_ = int(np.flatnonzero(steps.levels[self.hinted_ :]).max(initial=-1)) + 1
        sent = slice(self.hinted_ + self.rest_)
        self.steps_ = Steps(steps.low[sent], steps.step[sent], steps.levels[sent], steps.groups[sent])
        return True

    @property
    def steps(self) -> Steps | None:
        """Those by `bytes_per_row` where some of the values are by hints, else those of the other learner."""
        return self.steps_ if self.hinted_ or self.base_ is None else self.base_.steps

    @property
    def shared(self) -> int:
        """As the other learner, where none of the values is by hints."""
        return 0 if self.hinted_ or self.base_ is None else self.base_.shared

    @property
    def one_scale(self) -> bool:
        """As the other learner, where none of the values is by hints."""
        return not self.hinted_ and self.base_ is not None and self.base_.one_scale

    def _values_for(
        self, rows: Rows, values: Rows, told: Told, dim: int, rng: np.random.Generator, device: torch.device
    ) -> int:
        """Return how many of the values are the encoder's; `values` are the base's."""
        if self.share is not None:
            return min(dim, max(1, round(self.share * dim)))
        by_hints = values_by_hints(told.classes, told.keep, dim, self.bytes_per_row)
        if rows.ndim != 4:
            half = max(1, round(ASKED * dim))
            return half if self.bytes_per_row is None else min(half, by_hints)
        plain = ((values - self.mean_) @ self.turn_.T).astype(np.float32)
        trial = Trial(self.build, self.training(len(rows)), self.bytes_per_row)
        return by_hints if trial.pays(rows, plain, told, by_hints, dim, rng.spawn(1)[0], device) else 0

    def _train(
        self, rows: Rows, told: Told, rng: np.random.Generator, device: torch.device, progress: Progress | None
    ) -> list[Epoch]:
        """Train the encoder."""
        with self.encoder_to_train(rows, self.hinted_, rng, device) as network:
            history = train(network, rows, told, self.hinted_, self.training(len(rows)), rng, progress)
        self.fitted().eval()
        return history

    def training(self, n_rows: int) -> Training:
        """Return how an encoder is trained on so many rows."""
        epochs = self.epochs or epochs_for(n_rows, self.batch, 3000, 5, 40)
        return Training(epochs, self.batch, self.rate, self.weight_decay, "one-cycle", "adamw")

    def build(self, shape: tuple[int, ...], dim: int) -> nn.Module:
        """Make the encoder: for images a larger one than the paper's, its values on one scale."""
        return super().build(shape, dim) if self.network is not None else encoder(shape, self.hidden, dim)

    def transform(self, rows: Rows, device: torch.device) -> Rows:
        """Return the encoder's values, and beside them those of the rest, by how much they vary."""
        if self.base_ is None:
            raise InputError("This Hinted has not learnt yet; call fit first.")
        if not self.hinted_:
            return self.base_.transform(rows, device)
        return np.hstack([super().transform(rows, device), self._rest(self.base_.transform(rows, device))])

    def transform_in_layers(self, rows: Rows, device: torch.device) -> Rows:
        """As the other learner, where none of the values is by hints."""
        if self.hinted_ or self.base_ is None:
            return self.transform(rows, device)
        return self.base_.transform_in_layers(rows, device)

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
        fits = self.turn_.ndim == 2 and self.turn_.shape[1:] == self.mean_.shape and len(self.turn_) <= len(self.mean_)
        if not fits or self.rest_ < 0 or (self.hinted_ and self.rest_ > len(self.turn_)):
            raise ValueError("its values do not go together")
        self.base_ = LEARNERS[self.base]()
        self.base_.restore({name[5:]: value for name, value in tensors.items() if name.startswith("base.")})
        self.network_ = None
        if self.hinted_:
            super().restore(tensors)
            self.fitted().eval()
            if self.hinted_ != self.dim_:
                raise ValueError("its encoder gives another number of values than it says")


def kept(learner: Learner, given: Learner) -> Learner:
    """Return what a guest keeps that was given a learner: that of the rest where hints alone called for this one, in vain."""
    if (
        isinstance(learner, Hinted)
        and not isinstance(given, Hinted)
        and not learner.hinted_
        and learner.base_ is not None
    ):
        return learner.base_
    return learner
