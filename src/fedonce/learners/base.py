"""What a learner is: it fits on a guest's rows without labels, and turns rows into a few numbers each."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedonce.data.preparation import Coding
from fedonce.errors import BudgetError, InputError
from fedonce.learners.names import LEARNERS, Facts, private_ones
from fedonce.messages.codecs.steps import Steps
from fedonce.privacy.budget import Purse, Task
from fedonce.privacy.dpsgd import check_clippable
from fedonce.training.checkpoints import Progress
from fedonce.training.loop import Rows, apply
from fedonce.training.networks import NCF, Network, check_weights, code_sizes, encoder
from fedonce.training.randomness import torch_seeded
from fedonce.training.settings import Epoch

Tensors = dict[str, NDArray[Any]]
WITHOUT_NOISE = "learns without noise"


class Learner(ABC):
    """One way to learn a representation. Settings are dataclass fields; what was learnt ends in an underscore.

    To add one, write these four methods, say in `facts` what it can do, and call `fedonce.learners.register(YourLearner)`; or
    name it in a package's entry points, group `fedonce.learners`; or hand an instance of it to an estimator as `learner=`.
    `docs/learners.md` has whole examples.
    """

    name: ClassVar[str]
    facts: ClassVar[Facts] = Facts()
    bound: ClassVar[float] = (
        1.0  # with a privacy budget, values lie between -bound and bound: known before any row is seen
    )
    # Which categories with many values reach it as codes 1, 2, ... and not hashed; its `fit` takes their positions as `coded`.
    coding: ClassVar[Coding | None] = None

    def private_tasks(self, n_rows: int, share: float, exact: bool = False, unsound: bool = False) -> list[Task]:
        """Return what it will do with so many rows under a privacy budget, for a share of it; noise is not yet fixed.

        A learner has a private version where it overrides this and `fit_private`. `exact`: the budget is infinite, and
        every learner may run. `unsound`: the user asked for the paper's own, whose price is not a guarantee.
        """
        if exact:
            return [Task("", WITHOUT_NOISE, share)]
        raise BudgetError(
            f"The learner {self.name!r} has no private version: with a budget, guests learn by {private_ones()}."
        )

    def fit_private(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device, purse: Purse) -> None:
        """Learn from rows with what the purse allows; `rng` serves initial weights alone, all else comes from the purse."""
        purse.exactly(WITHOUT_NOISE)
        self.fit(rows, dim, rng, device)

    @property
    def embeddings(self) -> tuple[int, ...]:
        """Widths of its embeddings, one per column; those columns reach it as codes 1, 2, ... (0: not seen in training)."""
        return ()

    @property
    def steps(self) -> Steps | None:
        """The steps on which all its values lie, a column each, once it has learnt; None: they lie anywhere."""
        return None

    @property
    def shared(self) -> int:
        """How many rows of the training message share each of its values, at least; 0: it promises nothing of that."""
        return 0

    @property
    def one_scale(self) -> bool:
        """Whether a step of one length tells as much in each of its values, so that one which hardly varies needs few of them."""
        return False

    def transform_in_layers(self, rows: Rows, device: torch.device) -> Rows:
        """Return the representation as it is written: its layers side by side, where `steps` have several."""
        return self.transform(rows, device)

    @abstractmethod
    def fit(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device) -> list[Epoch]:
        """Learn from rows, (n, columns) or (n, channels, rows, columns), to give at most `dim` values per row.

        All randomness comes from `rng`. Returns the losses by epoch, or nothing where there are no epochs. One that trains in
        epochs may also take `progress=None`, here and in `fit_private`, and hand it to the trainer (`progress_for`).
        """

    @abstractmethod
    def transform(self, rows: Rows, device: torch.device) -> Rows:
        """Return the representation of rows, (n, d); a row's values must not depend on the other rows."""

    def module(self) -> nn.Module:
        """Return what `transform` does as a network on prepared rows, for export; it shares its weights with the learner."""
        raise InputError(
            f"The learner {self.name!r} gives no network to export; write its method module(), or learn by "
            f"{LEARNERS.which('exports')}."
        )

    @abstractmethod
    def state(self) -> Tensors:
        """Return all that was learnt, as arrays."""

    @abstractmethod
    def restore(self, tensors: Tensors) -> None:
        """Take back what `state` gave; afterwards `transform` works as before."""


