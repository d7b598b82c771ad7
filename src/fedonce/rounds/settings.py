"""How long rounds go on, and how."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from numbers import Integral
from typing import Protocol

import numpy as np

from fedonce.errors import parameter_error
from fedonce.messages import codecs
from fedonce.messages.codecs import Codec
from fedonce.training.settings import Training

# Models that are good already take smaller steps than new ones, and the smaller the fewer there are: shares of the host
# recipe's rate an epoch, and at most. Chosen on validation rows of phishing and superconduct.
WARM, WARMEST = 0.025, 0.25
LEAST_BITS = 8
MOST_SHIFT = 8  # pixels: a guest makes its images so much larger on each side before they are moved


class Trains(Protocol):
    """What says how the host trains without rounds: its model, or a recipe."""

    def training(self, n_rows: int) -> Training:
        """Return how to train on so many rows."""


@dataclass(frozen=True)
class Rounds:
    """How long to go on, and how; what is reached first ends it.

    Parameters
    ----------
    rounds : int, optional
        Number of rounds, of one batch each.
    epochs : float, optional
        Passes over the rows.
    bytes : int, optional
        Bytes of all messages of the training, the first one included.
    batch : int, optional
        Rows a round. None: as the host's recipe.
    rate : float, optional
        Of everyone's optimizer. None: a share of the host recipe's, the smaller the shorter the rounds are; all of it where
        `start` is "random".
    bits : int, optional
        Bits per value, in both directions. None: those of the guest's first message, and 8 at least: gradients want more.
    start : str
        "one-shot": go on from FedOnce's models. "random": no first message and random weights: SplitNN.
    shift : int, optional
        Pixels by which guests' images are moved at random in each round, as a recipe's `shift` moves the host's; 8 at most.
        None: they are not.

    >>> Rounds(epochs=2, bytes=1_000_000).start
    'one-shot'
    """

    rounds: int | None = None
    epochs: float | None = None
    bytes: int | None = None
    batch: int | None = None
    rate: float | None = None
    bits: int | str | None = None
    start: str = "one-shot"
    shift: int | None = None

    def __post_init__(self) -> None:
        if self.rounds is None and self.epochs is None and self.bytes is None:
            raise parameter_error("Rounds", "rounds", "given, or else epochs or bytes, so that training ends", None)
        for name in ("rounds", "bytes", "batch", "epochs", "rate"):
            value = getattr(self, name)
            whole = name in ("rounds", "bytes", "batch")
            kind = int | np.integer if whole else int | float | np.number
            if value is not None and (isinstance(value, bool) or not isinstance(value, kind) or not 0 < value < np.inf):
                raise parameter_error("Rounds", name, f"a positive {'integer' if whole else 'number'} or None", value)
        whole = isinstance(self.shift, int | np.integer) and not isinstance(self.shift, bool)
        if self.shift is not None and not (whole and 1 <= self.shift <= MOST_SHIFT):
            raise parameter_error("Rounds", "shift", f"an integer from 1 to {MOST_SHIFT}, or None", self.shift)
        if self.bits is not None:
            codecs.find(self.bits, "Rounds", " or None")
        if self.start not in ("one-shot", "random"):
            raise parameter_error("Rounds", "start", "'one-shot' or 'random'", self.start)

    def encoding(self, own: type[Codec]) -> type[Codec]:
        """Return how values and gradients are written; `own` is how the guest writes its first message."""
        if self.bits is not None:
            return codecs.find(self.bits, "Rounds")
        return own if own.bits >= LEAST_BITS else codecs.find(LEAST_BITS)

    def batch_of(self, recipe: Trains, n_rows: int) -> int:
        """Return how many rows per round has."""
        return min(self.batch or recipe.training(n_rows).batch, n_rows)

    def training(self, recipe: Trains, n_rows: int, affordable: int | None = None) -> Training:
        """Return how to train; `affordable` is the number of rounds that the limit in bytes allows."""
        base, batch = recipe.training(n_rows), self.batch_of(recipe, n_rows)
        per_epoch = ceil(n_rows / batch)
        limits = [self.rounds, affordable, None if self.epochs is None else max(1, round(self.epochs * per_epoch))]
        steps = min(limit for limit in limits if limit is not None)
        share = min(WARM * max(1.0, steps / per_epoch), WARMEST) if self.start == "one-shot" else 1.0
        rate = self.rate or base.rate * share
        return replace(base, batch=batch, rate=rate, steps=steps, epochs=ceil(steps / per_epoch))


def as_rounds(given: int | Rounds, owner: str) -> Rounds | None:
    """Return how to go on after the one message, from a number of rounds or a `Rounds`; None: not at all."""
    if isinstance(given, Rounds):
        return given
    if isinstance(given, bool) or not isinstance(given, Integral) or given < 0:
        raise parameter_error(owner, "rounds", "an integer of at least 0, or a Rounds", given)
    return Rounds(rounds=int(given)) if given else None
