"""What more rounds than one made of a guest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Tuned:
    """What rounds made of a guest: a network whose values are added to the learner's, or stand `alone`.

    No network: the learner is one itself, and was trained further.
    """

    network: nn.Module | None = None
    alone: bool = False