@dataclass(eq=False)
class NetworkLearner(Learner):
    """A learner whose transform is a network: the encoder chosen from the shape of a row, or the user's own.

    Parameters
    ----------
    hidden : tuple of int
        Widths of the hidden layers where the encoder is an MLP.
    network : torch.nn.Module, NCF, "cnn0", "cnn1" or None
        The encoder to use instead of the one chosen by shape.
    """

    hidden: tuple[int, ...] = (64, 64)
    network: Network = None
    network_: nn.Module | None = field(default=None, init=False, repr=False)
    shape_: tuple[int, ...] = field(default=(), init=False, repr=False)
    dim_: int = field(default=0, init=False, repr=False)
    sizes_: tuple[int, ...] = field(default=(), init=False, repr=False)
    bounded_: bool = field(default=False, init=False, repr=False)  # whether outputs go through tanh, as with a budget

    @property
    def owner(self) -> str:
        """Whose network it is, for errors."""
        return f"the learner {self.name!r}"

    @property
    def embeddings(self) -> tuple[int, ...]:
        """Widths of the encoder's embeddings."""
        return self.network.embeddings if isinstance(self.network, NCF) else ()

    def build(self, shape: tuple[int, ...], dim: int) -> nn.Module:
        """Make the encoder for rows of a shape."""
        network = encoder(shape, self.hidden, dim, self.network, self.sizes_)
        return with_tanh(network) if self.bounded_ else network

    def start(self, rows: Rows, dim: int, device: torch.device, bounded: bool = False) -> nn.Module:
        """Make and remember the encoder, before it is trained."""
        self.shape_, self.dim_, self.sizes_ = rows.shape[1:], dim, code_sizes(self.network, rows)
        self.bounded_ = bounded
        if bounded and isinstance(self.network, nn.Module):
            check_clippable(self.network, [torch.zeros(1, *self.shape_)], self.owner)
        self.network_ = self.build(self.shape_, dim).to(device, torch.get_default_dtype())
        return self.network_

    @contextmanager
    def encoder_to_train(
        self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device, bounded: bool = False
    ) -> Iterator[nn.Module]:
        """Make the encoder, let it be trained while torch draws from `rng`, and bring it home from the GPU."""
        with torch_seeded(rng):
            yield self.start(rows, dim, device, bounded)
        for parameter in self.fitted().cpu().parameters():
            parameter.data = parameter.data.clone()  # off the memory that it shares with what is not kept

    def transform(self, rows: Rows, device: torch.device) -> Rows:
        """Run the encoder over rows."""
        return apply(self.fitted(), rows.reshape(len(rows), *self.shape_), device)

    def module(self) -> nn.Module:
        """Return the encoder, and before it the shape that it learnt from."""
        return nn.Sequential(nn.Flatten(), nn.Unflatten(1, self.shape_), self.fitted())

    def fitted(self) -> nn.Module:
        """Return the trained encoder."""
        if self.network_ is None:
            raise InputError(f"This {type(self).__name__} has not learnt yet; call fit first.")
        return self.network_

    def state(self) -> Tensors:
        """Return the encoder's weights and the shape to rebuild it."""
        weights = {f"network.{name}": value.cpu().numpy() for name, value in self.fitted().state_dict().items()}
        sizes = np.array(self.sizes_, dtype=np.int64)
        shape, bounded = np.array(self.shape_), np.array(self.bounded_)
        return {"shape": shape, "dim": np.array(self.dim_), "sizes": sizes, "bounded": bounded, **weights}

    def restore(self, tensors: Tensors) -> None:
        """Rebuild the encoder and load its weights."""
        self.shape_, self.sizes_ = (tuple(int(side) for side in tensors[name]) for name in ("shape", "sizes"))
        self.dim_, self.bounded_ = int(tensors["dim"]), bool(tensors["bounded"])
        own = {name.removeprefix("network."): value for name, value in tensors.items() if name.startswith("network.")}
        check_weights(lambda: self.build(self.shape_, self.dim_), own)
        with torch_seeded(np.random.default_rng(0)):  # the weights drawn here are replaced at once
            self.network_ = self.build(self.shape_, self.dim_)
        self.network_.load_state_dict({name: torch.from_numpy(value) for name, value in own.items()})


def progress_for(method: Callable[..., Any], progress: Progress | None) -> dict[str, Any]:
    """Return `progress` as a keyword for a learner's `fit` or `fit_private`, where that takes one: it need not know of it."""
    return {"progress": progress} if "progress" in inspect.signature(method).parameters else {}


def coded_for(method: Callable[..., Any], coded: Sequence[int]) -> dict[str, Any]:
    """Return the positions of columns of codes as a keyword for a learner's `fit`, where that takes them."""
    return {"coded": tuple(coded)} if "coded" in inspect.signature(method).parameters else {}


def sent_for(method: Callable[..., Any], sent: NDArray[np.intp] | None) -> dict[str, Any]:
    """Return which rows the message will have as a keyword for a learner's `fit`, where that takes it; None: all."""
    return {"sent": sent} if "sent" in inspect.signature(method).parameters else {}


def with_tanh(network: nn.Module) -> nn.Sequential:
    """Return the network with its outputs brought between -1 and 1."""
    return nn.Sequential(*(network if isinstance(network, nn.Sequential) else [network]), nn.Tanh())


def epochs_for(n_rows: int, batch: int, steps: int, least: int, most: int) -> int:
    """Return the number of epochs that makes about `steps` steps, within bounds."""
    return int(np.clip(round(steps * batch / max(n_rows, 1)), least, most))
