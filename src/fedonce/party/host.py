"""Host: the party with the labels."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedonce import hostmodels
from fedonce.data.preparation import Preparation, Public, as_bounds
from fedonce.data.schema import Reading
from fedonce.data.table import TOO_LARGE, Table, as_text, is_missing, is_too_large
from fedonce.errors import FedOnceWarning, InputError, MessageError, parameter_error, quoted, shown
from fedonce.hostmodels import Examples, HostModel
from fedonce.messages.names import MUST_BE, is_party_name, why_not
from fedonce.messages.representation import Representation
from fedonce.party.checks import check_party, check_purse, public_of
from fedonce.party.drift import Seen
from fedonce.party.saving import host_from, keep_host
from fedonce.privacy.budget import Plan, Purse
from fedonce.privacy.ledger import Entry, Ledger, from_text
from fedonce.rows.matching import HostRows
from fedonce.system import sizes
from fedonce.training.loop import Rows, pick_device
from fedonce.training.randomness import party_generator
from fedonce.training.settings import Epoch

if TYPE_CHECKING:
    from fedonce.rows.alignment import AgreedRows

logger = logging.getLogger(__name__)


class Host:
    """The party with the labels: it learns a model on its own columns and the guests' representations.

    Parameters
    ----------
    name : str
        The party's name.
    task : str
        "classification" or "regression".
    recipe : str or Recipe
        Of the model "network": "default", "paper", or one's own.
    epochs : int, optional
        Overrides the model's own.
    shape, random_state, device, run
        As for `Guest`; messages of another run are refused.
    purse, public
        As for `Guest`. With a budget, every message must say what its guest spent, and the plan says how long the host trains.
    plan : Plan, optional
        The budget of all parties; messages whose sum exceeds it are refused.
    labels : list or (low, high), optional
        With a budget: the classes, or between which numbers the labels lie, by public knowledge.
    allow_large_delta : bool
        Whether delta may be above 1 / rows.
    secret, forms
        Where rows have ids: the secret that guests hash them with, and how ids are made alike (`fedonce.rows.ids`).
    agreed : sequence of AgreedRows
        What alignments found: the order of rows in the messages of those guests.
    max_memory : int, optional
        Bytes that the guests' values may take, of all rows and guests together; None: a quarter of the machine's memory.
    model : str, HostModel or estimator
        How it learns: a name from `fedonce.hostmodels.HOST_MODELS`, an object, or a classifier or regressor of scikit-learn.

    Attributes
    ----------
    model : HostModel or None
        What was trained; None before.
    classes : array
        The classes after training, in the order of the columns of `outputs`; None for regression.
    ledger : Ledger or None
        With a budget: what all parties spent, as far as it is known.
    overlap : dict
        Share of the host's rows that each guest has, in the latest training or prediction.
    trained_overlap : dict
        The same at training, which no prediction changes.
    seen : dict
        Figures of each guest's message at training, to compare those for prediction with (`party.drift`). Empty with a budget:
        such figures of rows are not private.
    received : dict
        Sizes of the files that the messages of the training came in, where they are known; kept with the model.
    """

    def __init__(
        self,
        name: str,
        task: str = "classification",
        recipe: object = "default",
        epochs: int | None = None,
        shape: tuple[int, ...] | None = None,
        random_state: int = 0,
        device: str = "auto",
        run: str = "local",
        purse: Purse | None = None,
        public: Public | None = None,
        plan: Plan | None = None,
        labels: Any = None,
        allow_large_delta: bool = False,
        secret: bytes | None = None,
        forms: Sequence[str] = (),
        agreed: Sequence[AgreedRows] = (),
        max_memory: int | None = None,
        model: object = "network",
    ) -> None:
        check_party("Host", name, random_state, run)
        if task not in ("classification", "regression"):
            raise parameter_error("Host", "task", "'classification' or 'regression'", task)
        self.name, self.task, self.run = name, task, run
        self.prototype = _able(hostmodels.make(model, recipe, epochs, "Host"), task)
        check_purse("Host", name, purse, public)
        if plan is not None and purse is None:
            raise parameter_error("Host", "purse", "given with a plan: without one nothing would be private", purse)
        self.purse, self.plan, self.allow_large_delta = purse, plan, allow_large_delta
        self.preparation = Preparation(name, shape, self.prototype.embeddings, public_of(purse, public))
        self.labels = None if purse is None else check_labels(labels, task)
        self.ledger: Ledger | None = (
            None if purse is None else Ledger(purse.ledger.delta, purse.ledger.accountant, purse.ledger.division)
        )
        self.random_state, self.device = random_state, device
        self.secret, self.forms, self.agreed = secret, tuple(forms), tuple(agreed)
        self.max_memory = max_memory
        self.overlap: dict[str, float] = {}
        self.trained_overlap: dict[str, float] = {}
        self.seen: dict[str, Seen] = {}
        self.received: dict[str, int] = {}
        self.dims: dict[str, int] = {}
        self.makers: dict[str, str] = {}
        self.classes: NDArray[Any] | None = None
        self.model: HostModel | None = None
        self.offset, self.spread = 0.0, 1.0  # of labels that are numbers
        self.reading: Reading | None = None  # how its tables are read from files

    def save(self, folder: str | Path, messages: Mapping[str, bytes] | None = None) -> Path:
        """Write the model to a folder, with the messages that it was trained with, if given: to train again with more guests."""
        return keep_host(self, folder, messages or {})

    @classmethod
    def load(cls, folder: str | Path) -> Host:
        """Read a host from the folder that `save` wrote."""
        return host_from(folder, Host)

    def aggregate(self, table: Any, label: Any, messages: Sequence[Representation]) -> list[Epoch]:
        """Train the model on the host's rows and labels and on the messages that arrived; return its history."""
        own = Table.of(table)
        target = self.target(label, own.n_rows)
        _check_decoded(messages)
        self._check_names(messages)
        self.makers = {message.party: message.maker for message in messages}
        self.dims = {message.party: message.dim for message in messages}
        values, present = self.arrange(own, messages)
        for party, share in self.overlap.items():
            if not share:
                raise MessageError(
                    f"The message of party {party!r} is refused: none of its rows is one of the host's {own.n_rows}. Look at the "
                    "columns of ids and how they are written (--normalise-ids); or leave this guest out."
                )
        if self.ledger is not None and self.ledger.delta > 1 / own.n_rows and not self.allow_large_delta:
            wanted = f"at most 1 / rows ({1 / own.n_rows:.3g}), or allow_large_delta=True: a larger one lets a whole row slip out"
            raise parameter_error("Host", "delta", wanted, self.ledger.delta)
        self._compose(messages)
        self.trained_overlap = dict(self.overlap)
        private_run = self.ledger is not None
        self.seen = {each.party: Seen.of(each) for each in messages if not private_run and each.spent is None}
        rows = self.preparation.fit(own).transform(own)
        examples, dims = Examples(rows, values, present, target), list(self.dims.values())
        rng, device = party_generator(self.random_state, self.name), pick_device(self.device)
        model = self.new_model()
        try:
            history = model.train(examples, dims, self.n_outputs, rng, device, self.purse)
        finally:  # what was spent stays spent, whatever happened
            self._include_spent()
        self.model = model
        logger.info("host %s: trained on %d rows and %d messages", self.name, own.n_rows, len(messages))
        return history

    def new_model(self) -> HostModel:
        """Return an untrained model with the host's settings."""
        return copy.deepcopy(self.prototype)

    def _include_spent(self) -> None:
        if self.purse is not None and self.ledger is not None:
            self.ledger.include(self.purse.spent)

    def _check_names(self, messages: Sequence[Representation]) -> None:
        """Refuse a guest under the host's name, or, unless the model has it already, under one that only looks plain."""
        for name in (message.party for message in messages):
            if name == self.name:
                raise MessageError(f"The message of party {name!r} is refused: that is the host's own name.")
            if name not in self.dims and not is_party_name(name):
                raise MessageError(f"A message is refused: its party's name must be {MUST_BE}. Got {why_not(name)}.")

    def arrange(self, own: Table, messages: Sequence[Representation]) -> tuple[Rows, Rows]:
        """Lay the guests' values beside the host's rows, and note how many of those each guest has."""
        check_memory(own.n_rows, sum(self.dims.values()), self.max_memory)
        rows = HostRows(own.n_rows, own.ids, self.secret, self.forms, self.agreed)
        values, present = arrange(messages, self.dims, rows, self.run)
        shares = present.mean(axis=0, dtype=np.float64) if own.n_rows else np.zeros(len(self.dims))
        self.overlap = {party: float(share) for party, share in zip(self.dims, shares, strict=True)}
        return values, present

    def _compose(self, messages: Sequence[Representation]) -> None:
        """Write down what guests say that they spent; refuse what says nothing, or is beyond the plan, before training."""
        if self.ledger is None or self.purse is None:
            return
        book = Ledger(self.ledger.delta, self.ledger.accountant, self.ledger.division)
        for message in messages:
            book.include(self.spent_of(message))
        self.ledger.entries = list(book.entries)
        if self.plan is not None:
            book.include(self.purse.planned)
            self.plan.check(book)

    def spent_of(self, message: Representation) -> list[Entry]:
        """Return what a guest says that it spent; raise where it says nothing, or other things than the plan has for it."""
        if message.spent is None:
            raise MessageError(
                f"The message of party {message.party!r} is refused: it was learnt without a privacy budget, and this "
                "training has one. Let the guest learn with the plan."
            )
        spent = from_text(message.spent, message.party)
        if self.plan is not None:  # compared before anything is priced
            self.plan.check_spent(message.party, spent)
        return spent

    @property
    def n_outputs(self) -> int:
        """Outputs of the model: one per class, or one number."""
        return 1 if self.classes is None else len(self.classes)

    def check_label(self, label: Any, n_rows: int) -> None:
        """Raise where labels cannot be learnt from, before anybody spends time on it."""
        values = np.asarray(label)
        if values.shape != (n_rows,) or not n_rows:
            raise InputError(
                f"The host {self.name!r} has {n_rows} rows and labels of shape {values.shape}; there must be one label per row. "
                "(Found input variables with inconsistent numbers of samples.)"
            )
        if values.dtype == object:
            _check_label_cells(values)
            bad = np.array([is_missing(value) for value in values])
        else:
            bad = ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(n_rows, bool)
        if bad.any():
            row = int(bad.argmax())
            found = values.tolist()[row]
            raise InputError(
                f"The labels y must not contain NaN or infinity. Got {found!r} in row {row}; drop such rows."
            )
        if self.labels is not None and self.task == "classification":
            unknown = sorted({as_text(value) for value in values.tolist()} - {as_text(v) for v in self.labels.tolist()})
            if unknown:
                raise InputError(
                    f"The labels y have the class {quoted(unknown[0])}, which is not among those given: "
                    f"{shown(self.labels.tolist())}."
                )
            return
        if self.task == "regression" and self.labels is None:
            with np.errstate(over="ignore", invalid="ignore"):
                if not np.isfinite(_as_numbers(values).var()):
                    raise InputError("The labels y are too large to scale; divide them by a constant.")
            return
        try:
            classes = np.unique(values)
        except TypeError:
            raise InputError("The labels y mix text and numbers; make them all one or the other.") from None
        if len(classes) < 2:
            raise InputError(
                f"The labels must have at least two classes. Got one class only: {shown(classes.tolist()[0])}."
            )

    def target(self, label: Any, n_rows: int) -> NDArray[Any]:
        """Return classes as their positions, numbers standardised."""
        self.check_label(label, n_rows)
        if self.labels is not None:
            return self._public_target(label)
        if self.task == "classification":
            self.classes, codes = np.unique(np.asarray(label), return_inverse=True)
            return codes.astype(np.int64)
        numbers = np.asarray(label).astype(np.float64)
        spread = float(numbers.std())
        self.offset, self.spread = float(numbers.mean()), spread if spread > 0 else 1.0
        return (numbers - self.offset) / self.spread

    def _public_target(self, label: Any) -> NDArray[Any]:
        """Return classes as their positions among the public ones, numbers between -1 and 1 by their public bounds."""
        assert self.labels is not None
        if self.task == "classification":
            self.classes = self.labels
            position = {as_text(value): code for code, value in enumerate(self.labels.tolist())}
            return np.array([position[as_text(value)] for value in np.asarray(label).tolist()], dtype=np.int64)
        numbers = np.asarray(label).astype(np.float64)
        low, high = self.labels
        if ((numbers < low) | (numbers > high)).any():
            warnings.warn(
                f"The host {self.name!r} has labels beyond the bounds given; they were set to the bounds.",
                FedOnceWarning,
                stacklevel=2,
            )
        self.offset, self.spread = float(low + high) / 2, float(high - low) / 2
        scaled: NDArray[np.float64] = (np.clip(numbers, low, high) - self.offset) / self.spread
        return scaled

    def predict(self, table: Any, messages: Sequence[Representation]) -> NDArray[Any]:
        """Return a class or a number per row."""
        outputs = self.outputs(table, messages)
        return outputs if self.classes is None else self.classes[outputs.argmax(axis=1)]

    def outputs(self, table: Any, messages: Sequence[Representation]) -> NDArray[np.float64]:
        """Return a probability per class, or a number, a row; a guest without a message is zeros."""
        return self.answers(table, messages)[0]

    def answers(
        self, table: Any, messages: Sequence[Representation]
    ) -> tuple[NDArray[np.float64], dict[str, NDArray[np.bool_]]]:
        """Return the outputs, and by guest of the training which rows it has."""
        if self.model is None:
            raise InputError(f"The host {self.name!r} has not been trained yet; call aggregate first.")
        own = Table.of(table)
        _check_decoded(messages)
        values, present = self.arrange(own, messages)
        for message in messages:
            if message.maker != self.makers.get(message.party):
                raise MessageError(
                    f"The message of party {message.party!r} is refused: its learner, bits or scale are not those of the "
                    "training; the guest has learnt anew. Predict with the guest's old model, or train again."
                )
        outputs = self.outputs_of(self.preparation.transform(own), values, present)
        return outputs, {guest: present[:, j] > 0 for j, guest in enumerate(self.dims)}

    def outputs_of(self, rows: Rows, values: Rows, present: Rows) -> NDArray[np.float64]:
        """Return the outputs for prepared rows, the guests' values beside them and marks of who is present."""
        assert self.model is not None
        if not present.all():
            self.model.must("absent", "cannot predict rows that a guest does not have")
        outputs = self.model.outputs(rows, values, present, pick_device(self.device))
        if outputs.shape != (len(rows), self.n_outputs):
            raise InputError(
                f"The host model {self.model.name!r} gave outputs of shape {outputs.shape} for {len(rows)} rows; its outputs "
                f"must be {self.n_outputs} per row."
            )
        return self.finish(outputs)

    def finish(self, outputs: Rows) -> NDArray[np.float64]:
        """Turn what the model gives into probabilities, or into numbers on the scale of the labels."""
        raw = outputs.astype(np.float64)
        if self.classes is None:
            inside = raw[:, 0] if self.labels is None else np.clip(raw[:, 0], -1, 1)
            return inside * self.spread + self.offset
        odds = np.exp(raw - raw.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def _able(model: HostModel, task: str) -> HostModel:
    """Return a model that can do a task; raise where it cannot."""
    fact = "classes" if task == "classification" else "numbers"
    model.must(fact, f"predicts no {fact}")
    return model


def check_labels(labels: Any, task: str) -> NDArray[Any]:
    """Return the public classes in order, or the public bounds of numbers; raise where they are missing."""
    if task == "regression":
        pair = as_bounds(labels)
        if pair is None:
            raise InputError(
                "With a privacy budget the bounds of the labels must be given, target_bounds=(low, high) (of a Host: labels), "
                f"low below high. Got {shown(labels)}."
            )
        return np.array(pair)
    if labels is None or isinstance(labels, str) or np.ndim(labels) != 1 or len(np.unique(np.asarray(labels))) < 2:
        raise InputError(
            "With a privacy budget the classes must be given, two or more: target_bounds=[...] (of a Host: labels). "
            f"Got {shown(labels)}."
        )
    return np.unique(np.asarray(labels))


def _check_label_cells(values: NDArray[Any]) -> None:
    """Refuse labels of which one is many: no error may show them, and nothing could save them."""
    for row, value in enumerate(values):
        if isinstance(value, Iterable) and not isinstance(value, str | bytes):
            kind = type(value).__name__
            raise InputError(f"The labels y must be single values, one per row. Got a {kind} in row {row}.")
        if is_too_large(value):
            raise InputError(
                f"The labels y have {TOO_LARGE}, in row {row}; divide them by a constant, or make them text."
            )


def _as_numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError("The labels y must be numbers for regression; for classes, use classification.") from None


def check_memory(n_rows: int, n_values: int, limit: int | None = None) -> None:
    """Raise where the guests' values would take more memory than the host allows, before any of it is taken."""
    wanted, most = n_rows * n_values * np.dtype(np.float32).itemsize, sizes.memory_limit() if limit is None else limit
    if wanted > most:
        whose = "a quarter of this machine's memory" if limit is None else "max_memory"
        raise InputError(
            f"The guests' values would take {sizes.in_words(wanted)} ({n_rows:,} rows of {n_values:,} values), and the limit is "
            f"{sizes.in_words(most)} ({whose}). Let guests send fewer values per row (dim), take fewer guests or fewer rows, or "
            "raise the limit (max_memory; --max-memory)."
        )


def _check_decoded(messages: object) -> None:
    if not isinstance(messages, list | tuple) or not all(isinstance(message, Representation) for message in messages):
        raise parameter_error(
            "Host", "messages", "a list of Representation (read bytes with from_bytes)", type(messages).__name__
        )


def arrange(messages: Sequence[Representation], dims: Mapping[str, int], rows: HostRows, run: str) -> tuple[Rows, Rows]:
    """Lay the guests' values side by side, zeros where a guest or a row is absent, and mark who is present."""
    by_party = {message.party: message for message in messages}
    if len(by_party) < len(messages):
        names = [message.party for message in messages]
        twice = next(name for name in names if names.count(name) > 1)
        raise MessageError(f"The messages of party {twice!r} are refused: there are two for the same rows; keep one.")
    values = np.zeros((rows.n_rows, sum(dims.values())), np.float32)
    present = np.zeros((rows.n_rows, len(dims)), np.float32)
    for message in messages:
        _check_belongs(message, dims, run)
    start = 0
    for j, (party, dim) in enumerate(dims.items()):
        if party in by_party:
            held, taken = rows.match(by_party[party])
            values[held, start : start + dim] = by_party[party].values[taken]
            present[held, j] = 1
        start += dim
    return values, present


def _check_belongs(message: Representation, dims: Mapping[str, int], run: str) -> None:
    refused = f"The message of party {message.party!r} is refused: "
    if message.party not in dims:
        raise MessageError(
            f"{refused}the model was trained without this party ({', '.join(dims) or 'no guest'}); train again with it."
        )
    if message.run != run:
        raise MessageError(f"{refused}it belongs to run {message.run!r}, this is run {run!r}.")
    if message.dim != dims[message.party]:
        raise MessageError(
            f"{refused}it has {message.dim} values per row, the model was trained with {dims[message.party]}."
        )
