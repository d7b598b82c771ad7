"""What a host was given, which never changes; what its training made, which changes as a whole; and how both are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from fedonce.data.preparation import Preparation, Public
from fedonce.data.schema import Reading
from fedonce.errors import parameter_error
from fedonce.hostmodels import HostModel
from fedonce.hostmodels.validation import Validation
from fedonce.party.checks import check_party, check_purse, public_of
from fedonce.party.drift import Seen
from fedonce.party.read_only import ReadOnly
from fedonce.privacy.budget import Plan, Purse
from fedonce.privacy.ledger import Ledger
from fedonce.rows.matching import Matching

if TYPE_CHECKING:
    from fedonce.rows.alignment import AgreedRows


@dataclass(frozen=True, eq=False)
class HostSettings:
    """What a host was given; `Host` describes the fields. `model` is not trained, and never is: its copies are."""

    name: str
    model: HostModel
    task: str = "classification"
    shape: tuple[int, ...] | None = None
    random_state: int = 0
    device: str = "auto"
    run: str = "local"
    purse: Purse | None = None
    public: Public | None = None
    plan: Plan | None = None
    labels: NDArray[Any] | None = None
    allow_large_delta: bool = False
    matching: Matching = field(default_factory=Matching)
    reading: Reading | None = None
    known: tuple[str, ...] = ()
    validate: bool = True
    calibrate: bool | str = "auto"

    def __post_init__(self) -> None:
        check_party("Host", self.name, self.random_state, self.run)
        if self.task not in ("classification", "regression"):
            raise parameter_error("Host", "task", "'classification' or 'regression'", self.task)
        fact = "classes" if self.task == "classification" else "numbers"
        self.model.must(fact, f"predicts no {fact}")
        if self.calibrate not in (True, False, "auto"):
            raise parameter_error("Host", "calibrate", "'auto', True or False", self.calibrate)
        check_purse("Host", self.name, self.purse, self.public)
        if self.plan is not None and self.purse is None:
            wanted = "given with a plan: without one nothing would be private"
            raise parameter_error("Host", "purse", wanted, self.purse)


@dataclass(frozen=True, eq=False)
class HostState:
    """What a host's training made.

    Parameters
    ----------
    preparation : Preparation
        Fitted to the training rows.
    forms : tuple of str
        How ids were made alike.
    dims, makers : dict by guest
        Values per row of each guest's messages, and by which model they are made.
    classes, offset, spread
        The classes, None for numbers; the scale of numbers.
    model : HostModel or None
        What was trained; None before.
    ledger : Ledger or None
        With a budget: what all parties spent, as far as it is known.
    trained_overlap, seen, received : dict by guest
        Share of the rows that it has, figures of its message, and the size of the file that it came in.
    temperature : float
        What the model's logits are divided by, so that probabilities are calibrated.
    validation : Validation or None
        How good the model was on rows held back, beside the host alone; None with a budget or rounds, or where nobody asked.
    """

    preparation: Preparation
    forms: tuple[str, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    makers: Mapping[str, str] = field(default_factory=dict)
    classes: NDArray[Any] | None = None
    offset: float = 0.0
    spread: float = 1.0
    model: HostModel | None = None
    ledger: Ledger | None = None
    trained_overlap: Mapping[str, float] = field(default_factory=dict)
    seen: Mapping[str, Seen] = field(default_factory=dict)
    received: Mapping[str, int] = field(default_factory=dict)
    temperature: float = 1.0
    validation: Validation | None = None

    @classmethod
    def before_training(cls, settings: HostSettings) -> HostState:
        """Return the state of a host that was not trained."""
        purse = settings.purse
        public = public_of(purse, settings.public)
        return cls(
            Preparation(settings.name, settings.shape, settings.model.embeddings, public),
            settings.matching.forms,
            ledger=None if purse is None else replace(purse.ledger, entries=[]),
        )

    @property
    def n_outputs(self) -> int:
        """Outputs of the model: one per class, or one number."""
        return 1 if self.classes is None else len(self.classes)


class HostAttributes(ReadOnly):
    """What can be read of a host; none of it can be assigned."""

    __slots__ = ("_overlap", "_settings", "_state")
    _settings: HostSettings
    _state: HostState
    _overlap: Mapping[str, float] | None  # of the latest prediction since the training

    @property
    def settings(self) -> HostSettings:
        """What it was given."""
        return self._settings

    @property
    def state(self) -> HostState:
        """What its training made."""
        return self._state

    def adopt(self, state: HostState) -> None:
        """Take over what a training made, in place of all that was there before."""
        self._state, self._overlap = state, None

    @property
    def name(self) -> str:
        """The party's name."""
        return self._settings.name

    @property
    def task(self) -> str:
        """Either "classification" or "regression"."""
        return self._settings.task

    @property
    def run(self) -> str:
        """The training that messages belong to."""
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
    def prototype(self) -> HostModel:
        """An untrained model with the host's settings."""
        return self._settings.model

    @property
    def purse(self) -> Purse | None:
        """What it may spend of a privacy budget."""
        return self._settings.purse

    @property
    def plan(self) -> Plan | None:
        """The budget of all parties."""
        return self._settings.plan

    @property
    def labels(self) -> NDArray[Any] | None:
        """With a budget: the public classes, or the public bounds of numbers."""
        return self._settings.labels

    @property
    def reading(self) -> Reading | None:
        """How its tables are read from files."""
        return self._settings.reading

    @property
    def matching(self) -> Matching:
        """How the rows of messages are found, unless a call says otherwise."""
        return replace(self._settings.matching, forms=self._state.forms)

    @property
    def secret(self) -> bytes | None:
        """Of `matching`."""
        return self._settings.matching.secret

    @property
    def agreed(self) -> tuple[AgreedRows, ...]:
        """Of `matching`."""
        return self._settings.matching.agreed

    @property
    def max_memory(self) -> int | None:
        """Of `matching`."""
        return self._settings.matching.max_memory

    @property
    def forms(self) -> tuple[str, ...]:
        """How ids are made alike."""
        return self._state.forms

    @property
    def preparation(self) -> Preparation:
        """How its columns are prepared."""
        return self._state.preparation

    @property
    def dims(self) -> Mapping[str, int]:
        """Values per row of each guest."""
        return self._state.dims

    @property
    def makers(self) -> Mapping[str, str]:
        """By which model the values of each guest are made."""
        return self._state.makers

    @property
    def classes(self) -> NDArray[Any] | None:
        """The classes, in the order of the columns of `outputs`; None for numbers."""
        return self._state.classes

    @property
    def offset(self) -> float:
        """Of labels that are numbers."""
        return self._state.offset

    @property
    def spread(self) -> float:
        """Of labels that are numbers."""
        return self._state.spread

    @property
    def n_outputs(self) -> int:
        """Outputs of the model: one per class, or one number."""
        return self._state.n_outputs

    @property
    def model(self) -> HostModel | None:
        """What was trained; None before."""
        return self._state.model

    @property
    def ledger(self) -> Ledger | None:
        """With a budget: what all parties spent, as far as it is known."""
        return self._state.ledger

    @property
    def overlap(self) -> Mapping[str, float]:
        """Share of the host's rows that each guest has, in the latest training or prediction."""
        return self._state.trained_overlap if self._overlap is None else self._overlap

    @property
    def trained_overlap(self) -> Mapping[str, float]:
        """The same at training, which no prediction changes."""
        return self._state.trained_overlap

    @property
    def seen(self) -> Mapping[str, Seen]:
        """Figures of each guest's message at training; empty with a budget."""
        return self._state.seen

    @property
    def received(self) -> Mapping[str, int]:
        """Sizes of the files that the messages of the training came in, where they are known."""
        return self._state.received

    @property
    def temperature(self) -> float:
        """What the model's logits are divided by."""
        return self._state.temperature

    @property
    def validation(self) -> Validation | None:
        """How good the model was on rows held back, beside the host alone."""
        return self._state.validation
