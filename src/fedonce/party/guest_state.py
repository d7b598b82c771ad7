"""What a guest was given, which never changes; what it has learnt, which changes as a whole; and how both are read."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fedonce.data.preparation import Preparation, Public
from fedonce.data.schema import Reading
from fedonce.errors import parameter_error
from fedonce.learners import Learner
from fedonce.messages.codecs import Codec
from fedonce.party import blurring
from fedonce.party.checks import check_noise, check_party, check_purse, public_of
from fedonce.party.fine_tuning import FineTuning
from fedonce.party.read_only import ReadOnly
from fedonce.privacy.budget import Purse
from fedonce.rows.ids import Naming
from fedonce.training.settings import Epoch

# How rows were named: the form and how ids were made alike. A secret is no part of it.
NamingUsed: TypeAlias = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class GuestSettings:
    """What a guest was given; `Guest` describes the fields. `learner` has not learnt, and never does: its copies do."""

    name: str
    learner: Learner
    dim: int
    encoding: type[Codec]
    shape: tuple[int, ...] | None = None
    run: str = "local"
    noise: float = 0.0
    random_state: int = 0
    device: str = "auto"
    purse: Purse | None = None
    public: Public | None = None
    naming: Naming | None = None
    reading: Reading | None = None
    bytes_per_row: float | None = None
    local_epsilon: float | None = None

    def __post_init__(self) -> None:
        check_party("Guest", self.name, self.random_state, self.run)
        check_noise("Guest", "noise", self.noise)
        check_purse("Guest", self.name, self.purse, self.public, self.local_epsilon)
        others = {"noise": self.noise, "bytes_per_row": self.bytes_per_row, "purse": self.purse is not None}
        blurring.check_local("Guest", self.local_epsilon, self.encoding, **others)
        if self.purse is not None and self.noise:
            wanted = "0 with a privacy budget: its centre and radius are figures of private rows that nobody has priced"
            raise parameter_error("Guest", "noise", wanted, self.noise)
        if not isinstance(self.dim, int | np.integer) or self.dim < 1:
            raise parameter_error("Guest", "dim", "a positive integer", self.dim)
        if self.bytes_per_row is not None and (self.noise or self.purse is not None):
            wanted = "left out with noise or a privacy budget, whose values do not lie where rows are many; give dim and bits"
            raise parameter_error("Guest", "bytes_per_row", wanted, self.bytes_per_row)


@dataclass(frozen=True, eq=False)
class GuestState:
    """What a guest has learnt.

    Parameters
    ----------
    learner, preparation
        Those that were fitted to its training rows.
    noise : LocalNoise, LocalEpsilon or None
        How it perturbs its values.
    codec : Codec or None
        How its values are written; None: it has not learnt.
    fine_tuning : FineTuning or None
        What more rounds have changed.
    history : sequence of Epoch
        The learner's.
    learnt_naming : tuple or None
        How it named rows when it learnt; without the secret.
    hints : str
        With which epsilon labels were hinted at when it learnt, and which label; empty: none were.
    answered : int
        With a local epsilon: how many messages there were about rows without ids, each of which costs epsilon again.
    """

    learner: Learner
    preparation: Preparation
    noise: blurring.Blur | None = None
    codec: Codec | None = None
    fine_tuning: FineTuning | None = None
    history: Sequence[Epoch] = ()
    learnt_naming: NamingUsed | None = None
    hints: str = ""
    answered: int = 0

    @classmethod
    def before_learning(cls, settings: GuestSettings) -> GuestState:
        """Return the state of a guest that has learnt nothing."""
        public = public_of(settings.purse, settings.public, settings.local_epsilon)
        return cls(
            copy.deepcopy(settings.learner),
            Preparation(
                settings.name, settings.shape, settings.learner.embeddings, public, coding=settings.learner.coding
            ),
            learnt_naming=naming_used(settings.naming, None),
        )


def naming_used(naming: Naming | None, before: NamingUsed | None) -> NamingUsed | None:
    """Return how rows are named, as it is kept; where it is not said, as before."""
    return before if naming is None else (naming.form, naming.forms)


class GuestAttributes(ReadOnly):
    """What can be read of a guest; none of it can be assigned."""

    __slots__ = ("_settings", "_state")
    _settings: GuestSettings
    _state: GuestState

    @property
    def settings(self) -> GuestSettings:
        """What it was given."""
        return self._settings

    @property
    def state(self) -> GuestState:
        """What it has learnt."""
        return self._state

    def adopt(self, state: GuestState) -> None:
        """Take over what was learnt, in place of all that the guest had learnt before."""
        self._state = state

    @property
    def name(self) -> str:
        """The party's name."""
        return self._settings.name

    @property
    def dim(self) -> int:
        """Values per row at most."""
        return self._settings.dim

    @property
    def encoding(self) -> type[Codec]:
        """How values are written."""
        return self._settings.encoding

    @property
    def bits(self) -> int | str:
        """Bits per value, or the name of an encoding."""
        return self._settings.encoding.choice()

    @property
    def run(self) -> str:
        """The training that its messages belong to."""
        return self._settings.run

    @property
    def random_state(self) -> int:
        """Its seed."""
        return self._settings.random_state

    @property
    def device(self) -> str:
        """Where it computes."""
        return self._settings.device

    @property
    def purse(self) -> Purse | None:
        """What it may spend of a privacy budget."""
        return self._settings.purse

    @property
    def perturbs(self) -> bool:
        """Whether its values leave with noise or as answers of a local epsilon."""
        return bool(self._settings.noise) or self._settings.local_epsilon is not None

    @property
    def local_epsilon(self) -> float | None:
        """Epsilon of what is disclosed of each row."""
        return self._settings.local_epsilon

    @property
    def naming(self) -> Naming | None:
        """How its messages name rows, unless a call says otherwise."""
        return self._settings.naming

    @property
    def reading(self) -> Reading | None:
        """How its tables are read from files."""
        return self._settings.reading

    @property
    def learner(self) -> Learner:
        """Its learner, with what it has learnt."""
        return self._state.learner

    @property
    def preparation(self) -> Preparation:
        """How its columns are prepared."""
        return self._state.preparation

    @property
    def noise(self) -> blurring.Blur | None:
        """How it perturbs its values."""
        return self._state.noise

    @property
    def codec(self) -> Codec | None:
        """How its values are written, fitted when it has learnt; None before."""
        return self._state.codec

    @property
    def fine_tuning(self) -> FineTuning | None:
        """What more rounds have changed."""
        return self._state.fine_tuning

    @property
    def history(self) -> Sequence[Epoch]:
        """Of its learning."""
        return self._state.history

    @property
    def learnt_naming(self) -> NamingUsed | None:
        """How it named rows when it learnt: the form and how ids were made alike; without the secret."""
        return self._state.learnt_naming
