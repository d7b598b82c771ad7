"""Guest and Host: their columns, their model, their random generator."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import nn

from fedonce import aggregation, learners, private
from fedonce.errors import FedOnceWarning, InputError, MessageError, parameter_error
from fedonce.learners import Auto
from fedonce.learners.base import WITHOUT_NOISE
from fedonce.message import BITS, Representation, Scale, is_name, row_digest
from fedonce.preparation import Preparation, Public, as_bounds
from fedonce.privacy import LocalNoise
from fedonce.privacy.budget import Plan, Purse
from fedonce.privacy.ledger import Ledger, from_text, to_text
from fedonce.randomness import party_generator
from fedonce.tables import Table, as_text, is_missing
from fedonce.training import Epoch, Rows, apply, pick_device

logger = logging.getLogger(__name__)

NOISE_LIMIT = 1e6


@dataclass(frozen=True)
class Tuned:
    """What rounds made of a guest: a network whose values are added to the learner's, or stand `alone`.

    No network: the learner is one itself, and was trained further.
    """

    network: nn.Module | None = None
    alone: bool = False


class Guest:
    """A party without labels: it learns a representation of its own columns and sends it, once.

    Parameters
    ----------
    name : str
        The party's name.
    learner : str or Learner
        How it learns: a name from `fedonce.learners.LEARNERS`, or an object.
    dim : int
        Number of values a row; lowered where the learner cannot give so many.
    bits : int
        Bits a value on the wire: 32, 16, 8 or 4.
    epochs : int, optional
        Overrides the learner's own.
    shape : tuple, optional
        (channels, rows, columns) where the columns are pixels.
    run : str
        The training that its messages belong to.
    noise : float
        Scale of Gaussian noise on every value that leaves the guest, after clipping each row to norm 1; 0: neither.
    purse : Purse, optional
        What it may spend of a privacy budget; its learner then learns privately. None: no budget, and no guarantee.
    public : Public, optional
        With a budget: bounds and categories of its columns.
    random_state : int
        Seed; together with the name it fixes all that the guest draws.
    device : str
        "cpu", "cuda" or "auto".
    """

    def __init__(
        self, name: str, learner: object = "auto", dim: int = 8, bits: int = 8, epochs: int | None = None,
        shape: tuple[int, ...] | None = None, run: str = "local", noise: float = 0.0, random_state: int = 0,
        device: str = "auto", purse: Purse | None = None, public: Public | None = None,
    ) -> None:  # fmt: skip
        _check_party("Guest", name, random_state)
        check_noise("Guest", "noise", noise)
        _check_purse("Guest", name, purse, public)
        if purse is not None and noise:
            wanted = "0 with a privacy budget: its centre and radius are figures of private rows that nobody has priced"
            raise parameter_error("Guest", "noise", wanted, noise)
        if bits not in BITS:
            raise parameter_error("Guest", "bits", f"one of {', '.join(map(str, BITS))}", bits)
        if not isinstance(dim, int | np.integer) or dim < 1:
            raise parameter_error("Guest", "dim", "a positive integer", dim)
        self.name, self.dim, self.bits, self.run = name, dim, bits, run
        self.learner = learners.make(learner, epochs, "Guest")
        self.purse = purse
        self.preparation = Preparation(name, shape, self.learner.embeddings, _public(purse, public))
        self.random_state, self.device = random_state, device
        self.noise = LocalNoise(float(noise)) if noise else None
        self.tuned: Tuned | None = None  # what more rounds have changed
        self.scale: Scale | None = None
        self.history: list[Epoch] = []

    def learn(self, table: Any, present: ArrayLike | None = None) -> Representation:
        """Learn from the guest's training rows, without labels, and return the message for the host.

        `present` says which of the agreed rows `table` holds; None: all of them, in the agreed order.
        """
        own = Table.of(table)
        if not own.n_rows:
            raise InputError(f"Party {self.name!r} has no rows to learn from.")
        mask = self._mask(own, present)
        rows = self.preparation.fit(own).transform(own)
        rng = party_generator(self.random_state, self.name)
        self.tuned = None
        if self.purse is not None:
            self.learner.fit_private(rows, self.dim, rng, pick_device(self.device), self.purse)
            values = self.values(rows)
            bounded = np.isfinite(self._bound)
            self.scale = (
                Scale.public(self._bound, values.shape[1], self.bits) if bounded else Scale.fit(values, self.bits)
            )
            return self.message(values, mask)
        self.history = self.learner.fit(rows, self.dim, rng, pick_device(self.device))
        values = self.values(rows)
        if self.noise is not None:
            self.noise.fit(values)
            values = self.noise.blur(values)
        self.scale = Scale.fit(values, self.bits)
        return self.message(values, mask)

    def represent(self, table: Any, present: ArrayLike | None = None) -> Representation:
        """Return the message for rows to be predicted, with what was learnt and the scale frozen then."""
        if self.scale is None:
            raise InputError(f"Party {self.name!r} has not learnt yet; call learn first.")
        own = Table.of(table)
        mask = self._mask(own, present)
        values = self.values(self.preparation.transform(own))
        return self.message(values if self.noise is None else self.noise.blur(values), mask)

    def _mask(self, own: Table, present: ArrayLike | None) -> NDArray[np.bool_] | None:
        """Check that `present` is a boolean an agreed row, and that the table holds the marked rows."""
        if present is None:
            return None
        mask = np.asarray(present)
        if mask.dtype != bool or mask.ndim != 1 or int(mask.sum()) != own.n_rows:
            raise InputError(
                f"Party {self.name!r} has a table of {own.n_rows} rows, and 'present' marks {int(mask.sum())}; it must be a "
                "boolean for each agreed row, and the table must hold the marked rows and no others."
            )
        return mask

    def values(self, rows: Rows) -> Rows:
        """Let the learner, which may be the user's own, transform prepared rows, and check what it gives."""
        device = pick_device(self.device)
        if self.tuned is not None and self.tuned.alone and self.tuned.network is not None:
            return apply(self.tuned.network, rows, device)
        values = np.asarray(self.learner.transform(rows, device), dtype=np.float32)
        if values.ndim != 2 or len(values) != len(rows) or not 1 <= values.shape[1] <= self.dim:
            raise InputError(
                f"The learner {self.learner.name!r} of party {self.name!r} must give {len(rows)} rows of 1 to {self.dim} values. "
                f"Got an array of shape {values.shape}."
            )
        if self.tuned is not None and self.tuned.network is not None:
            values = values + apply(self.tuned.network, rows, device)
        return values if self.purse is None else np.clip(values, -self._bound, self._bound)

    @property
    def _bound(self) -> float:
        """Within which values lie, known before any row is seen; infinite where the learner is not a private one."""
        exact = self.purse is not None and WITHOUT_NOISE in self.purse.used
        return np.inf if exact else self.learner.bound

    @property
    def learner_name(self) -> str:
        """How its values are made, for messages."""
        learner = self.learner.chosen() if isinstance(self.learner, Auto) and self.learner.chosen_ else self.learner
        if self.tuned is None:
            return learner.name
        return "rounds" if self.tuned.alone else f"{learner.name}, tuned"

    def message(self, values: Rows, present: NDArray[np.bool_] | None) -> Representation:
        """Put values into a message, rounded to the guest's bits on the scale frozen when it learnt."""
        assert self.scale is not None
        lowered = values.shape[1] < self.dim
        return Representation.encode(
            values, bits=self.bits, scale=self.scale, party=self.name, run=self.run, present=present,
            rows=row_digest(len(values) if present is None else len(present)), learner=self.learner_name,
            noise=0.0 if self.noise is None else self.noise.scale,
            spent=None if self.purse is None else to_text(self.purse.spent),
            note=f"dim lowered from {self.dim} to {values.shape[1]}" if lowered else "",
        )  # fmt: skip


