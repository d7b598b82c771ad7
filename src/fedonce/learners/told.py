"""What a guest was told of its rows' labels, as learners take it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedonce.privacy.response import matrix
from fedonce.training.losses import HintLoss


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
