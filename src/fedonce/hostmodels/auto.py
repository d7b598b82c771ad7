"""The host's model where nobody names one: the best of several by rows held back, or the network where only it will do."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from fedonce.hostmodels.base import HOST_SHARE, Examples, HostModel
from fedonce.hostmodels.blend import BlendModel
from fedonce.hostmodels.holding import FEW
from fedonce.hostmodels.names import Facts
from fedonce.hostmodels.network_model import NetworkModel
from fedonce.hostmodels.tabm import TabMModel
from fedonce.hostmodels.trees import TreesModel
from fedonce.privacy.budget import Task

logger = logging.getLogger(__name__)

ENOUGH_FOR_TREES = 1000  # rows, of classes
MANY_CLASSES = 20  # each of which would take trees of its own
# An operation of trees takes so many times as long as one of a network, and of TabM on the CPU.
SLOWER, SLOWER_THAN_TABM = 9, 20


@dataclass(eq=False)
class AutoModel(BlendModel):
    """A blend of trees and networks for tables; the network for images, rounds and budgets, and where its settings are given.

    Parameters
    ----------
    models : tuple of str
        The models to weigh, for tables without a budget and without rounds. Empty: by the table. With few rows a linear model
        and a small network, and trees for numbers or 1,000 rows. Else trees; beside them, for classes, a small network, and
        TabM where trees take long themselves; for numbers the network, likewise. On a GPU TabM and the network; with very
        many classes the network alone.
    recipe : str or Recipe
        Of the network: any but "default" means that the network is wanted.
    epochs : int, optional
        Likewise.
    """

    name: ClassVar[str] = "auto"
    facts: ClassVar[Facts] = Facts(images=True, private=True, rounds=True)
    models: tuple[str, ...] = ()
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

    def candidates(
        self, examples: Examples, n_outputs: int, device: torch.device, tried: Mapping[str, HostModel]
    ) -> Iterator[str]:
        """Give the models for a table, one after the other."""
        n_rows = len(examples.target)
        if self.models:
            yield from self.models
        elif n_rows < FEW:
            yield from ("linear", "mlp")
            if n_outputs <= 2 and (n_outputs == 1 or n_rows >= ENOUGH_FOR_TREES):
                yield "trees"
        elif n_outputs > MANY_CLASSES:
            yield "network"
        else:
            yield "trees"
            trees = tried["trees"]
            assert isinstance(trees, TreesModel)
            if device.type != "cpu":
                yield from ("tabm", "network")
            elif n_outputs == 1:
                if self.network.work(examples, n_outputs) <= SLOWER * trees.work(examples):
                    yield "network"
            else:
                yield "mlp"
                if TabMModel().work(examples, n_outputs, device) <= SLOWER_THAN_TABM * trees.work(examples):
                    yield "tabm"

    def check(self, owner: str) -> None:
        """Raise where a model has no such name, or there is no such recipe."""
        if self.models:
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
