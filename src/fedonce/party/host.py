"""Host: the party with the labels."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedonce import hostmodels
from fedonce.data.preparation import Public
from fedonce.data.schema import Reading
from fedonce.data.table import Table
from fedonce.errors import InputError, MessageError, parameter_error
from fedonce.hostmodels import Examples, HostModel
from fedonce.messages.names import MUST_BE, is_party_name, why_not
from fedonce.messages.representation import Representation
from fedonce.party import saving, saving_host, storage
from fedonce.party.arranging import arrange, check_decoded, check_memory, check_overlap
from fedonce.party.drift import Seen
from fedonce.party.host_state import HostAttributes, HostSettings, HostState
from fedonce.party.judging import check_weights, judged
from fedonce.party.labels import Labels, Targets, check_labels
from fedonce.privacy.budget import Plan, Purse
from fedonce.privacy.ledger import Entry, from_text
from fedonce.rows.matching import Matching
from fedonce.training.loop import Rows, pick_device
from fedonce.training.randomness import party_generator
from fedonce.training.settings import Epoch

if TYPE_CHECKING:
    from fedonce.rows.alignment import AgreedRows

logger = logging.getLogger(__name__)


class Host(HostAttributes):
    """The party with the labels: it learns a model on its own columns and the guests' representations.

    Parameters
    ----------
    name : str
        The party's name.
    task : str
        "classification" or "regression".
    recipe, epochs : optional
        How the model "network" is trained ("default", "large" for images, "paper" or a `Recipe`), and epochs instead of its own.
    shape, random_state, device, run, purse, public
        As for `Guest`; messages of another run are refused. With a budget, the plan says how long the host trains.
    plan : Plan, optional
        The budget of all parties; messages that do not say what was spent, or whose sum exceeds it, are refused.
    labels : list or (low, high), optional
        With a budget: the classes, or between which numbers the labels lie, by public knowledge.
    allow_large_delta : bool
        Whether delta may be above 1 / rows.
    secret, forms, agreed, max_memory
        How the rows of messages are found, unless a call says otherwise: the fields of `fedonce.rows.matching.Matching`.
    model : str, HostModel or estimator
        How it learns: a name from `fedonce.hostmodels.HOST_MODELS`, an object, or a classifier or regressor of scikit-learn.
    reading : Reading, optional
        How its tables are read from files; kept with the model.
    known : sequence of str
        Guests of a model that is trained again, which may keep names that a new guest could not have.
    validate, calibrate : bool
        Whether rows held back score the model and the host alone, and calibrate probabilities ("auto": where that helps).

    Nothing of it can be assigned: `settings` is what it was given, `state` what its training made; attributes show both.

    >>> from fedonce import Guest
    >>> rows, bank = np.random.default_rng(0).normal(size=(60, 6)), Host("bank", model="linear")
    >>> history = bank.aggregate(rows[:, :4], rows[:, 5] > 0, [Guest("shop", dim=2).learn(rows[:, 4:])])
    >>> bank.trained_overlap
    {'shop': 1.0}
    """

    __slots__ = ()

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
        model: object = "auto",
        reading: Reading | None = None,
        known: Sequence[str] = (),
        validate: bool = True,
        calibrate: bool | str = "auto",
    ) -> None:
        self._settings = HostSettings(
            name,
            hostmodels.make(model, recipe, epochs, "Host"),
            task,
            shape,
            random_state,
            device,
            run,
            purse,
            public,
            plan,
            None if purse is None else check_labels(labels, task),
            allow_large_delta,
            Matching(secret, tuple(forms), tuple(agreed), max_memory),
            reading,
            tuple(known),
            validate,
            calibrate,
        )
        self.adopt(HostState.before_training(self._settings))

    @classmethod
    def from_settings(cls, settings: HostSettings, state: HostState | None = None) -> Host:
        """Return a host with what it was given and what its training made; None: it was not trained."""
        host = cls.__new__(cls)
        host._settings = settings
        host.adopt(HostState.before_training(settings) if state is None else state)
        return host

    def save(
        self,
        folder: str | Path,
        messages: Mapping[str, bytes] | None = None,
        received: Mapping[str, int] | None = None,
    ) -> Path:
        """Write the model to a folder, with the messages that it was trained with, if given: to train again with more guests.

        `received` are the sizes of the files that the messages came in, where they are known.
        """
        state = self.state if received is None else replace(self.state, received=received)
        return storage.save(folder, saving_host.content(self.settings, state, messages or {}))

    @classmethod
    def load(cls, folder: str | Path) -> Host:
        """Read a host from the folder that `save` wrote."""
        with saving.opened(folder, "host") as stored:
            settings, state = saving_host.parts(stored)
            saving_host.check_parts(state)
            host = cls.from_settings(settings, state)
            host._try(stored.weights)
            return host

    def _try(self, weights: storage.Tensors) -> None:
        """Predict a row: parts that do not fit together are found here, not when they are needed."""
        guests = np.zeros((1, sum(self.dims.values())), np.float32), np.ones((1, len(self.dims)), np.float32)
        outputs = self.outputs_of(saving.one_row(self.preparation, weights), *guests)
        if self.classes is not None and outputs.shape != (1, len(self.classes)):
            raise ValueError("its outputs are not one per class")

    def aggregate(
        self,
        table: Any,
        label: Any,
        messages: Sequence[Representation],
        matching: Matching | None = None,
        weight: Any = None,
        rounds: bool = False,
    ) -> list[Epoch]:
        """Train the model on the host's rows and labels and on the messages that arrived; return its history.

        `matching` says how the rows of messages are found; None: as the host was made. `weight` says how much each row counts.
        `rounds`: the training goes on in rounds, which not every model can.
        """
        own = Table.of(table)
        examples, trained = self._gather(own, label, messages, matching or self.matching)
        examples = replace(examples, weight=self.weights(weight, own, rounds))
        rng, device = party_generator(self.random_state, self.name), pick_device(self.device)
        model, dims = self.new_model(examples.own.ndim > 2, rounds), list(trained.dims.values())
        try:
            history = model.train(examples, dims, trained.n_outputs, rng, device, self.purse)
        finally:  # what was spent stays spent, whatever happened
            self._include_spent()
        trained = replace(trained, model=model, ledger=self.ledger)
        if self.purse is None and not rounds:
            trained = judged(trained, examples, self.settings, device)
        self.adopt(trained)
        logger.info("host %s: trained on %d rows and %d messages", self.name, own.n_rows, len(messages))
        return history

    def _gather(
        self, own: Table, label: Any, messages: Sequence[Representation], matching: Matching
    ) -> tuple[Examples, HostState]:
        """Check what a training is given; return what to learn from, and what there is to know of the model beside it."""
        targets = self.targets(label, own.n_rows)
        check_decoded(messages)
        self._check_names(messages)
        dims = {message.party: message.dim for message in messages}
        values, present, overlap = self._arrange(own, messages, dims, matching)
        check_overlap(overlap, own.n_rows)
        self._check_delta(own.n_rows)
        self._compose(messages)
        preparation = copy.copy(self.preparation).fit(own)
        noisy = tuple(message.blurred for message in messages)
        examples = Examples(preparation.transform(own), values, present, targets.values, None, noisy)
        trained = HostState(
            preparation,
            matching.forms,
            dims,
            {message.party: message.maker for message in messages},
            targets.classes,
            targets.offset,
            targets.spread,
            trained_overlap=overlap,
            seen={each.party: Seen.of(each) for each in messages if self.ledger is None and each.spent is None},
        )
        return examples, trained

    def new_model(self, images: bool = False, rounds: bool = False) -> HostModel:
        """Return an untrained model with the host's settings, for what is asked of it."""
        return copy.deepcopy(self.prototype).settled(images, self.purse is not None, rounds)

    def _include_spent(self) -> None:
        if self.purse is not None and self.ledger is not None:
            ledger = replace(self.ledger, entries=[*self.ledger.entries, *self.purse.spent])
            self._state = replace(self._state, ledger=ledger)

    def _check_names(self, messages: Sequence[Representation]) -> None:
        """Refuse a guest under the host's name, or, unless the model has it already, under one that only looks plain."""
        known = {*self.settings.known, *self.dims}
        for name in (message.party for message in messages):
            if name == self.name:
                raise MessageError(f"The message of party {name!r} is refused: that is the host's own name.")
            if name not in known and not is_party_name(name):
                raise MessageError(f"A message is refused: its party's name must be {MUST_BE}. Got {why_not(name)}.")

    def _check_delta(self, n_rows: int) -> None:
        if self.ledger is not None and self.ledger.delta > 1 / n_rows and not self.settings.allow_large_delta:
            wanted = f"at most 1 / rows ({1 / n_rows:.3g}), or allow_large_delta=True: a larger one lets a whole row slip out"
            raise parameter_error("Host", "delta", wanted, self.ledger.delta)

    def arrange(
        self, own: Table, messages: Sequence[Representation], matching: Matching | None = None
    ) -> tuple[Rows, Rows]:
        """Lay the guests' values beside the host's rows, and note how many of those each guest has."""
        values, present, self._overlap = self._arrange(own, messages, self.dims, matching or self.matching)
        return values, present

    def _arrange(
        self, own: Table, messages: Sequence[Representation], dims: Mapping[str, int], matching: Matching
    ) -> tuple[Rows, Rows, dict[str, float]]:
        check_memory(own.n_rows, sum(dims.values()), matching.max_memory)
        values, present = arrange(messages, dims, matching.rows(own.n_rows, own.ids), self.run)
        shares = present.mean(axis=0, dtype=np.float64) if own.n_rows else np.zeros(len(dims))
        return values, present, {party: float(share) for party, share in zip(dims, shares, strict=True)}

    def _compose(self, messages: Sequence[Representation]) -> None:
        """Write down what guests say that they spent; refuse what says nothing, or is beyond the plan, before training."""
        if self.ledger is None or self.purse is None:
            return
        spent = [entry for message in messages for entry in self.spent_of(message)]
        self._state = replace(self._state, ledger=replace(self.ledger, entries=spent))
        if self.plan is not None:
            self.plan.check(replace(self.ledger, entries=[*spent, *self.purse.planned]))

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

    def weights(self, weight: Any, table: Any, rounds: bool = False) -> NDArray[np.float64] | None:
        """Return how much each row of a table counts, 1 on average; None: all alike. Raise where that cannot be meant."""
        return None if weight is None else check_weights(weight, Table.of(table).n_rows, self.purse is not None, rounds)

    def check_label(self, label: Any, n_rows: int) -> None:
        """Raise where labels cannot be learnt from, before anybody spends time on it."""
        self._labels.check(label, n_rows)

    def targets(self, label: Any, n_rows: int) -> Targets:
        """Return classes as their positions, numbers standardised."""
        return self._labels.targets(label, n_rows)

    @property
    def _labels(self) -> Labels:
        return Labels(self.name, self.task, self.labels)

    def predict(self, table: Any, messages: Sequence[Representation], matching: Matching | None = None) -> NDArray[Any]:
        """Return a class or a number per row."""
        outputs = self.outputs(table, messages, matching)
        return outputs if self.classes is None else self.classes[outputs.argmax(axis=1)]

    def outputs(
        self, table: Any, messages: Sequence[Representation], matching: Matching | None = None
    ) -> NDArray[np.float64]:
        """Return for each row a probability per class, or a number; a guest without a message is zeros."""
        return self.answers(table, messages, matching)[0]

    def answers(
        self, table: Any, messages: Sequence[Representation], matching: Matching | None = None
    ) -> tuple[NDArray[np.float64], dict[str, NDArray[np.bool_]]]:
        """Return the outputs, and by guest of the training which rows it has; `matching` as for `aggregate`."""
        if self.model is None:
            raise InputError(f"The host {self.name!r} has not been trained yet; call aggregate first.")
        own = Table.of(table)
        check_decoded(messages)
        values, present = self.arrange(own, messages, matching)
        for message in messages:
            if message.maker != self.makers.get(message.party):
                raise MessageError(
                    f"The message of party {message.party!r} is refused: its learner, bits or scale are not those of the "
                    "training; the guest has learnt again. Predict with the guest's old model, or train again."
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
        raw = outputs.astype(np.float64) / self.temperature
        if self.classes is None:
            inside = raw[:, 0] if self.labels is None else np.clip(raw[:, 0], -1, 1)
            return inside * self.spread + self.offset
        odds = np.exp(raw - raw.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))