class Host:
    """The party with the labels: it learns a model on its own columns and the guests' representations.

    Parameters
    ----------
    name : str
        The party's name.
    task : str
        "classification" or "regression".
    recipe : str or Recipe
        "default", "paper", or one's own.
    epochs : int, optional
        Overrides the recipe's own.
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

    Attributes
    ----------
    classes : array
        The classes after training, in the order of the columns of `outputs`; None for regression.
    ledger : Ledger or None
        With a budget: what all parties spent, as far as it is known.
    """

    def __init__(
        self, name: str, task: str = "classification", recipe: object = "default", epochs: int | None = None,
        shape: tuple[int, ...] | None = None, random_state: int = 0, device: str = "auto", run: str = "local",
        purse: Purse | None = None, public: Public | None = None, plan: Plan | None = None, labels: Any = None,
        allow_large_delta: bool = False,
    ) -> None:  # fmt: skip
        _check_party("Host", name, random_state)
        if task not in ("classification", "regression"):
            raise parameter_error("Host", "task", "'classification' or 'regression'", task)
        self.name, self.task, self.recipe, self.epochs, self.run = name, task, recipe, epochs, run
        embeddings = recipe.embeddings if isinstance(recipe, aggregation.Recipe) else ()
        _check_purse("Host", name, purse, public)
        if plan is not None and purse is None:
            raise parameter_error("Host", "purse", "given with a plan: without one nothing would be private", purse)
        self.purse, self.plan, self.allow_large_delta = purse, plan, allow_large_delta
        self.preparation = Preparation(name, shape, embeddings, _public(purse, public))
        self.labels = None if purse is None else check_labels(labels, task)
        self.ledger: Ledger | None = (
            None if purse is None else Ledger(purse.ledger.delta, purse.ledger.accountant, purse.ledger.division)
        )
        self.random_state, self.device = random_state, device
        self.dims: dict[str, int] = {}
        self.makers: dict[str, str] = {}
        self.trained_with: aggregation.Recipe | None = None
        self.classes: NDArray[Any] | None = None
        self.model: nn.Module | None = None

    def aggregate(self, table: Any, label: Any, messages: Sequence[Representation]) -> list[Epoch]:
        """Train the model on the host's rows and labels and on the messages that arrived; return its history."""
        own = Table.of(table)
        target = self.target(label, own.n_rows)
        _check_decoded(messages)
        if any(message.party == self.name for message in messages):
            raise MessageError(f"The message of party {self.name!r} is refused: that is the host's own name.")
        self.makers = {message.party: message.maker for message in messages}
        self.dims = {message.party: message.dim for message in messages}
        values, present = arrange(messages, self.dims, own.n_rows, self.run)
        if self.ledger is not None and self.ledger.delta > 1 / own.n_rows and not self.allow_large_delta:
            wanted = f"at most 1 / rows ({1 / own.n_rows:.3g}), or allow_large_delta=True: a larger one lets a whole row slip out"
            raise parameter_error("Host", "delta", wanted, self.ledger.delta)
        self._compose(messages)
        rows = self.preparation.fit(own).transform(own)
        recipe = aggregation.find_recipe(
            self.recipe, self.epochs, rows.shape[1:], "Host", self.task if self.purse else None
        )
        self.trained_with = recipe
        examples = aggregation.Examples(rows, values, present, target)
        rng, device = party_generator(self.random_state, self.name), pick_device(self.device)
        dims, history = list(self.dims.values()), list[Epoch]()
        if self.purse is not None and self.ledger is not None:
            try:
                self.model = private.fit(examples, dims, self.n_outputs, recipe, rng, device, self.purse)
            finally:  # what was spent stays spent, whatever happened
                self.ledger.include(self.purse.spent)
        else:
            self.model, history = aggregation.fit(examples, dims, self.n_outputs, recipe, rng, device)
        logger.info("host %s: trained on %d rows and %d messages", self.name, own.n_rows, len(messages))
        return history

    def _compose(self, messages: Sequence[Representation]) -> None:
        """Write down what guests say that they spent; refuse what says nothing, or is beyond the plan, before training."""
        if self.ledger is None or self.purse is None:
            return
        book = Ledger(self.ledger.delta, self.ledger.accountant, self.ledger.division)
        for message in messages:
            if message.spent is None:
                raise MessageError(
                    f"The message of party {message.party!r} is refused: it was learnt without a privacy budget, and this "
                    "training has one. Let the guest learn with the plan."
                )
            book.include(from_text(message.spent, message.party))
        self.ledger.entries = list(book.entries)
        if self.plan is not None:
            book.include(self.purse.planned)
            self.plan.check(book)

    @property
    def n_outputs(self) -> int:
        """Outputs of the model: one a class, or one number."""
        return 1 if self.classes is None else len(self.classes)

    def check_label(self, label: Any, n_rows: int) -> None:
        """Raise where labels cannot be learnt from, before anybody spends time on it."""
        values = np.asarray(label)
        if values.shape != (n_rows,) or not n_rows:
            raise InputError(
                f"The host {self.name!r} has {n_rows} rows and labels of shape {values.shape}; there must be one label a row. "
                "(Found input variables with inconsistent numbers of samples.)"
            )
        if values.dtype == object:
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
                    f"The labels y have the class {unknown[0]!r}, which is not among those given: {self.labels.tolist()}."
                )
            return
        if self.task == "regression" and self.labels is None:
            with np.errstate(over="ignore", invalid="ignore"):
                if not np.isfinite(values.astype(np.float64).var()):
                    raise InputError("The labels y are too large to scale; divide them by a constant.")
            return
        try:
            classes = np.unique(values)
        except TypeError:
            raise InputError("The labels y mix text and numbers; make them all one or the other.") from None
        if len(classes) < 2:
            raise InputError(f"The labels must have at least two classes. Got one class only: {classes.tolist()[0]!r}.")

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
        """Return a class or a number a row."""
        outputs = self.outputs(table, messages)
        return outputs if self.classes is None else self.classes[outputs.argmax(axis=1)]

    def outputs(self, table: Any, messages: Sequence[Representation]) -> NDArray[np.float64]:
        """Return a probability a class, or a number, a row; a guest without a message is zeros."""
        if self.model is None:
            raise InputError(f"The host {self.name!r} has not been trained yet; call aggregate first.")
        own = Table.of(table)
        _check_decoded(messages)
        values, present = arrange(messages, self.dims, own.n_rows, self.run)
        for message in messages:
            if message.maker != self.makers[message.party]:
                raise MessageError(
                    f"The message of party {message.party!r} is refused: its learner, bits or scale are not those of the "
                    "training; the guest has learnt anew. Predict with the guest's old model, or train again."
                )
        rows = self.preparation.transform(own)
        raw = aggregation.outputs(self.model, rows, values, present, pick_device(self.device)).astype(np.float64)
        if self.classes is None:
            inside = raw[:, 0] if self.labels is None else np.clip(raw[:, 0], -1, 1)
            return inside * self.spread + self.offset
        odds = np.exp(raw - raw.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def _public(purse: Purse | None, public: Public | None) -> Public | None:
    """Return what is public of a party's columns; without a budget, nothing is needed."""
    return None if purse is None else public or Public()


def _check_purse(owner: str, name: str, purse: Purse | None, public: Public | None) -> None:
    """Raise where what belongs to a privacy budget does not fit together."""
    if purse is None and public is not None:
        raise parameter_error(owner, "purse", "given with 'public': without one nothing would be private", purse)
    if purse is not None and purse.party != name:
        raise parameter_error(owner, "purse", f"that of party {name!r}", purse.party)


def check_labels(labels: Any, task: str) -> NDArray[Any]:
    """Return the public classes in order, or the public bounds of numbers; raise where they are missing."""
    if task == "regression":
        pair = as_bounds(labels)
        if pair is None:
            raise InputError(
                "With a privacy budget the bounds of the labels must be given, target_bounds=(low, high) (of a Host: labels), "
                f"low below high. Got {labels!r}."
            )
        return np.array(pair)
    if labels is None or isinstance(labels, str) or np.ndim(labels) != 1 or len(np.unique(np.asarray(labels))) < 2:
        raise InputError(
            "With a privacy budget the classes must be given, two or more: target_bounds=[...] (of a Host: labels). "
            f"Got {labels!r}."
        )
    return np.unique(np.asarray(labels))


def _check_party(owner: str, name: object, random_state: object) -> None:
    if not is_name(name):
        raise parameter_error(owner, "name", "printable text of 1 to 100 bytes", name)
    if not isinstance(random_state, int | np.integer) or random_state < 0:
        raise parameter_error(owner, "random_state", "an integer of at least 0", random_state)


def _check_decoded(messages: object) -> None:
    if not isinstance(messages, list | tuple) or not all(isinstance(message, Representation) for message in messages):
        raise parameter_error(
            "Host", "messages", "a list of Representation (read bytes with from_bytes)", type(messages).__name__
        )


def check_noise(owner: str, parameter: str, noise: object) -> None:
    """Raise unless `noise` is a scale that noise can have."""
    if isinstance(noise, bool) or not isinstance(noise, int | float | np.number) or not 0 <= noise <= NOISE_LIMIT:
        raise parameter_error(owner, parameter, f"a number from 0 (no noise) to {NOISE_LIMIT:g}", noise)


def arrange(
    messages: Sequence[Representation], dims: Mapping[str, int], n_rows: int, run: str, rows: str | None = None
) -> tuple[Rows, Rows]:
    """Lay the guests' values side by side, zeros where a guest or a row is absent, and mark who is present.

    `rows` is the digest of the rows that the messages must be about; None: that of the host's rows in their order.
    """
    by_party = {message.party: message for message in messages}
    if len(by_party) < len(messages):
        names = [message.party for message in messages]
        twice = next(name for name in names if names.count(name) > 1)
        raise MessageError(f"The messages of party {twice!r} are refused: there are two for the same rows; keep one.")
    values = np.zeros((n_rows, sum(dims.values())), np.float32)
    present = np.zeros((n_rows, len(dims)), np.float32)
    for message in messages:
        _check_belongs(message, dims, n_rows, run, row_digest(n_rows) if rows is None else rows)
    start = 0
    for j, (party, dim) in enumerate(dims.items()):
        if party in by_party:
            message = by_party[party]
            held = slice(None) if message.present is None else message.present
            values[held, start : start + dim] = message.values
            present[held, j] = 1
        start += dim
    return values, present


def _check_belongs(message: Representation, dims: Mapping[str, int], n_rows: int, run: str, rows: str) -> None:
    refused = f"The message of party {message.party!r} is refused: "
    if message.party not in dims:
        raise MessageError(
            f"{refused}the model was trained without this party ({', '.join(dims) or 'no guest'}); train again with it."
        )
    if message.ids is not None:
        raise MessageError(f"{refused}it names rows by ids, and here rows are known by an agreed order alone.")
    if message.run != run:
        raise MessageError(f"{refused}it belongs to run {message.run!r}, this is run {run!r}.")
    if message.rows != rows or message.n_rows != n_rows:
        raise MessageError(f"{refused}it is about {message.n_rows} rows, or others than the host's {n_rows}.")
    if message.dim != dims[message.party]:
        raise MessageError(
            f"{refused}it has {message.dim} values a row, the model was trained with {dims[message.party]}."
        )
