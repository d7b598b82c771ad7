"""Signs: the cell that a row lies in, cut out by random directions. Nothing is learnt from rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from fedonce.errors import InputError, parameter_error
from fedonce.learners import orientations
from fedonce.learners.base import Learner, Tensors
from fedonce.learners.names import Facts
from fedonce.learners.orientations import DIRECTIONS, REGIONS, Orientations
from fedonce.learners.pca import projection
from fedonce.messages.codecs.steps import Steps
from fedonce.training.loop import Rows, apply
from fedonce.training.settings import Epoch

MOST_DIRECTIONS = 12  # 4,096 cells


@dataclass(eq=False)
class Signs(Learner):
    """Give the number of the cell that a row lies in; `dim` cells at most, a power of two.

    Each of a few random directions cuts the space of prepared rows in two, and the sides on which a row lies are the bits of
    its cell's number (Charikar, 2002). The directions follow from the seed and from the number of prepared columns. They are
    contrasts: their entries add up to zero, so that what all columns share, such as many zeros, does not decide. Images go
    through fixed features of edges first. With `local_epsilon` this is how guests represent rows: no message, header or model
    depends on a row, except through what is disclosed of that row itself.
    """

    name: ClassVar[str] = "signs"
    facts: ClassVar[Facts] = Facts(trains=False, on_steps=True)
    directions_: NDArray[np.float64] | None = field(default=None, init=False, repr=False)
    oriented_: bool = field(default=False, init=False, repr=False)  # whether images go through fixed features first

    def fit(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device) -> list[Epoch]:
        """Draw the directions; of the rows only their shape is looked at."""
        if dim < 2:
            raise parameter_error("Signs", "dim", "2 or more: the number of cells", dim)
        self.oriented_ = orientations.fits(rows.shape[1:])
        width = rows.shape[1] * DIRECTIONS * REGIONS**2 if self.oriented_ else prod(rows.shape[1:])
        wanted = min(int(dim).bit_length() - 1, MOST_DIRECTIONS, width)
        drawn = rng.normal(size=(width, wanted))
        if wanted < width:
            drawn -= drawn.mean(axis=0)
        self.directions_ = np.ascontiguousarray(np.linalg.qr(drawn)[0].T)
        return []

    @property
    def steps(self) -> Steps | None:
        """The numbers of the cells."""
        if self.directions_ is None:
            return None
        most = np.array([2 ** len(self.directions_) - 1], np.uint16)
        return Steps(np.zeros(1, np.float32), np.ones(1, np.float32), most)

    def transform(self, rows: Rows, device: torch.device) -> Rows:
        """Return the number of each row's cell."""
        if self.directions_ is None:
            raise InputError("This Signs has not learnt yet; call fit first.")
        flat = apply(Orientations(), rows, device) if self.oriented_ else rows.reshape(len(rows), prod(rows.shape[1:]))
        linear = projection(np.zeros(self.directions_.shape[1]), self.directions_)
        bits = apply(linear, flat, device) > 0
        return np.asarray(bits @ 2 ** np.arange(len(self.directions_)), np.float32)[:, None]

    def state(self) -> Tensors:
        """Return the directions."""
        if self.directions_ is None:
            raise InputError("This Signs has not learnt yet; call fit first.")
        return {"directions": self.directions_, "oriented": np.array(self.oriented_)}

    def restore(self, tensors: Tensors) -> None:
        """Take the directions back."""
        found = tensors["directions"]
        if found.dtype != np.float64 or found.ndim != 2 or not 1 <= len(found) <= MOST_DIRECTIONS:
            raise ValueError("its directions are not rows of numbers")
        if not np.isfinite(found).all():
            raise ValueError("its directions are not numbers")
        self.directions_, self.oriented_ = found, bool(tensors["oriented"])
