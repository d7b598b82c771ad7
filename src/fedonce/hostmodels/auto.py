"""The host's model where nobody names one: the best of several by rows held back, or the network where only it will do."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from fedonce.hostmodels.base import HOST_SHARE, HostModel
from fedonce.hostmodels.blend import BlendModel
from fedonce.hostmodels.names import Facts
from fedonce.hostmodels.network_model import NetworkModel
from fedonce.privacy.budget import Task

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class AutoModel(BlendModel):
    """A blend of trees and networks for tables; the network for images, rounds and budgets, and where its settings are given.

    Parameters
    ----------
    models : tuple of str
        The models to weigh, for tables without a budget and without rounds.
    recipe : str or Recipe
        Of the network: any but "default" means that the network is wanted.
    epochs : int, optional
        Likewise.
    """

    name: ClassVar[str] = "auto"
    facts: ClassVar[Facts] = Facts(images=True, private=True, rounds=True, exports=True)
    recipe: object = "default"
    epochs: int | None = None

    def settled(self, images: bool = False, private: bool = False, rounds: bool = False) -> HostModel:
        """Return the network where only it will do, and say why; else this."""
        asked = not isinstance(self.recipe, str) or self.recipe != "default" or self.epochs is not None
        reasons = {"images": images, "a privacy budget": private, "rounds": rounds, "settings of the network": asked}
        why = [reason for reason, is_so in reasons.items() if is_so]
        if not why:
            return self
        logger.info("the host's model is the network, as there are %s", " and ".join(why))
        return self.network

    @property
    def network(self) -> NetworkModel:
        """The network with the settings given."""
        return NetworkModel(self.recipe, self.epochs)

    def check(self, owner: str) -> None:
        """Raise where a model has no such name, or there is no such recipe."""
        super().check(owner)
        self.network.check(owner)

    @property
    def embeddings(self) -> tuple[int, ...]:
        """Widths of the network's embeddings, where its recipe has some."""
        return self.network.embeddings

    def private_tasks(self, n_rows: int, task: str, share: float = HOST_SHARE, exact: bool = False) -> list[Task]:
        """Return what the network will do."""
        return self.network.private_tasks(n_rows, task, share, exact)

    def check_private(self, shape: tuple[int, ...]) -> None:
        """Raise where the network cannot train with a budget."""
        self.network.check_private(shape)
