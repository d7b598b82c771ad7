"""An untrained network: the floor that every other learner must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from fedonce.learners.base import NetworkLearner
from fedonce.learners.names import Facts
from fedonce.privacy.budget import Purse, Task
from fedonce.training.loop import Rows
from fedonce.training.randomness import torch_seeded
from fedonce.training.settings import Epoch

DRAWN = "weights drawn, no row looked at"


@dataclass(eq=False)
class Random(NetworkLearner):
    """The encoder at its initial, random weights.

    Parameters
    ----------
    hidden : tuple of int
        Widths of the network's hidden layers, where the columns are no image.
    network : torch.nn.Module, NCF, "cnn0", "cnn1" or None
        A network of your own instead.
    """

    name: ClassVar[str] = "random"
    facts: ClassVar[Facts] = Facts(trains=False, private=True, exports=True)

    def fit(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device) -> list[Epoch]:
        """Draw the weights; the rows are not looked at, only their shape."""
        with torch_seeded(rng):
            self.start(rows, dim, device)
        return []

    def private_tasks(self, n_rows: int, share: float, exact: bool = False, unsound: bool = False) -> list[Task]:
        """Return a task that costs nothing."""
        return [Task("", DRAWN, 0.0)]

    def fit_private(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device, purse: Purse) -> None:
        """Draw the weights; nothing is spent."""
        purse.free(DRAWN)
        with torch_seeded(rng):
            self.start(rows, dim, device, bounded=True)
