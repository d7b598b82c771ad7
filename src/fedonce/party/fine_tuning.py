"""What more rounds than one made of a guest."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class FineTuning:
    """What rounds made of a guest: a network whose values are added to the learner's, or stand `alone`.

    No network: the learner is one itself, and was trained further.
    """

    network: nn.Module | None = None
    alone: bool = False
