"""Multi-round FedOnce: after the one message, guests and host go on training together, batch by batch.

A *round* is one batch: each guest sends its values of the batch's rows, the host sends back how each value should
change to lower its loss (the gradient), and everyone takes a step. That is SplitNN (Vepakomma et al., 2018), started from
the models of the one-shot training, so that its first round is already as good as FedOnce; with `start="random"` it is SplitNN
itself. Every message is made, checked and counted like the one of FedOnce.

Unlike FedOnce, a guest learns something of the labels here: gradients depend on them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedonce import aggregation
from fedonce.errors import InputError, MessageError, parameter_error
from fedonce.learners import Auto, NetworkLearner
from fedonce.matching import HostRows
from fedonce.message import BITS, SCALES_LIMIT, Representation, Scale, Traffic, row_digest
from fedonce.message import DIM_LIMIT as FORMAT_DIM
from fedonce.networks import TUNED_HIDDEN, Correction, code_sizes, encoder
from fedonce.party import Guest, Host, Tuned, arrange
from fedonce.randomness import party_generator, torch_seeded
from fedonce.tables import Table
from fedonce.threads import network_work, threads_for
from fedonce.training import Batch, Epoch, Rows, Training, pick_device, train

logger = logging.getLogger(__name__)

DIM_LIMIT = 4096  # values a row that a guest may announce without having sent any
# Models that are good already take smaller steps than new ones, and the smaller the fewer there are: shares of the host
# recipe's rate an epoch, and at most. Chosen on validation rows of phishing and superconduct.
WARM, WARMEST = 0.025, 0.25
LEAST_BITS = 8


@dataclass(frozen=True)
class Rounds:
    """How long to go on, and how; what is reached first ends it.

    Parameters
    ----------
    rounds : int, optional
        Number of rounds, a batch each.
    epochs : float, optional
        Passes over the rows.
    bytes : int, optional
        Bytes of all messages of the training, the first one included.
    batch : int, optional
        Rows a round. None: as the host's recipe.
    rate : float, optional
        Of everyone's optimizer. None: a share of the host recipe's, the smaller the shorter the rounds are; all of it where
        `start` is "random".
    bits : int, optional
        Bits a value, in both directions. None: those of the guest's first message, and 8 at least: gradients want more.
    start : str
        "one-shot": go on from FedOnce's models. "random": no first message and random weights: SplitNN.
    """

    rounds: int | None = None
    epochs: float | None = None
    bytes: int | None = None
    batch: int | None = None
    rate: float | None = None
    bits: int | None = None
    start: str = "one-shot"

    def __post_init__(self) -> None:
        if self.rounds is None and self.epochs is None and self.bytes is None:
            raise parameter_error("Rounds", "rounds", "given, or else epochs or bytes, so that training ends", None)
        for name in ("rounds", "bytes", "batch", "epochs", "rate"):
            value = getattr(self, name)
            whole = name in ("rounds", "bytes", "batch")
            kind = int | np.integer if whole else int | float | np.number
            if value is not None and (isinstance(value, bool) or not isinstance(value, kind) or not 0 < value < np.inf):
                raise parameter_error("Rounds", name, f"a positive {'integer' if whole else 'number'} or None", value)
        if self.bits is not None and (not isinstance(self.bits, int | np.integer) or self.bits not in BITS):
            raise parameter_error("Rounds", "bits", f"one of {', '.join(map(str, BITS))} or None", self.bits)
        if self.start not in ("one-shot", "random"):
            raise parameter_error("Rounds", "start", "'one-shot' or 'random'", self.start)

    def batch_of(self, recipe: aggregation.Recipe, n_rows: int) -> int:
        """Return how many rows a round has."""
        return min(self.batch or recipe.training(n_rows).batch, n_rows)

    def training(self, recipe: aggregation.Recipe, n_rows: int, affordable: int | None = None) -> Training:
        """Return how to train; `affordable` is the number of rounds that the limit in bytes allows."""
        base, batch = recipe.training(n_rows), self.batch_of(recipe, n_rows)
        per_epoch = ceil(n_rows / batch)
        limits = [self.rounds, affordable, None if self.epochs is None else max(1, round(self.epochs * per_epoch))]
        steps = min(limit for limit in limits if limit is not None)
        share = min(WARM * max(1.0, steps / per_epoch), WARMEST) if self.start == "one-shot" else 1.0
        rate = self.rate or recipe.rate * share
        return replace(base, batch=batch, rate=rate, steps=steps, epochs=ceil(steps / per_epoch))


@runtime_checkable
class RoundsEngine(Protocol):
    """How the messages of rounds travel. A guest that does not answer is simply not in the result."""

    def open_rounds(self, rounds: Rounds, n_rows: int, host: str) -> Mapping[str, bytes]:
        """Let each guest get ready; return a message without rows that says how many values it will send."""

    def begin_rounds(self, training: Training, order: int) -> None:
        """Tell each guest how everyone trains, and the seed by which all draw the same order of rows."""

    def forward(self) -> Mapping[str, bytes]:
        """Let each guest send its values of the next batch's rows."""

    def backward(self, gradients: Mapping[str, bytes]) -> None:
        """Hand each guest the gradient of its values."""

    def close_rounds(self) -> Mapping[str, bytes]:
        """Let each guest freeze its model; return a message without rows that carries its new scale."""


def check_engine(engine: object) -> RoundsEngine:
    """Return an engine that carries rounds; raise where it carries one message only."""
    if not isinstance(engine, RoundsEngine):
        raise InputError(
            f"Rounds need parties that answer at once, which {type(engine).__name__} does not give; leave rounds out."
        )
    return engine


def fit(host: Host, table: Any, label: Any, engine: object, rounds: Rounds, traffic: Traffic) -> list[Epoch]:
    """Train the host's model and the guests' encoders together; count what is sent; return the host's history."""
    engine = check_engine(engine)
    side = HostSide(host, Table.of(table), label, rounds)
    side.open(engine.open_rounds(rounds, side.n_rows, host.name), traffic)
    if not side.opened:
        logger.info("host %s: no guest takes part, there are no rounds", host.name)
        return []
    training = rounds.training(side.recipe, side.n_rows, side.affordable(traffic.bytes))
    order = int(side.rng.integers(2**63))
    engine.begin_rounds(training, order)

    def step(batch: Batch, epoch: int) -> Tensor:
        received = engine.forward()  # R_j of these rows, from each guest
        loss, gradients = side.step(batch, received, traffic)  # the host's step, and dL/dR_j for each guest
        engine.backward(gradients)
        traffic.rounds += 1
        return loss

    with threads_for(3 * network_work(side.model, side.rows.shape[1:], training.batch)):
        history = train(training.update(side.parameters), side.n_rows, step, training, np.random.default_rng(order))
    side.close(engine.close_rounds(), traffic)
    return history


class HostSide:
    """The host's half of the rounds."""

    def __init__(self, host: Host, table: Table, label: Any, rounds: Rounds) -> None:
        self.host, self.rounds, self.n_rows = host, rounds, table.n_rows
        self.device, self.dtype = pick_device(host.device), torch.get_default_dtype()
        # A party's name has no line break: this generator is nobody else's.
        self.rng = party_generator(host.random_state, f"{host.name}\nrounds")
        target = host.target(label, table.n_rows)
        cold = rounds.start == "random"
        self.rows = (host.preparation.fit(table) if cold else host.preparation).transform(table)
        if cold:
            host.trained_with = aggregation.find_recipe(host.recipe, host.epochs, self.rows.shape[1:], "Host")
        assert host.trained_with is not None
        self.recipe = host.trained_with
        self.own = torch.from_numpy(self.rows).to(self.device, self.dtype)
        self.target = torch.from_numpy(target).to(self.device)

    @property
    def parameters(self) -> list[nn.Parameter]:
        """What the host trains."""
        return list(self.model.parameters())

    def open(self, received: Mapping[str, bytes], traffic: Traffic) -> None:
        """Learn who takes part, with how many values, and get the model ready."""
        cold = self.rounds.start == "random"
        self.opened = self._read(received, traffic)
        for party, message in self.opened.items():
            known = DIM_LIMIT if cold else self.host.dims.get(party, 0)
            if (
                message.n_rows
                or message.run != self.host.run
                or party == self.host.name
                or not 1 <= message.dim <= known
            ):
                raise MessageError(
                    f"The message with which party {party!r} opens rounds is refused: it must be of run {self.host.run!r}, from "
                    f"a guest that takes part, without rows, and of at most {known} values a row."
                )
        host = self.host
        if cold:
            host.dims = {party: message.dim for party, message in self.opened.items()}
            with torch_seeded(self.rng):
                host.sizes = code_sizes(self.recipe.network, self.rows)
                host.model = aggregation.untrained(
                    self.rows.shape[1:], list(host.dims.values()), host.n_outputs, self.recipe, host.sizes
                )
        assert host.model is not None
        self.model = host.model.to(self.device, self.dtype).train()

    def affordable(self, sent: int) -> int | None:
        """Return how many rounds the limit in bytes allows, after so many bytes; None: there is no such limit."""
        if self.rounds.bytes is None:
            return None
        batch = self.rounds.batch_of(self.recipe, self.n_rows)
        cost = self._round_bytes(batch)
        # A closing message is as long as the opening one, and may have a scale and a longer learner's name.
        closing = sum(message.nbytes + 8 * min(message.dim, SCALES_LIMIT) + 256 for message in self.opened.values())
        left = self.rounds.bytes - sent - closing
        if left < cost:
            raise InputError(
                f"rounds with bytes={self.rounds.bytes:,} do not allow one round: {sent + closing:,} bytes go to other messages, "
                f"and a round takes {cost:,} with batches of {batch} rows. Give more bytes, a smaller batch or fewer bits."
            )
        return left // cost

    def step(self, batch: Batch, received: Mapping[str, bytes], traffic: Traffic) -> tuple[Tensor, dict[str, bytes]]:
        """Take the loss of a batch, leave the gradients in the host's parameters and return those of the guests' values."""
        messages = self._read(received, traffic)
        for party, message in messages.items():
            if party in self.opened and message.bits != self.opened[party].bits:
                raise MessageError(
                    f"The message of party {party!r} is refused: it has {message.bits} bits a value, not the "
                    f"{self.opened[party].bits} with which the party opened rounds."
                )
        rows = _batch_digest(batch)
        arranged = arrange(list(messages.values()), self.host.dims, HostRows(len(batch), digest=rows), self.host.run)
        values, present = (torch.from_numpy(array).to(self.device, self.dtype) for array in arranged)
        values.requires_grad_()
        where = torch.from_numpy(batch).to(self.device)
        with torch_seeded(self.rng):
            kept = aggregation.drop_guests(present, self.recipe.guest_dropout)
            outputs = self.model(self.own[where], values, kept)
        loss = aggregation.loss(outputs, self.target[where], self.recipe.smoothing)
        for parameter in self.parameters:
            parameter.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        # Of the sum over rows, not the mean: small numbers would be lost with few bits.
        whole = np.zeros_like(arranged[0]) if values.grad is None else (values.grad * len(batch)).float().cpu().numpy()
        gradients, start = {}, 0
        for party, dim in self.host.dims.items():
            if party in messages:
                own, bits = whole[:, start : start + dim], messages[party].bits
                held = messages[party].present
                own = own if held is None else own[held]
                gradient = _message(
                    own, bits, _symmetric(own, bits), self.host.name, self.host.run, rows, "gradient", held
                )
                gradients[party] = data = gradient.to_bytes()
                traffic.add(gradient, len(data), to=party)
            start += dim
        return loss.detach(), gradients

    def close(self, received: Mapping[str, bytes], traffic: Traffic) -> None:
        """Remember the guests' new scales; the model is done."""
        for party, message in self._read(received, traffic).items():
            if party not in self.opened or message.run != self.host.run or message.dim != self.host.dims[party]:
                raise MessageError(
                    f"The message with which party {party!r} closes rounds is refused: its run or number of values is another "
                    "than at the opening."
                )
            self.host.makers[party] = message.maker
            self.host.seen.pop(party, None)  # figures of values that the guest no longer makes
        self.model.cpu().eval()

    def _round_bytes(self, batch: int) -> int:
        """Return the bytes of a round of a full batch: every guest's values and gradients."""
        rows, total = _batch_digest(np.arange(batch)), 0
        for party, message in self.opened.items():
            values, bits = np.ones((batch, message.dim), np.float32), message.bits
            held = None if message.present is None else np.ones(batch, bool)
            for sender, kind in ((party, "values"), (self.host.name, "gradient")):
                message = _message(values, bits, _range(values, bits), sender, self.host.run, rows, kind, held)
                total += len(message.to_bytes())
        return total

    def _read(self, received: Mapping[str, bytes], traffic: Traffic) -> dict[str, Representation]:
        # How many values a message may have is compared with its opening, or with the training, by whoever asked for it.
        messages = {party: Representation.from_bytes(data, party, FORMAT_DIM) for party, data in received.items()}
        for party, message in messages.items():
            traffic.add(message, len(received[party]))
        return messages


class GuestSide:
    """A guest's half of the rounds.

    Where its learner is a network, that is trained further. Where it is none (PCA, patches, one of the user's own), its values
    stay and a network that starts at nothing is added to them.
    """

    def __init__(
        self,
        guest: Guest,
        table: Table,
        present: NDArray[np.bool_] | None,
        rounds: Rounds,
        n_rows: int,
        host: str,
    ) -> None:
        self.guest, self.host, self.n_rows = guest, host, n_rows
        self.bits = rounds.bits or max(LEAST_BITS, guest.bits)
        self.present = present
        self.position = np.cumsum(present) - 1 if present is not None else np.arange(n_rows)
        self.rng = party_generator(guest.random_state, f"{guest.name}\nrounds")
        self.device, self.dtype = pick_device(guest.device), torch.get_default_dtype()
        cold = rounds.start == "random"
        if guest.noise is not None:
            raise InputError(
                f"Party {guest.name!r} blurs what it sends, and takes part in no rounds: a row's values would leave it many "
                "times, and noise averages out. Make the guest with noise=0, or leave rounds out."
            )
        if cold and present is not None:
            raise InputError(
                f"Rounds from a random start need every row of party {guest.name!r}, which lacks some; take start='one-shot'."
            )
        self.rows = (guest.preparation.fit(table) if cold else guest.preparation).transform(table)
        self.own = torch.from_numpy(self.rows).to(self.device, self.dtype)
        self.base: Tensor | None = None
        with torch_seeded(self.rng):
            self.network = self._random_network() if cold else self._learnt_network()
        self.network.to(self.device, self.dtype).train()
        self.parameters = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        self.batch: Batch | None = None
        self.outputs: Tensor | None = None
        self.done = 0

    def _random_network(self) -> nn.Module:
        """Make a network in place of all that was learnt; the learner's own kind where it has one."""
        learner, self.dim = self.guest.learner, self.guest.dim
        if isinstance(learner, NetworkLearner):
            self.guest.tuned = Tuned()
            return learner.start(self.rows, self.dim, self.device)
        network = encoder(self.rows.shape[1:], TUNED_HIDDEN, self.dim)
        self.guest.tuned = Tuned(network, alone=True)
        return network

    def _learnt_network(self) -> nn.Module:
        """Return what is trained further: the learner's network, or one that is added to its values."""
        learner = self.guest.learner.chosen() if isinstance(self.guest.learner, Auto) else self.guest.learner
        tuned = self.guest.tuned
        if isinstance(learner, NetworkLearner):
            self.dim = learner.dim_
            self.guest.tuned = Tuned()
            return learner.fitted()
        if tuned is not None and tuned.network is not None:  # rounds have been before: go on with what they added
            self.dim = self.guest.values(self.rows[:1]).shape[1]
            self.base = None if tuned.alone else self._tensor(learner.transform(self.rows, self.device))
            return tuned.network
        values = self.guest.values(self.rows)
        self.dim, self.base = values.shape[1], self._tensor(values)
        correction = Correction(self.rows.shape[1:], values)
        self.guest.tuned = Tuned(correction)
        return correction

    def _tensor(self, values: Rows) -> Tensor:
        return torch.from_numpy(values).to(self.device, self.dtype)

    def opening(self) -> bytes:
        """Return a message without rows, which says how many values and bits there will be."""
        values = np.zeros((0, self.dim), np.float32)
        held = None if self.present is None else np.zeros(0, bool)
        scale, rows, learner = _range(values, self.bits), row_digest(0), self.guest.learner_name
        message = _message(values, self.bits, scale, self.guest.name, self.guest.run, rows, "opening", held)
        return replace(message, learner=learner).to_bytes()

    def begin(self, training: Training, order: int) -> None:
        """Take note of how everyone trains, and of the seed for the order of rows."""
        self.training, self.update = training, training.update(self.parameters)
        self.order = np.random.default_rng(order)

    def _next_batch(self) -> Batch:
        """Return the rows of the next batch: the host draws the same."""
        within = self.done % ceil(self.n_rows / self.training.batch)
        if within == 0:
            self.epoch_rows = self.order.permutation(self.n_rows)
        return self.epoch_rows[within * self.training.batch :][: self.training.batch]

    def forward(self) -> bytes:
        """Return the message with the values of the next batch's rows that the guest has."""
        batch = self._next_batch()
        held = None if self.present is None else self.present[batch]
        where = torch.from_numpy(self.position[batch if held is None else batch[held]]).to(self.device)
        with torch_seeded(self.rng), self._threads():
            self.outputs = self.network(self.own[where])
        self.batch = batch
        values = self.outputs.detach() if self.base is None else self.outputs.detach() + self.base[where]
        numbers = values.float().cpu().numpy()
        message = _message(
            numbers, self.bits, _range(numbers, self.bits), self.guest.name, self.guest.run, _batch_digest(batch), "values", held
        )  # fmt: skip
        return message.to_bytes()

    def backward(self, data: bytes) -> None:
        """Take a step by the gradient that the host sent."""
        gradient = Representation.from_bytes(data, self.host, FORMAT_DIM)
        if self.batch is None or self.outputs is None:
            raise MessageError(f"Party {self.guest.name!r} got a gradient without having sent values.")
        expected = (self.guest.run, _batch_digest(self.batch), tuple(self.outputs.shape))
        if (gradient.run, gradient.rows, gradient.values.shape) != expected:
            raise MessageError(
                f"The gradient for party {self.guest.name!r} is refused: it is of another run, or about other rows or values."
            )
        for parameter in self.parameters:
            parameter.grad = None
        sent = torch.from_numpy(gradient.values.copy()).to(self.device, self.dtype) / len(self.batch)
        per_epoch = ceil(self.n_rows / self.training.batch)
        epoch, within = divmod(self.done, per_epoch)
        with self._threads():
            if len(sent):
                self.outputs.backward(sent)  # type: ignore[no-untyped-call]
            self.update(self.training.rate_at(self.training.progress(epoch, within * self.training.batch, self.n_rows)))
        self.done += 1
        self.batch = self.outputs = None

    def _threads(self) -> AbstractContextManager[None]:
        return threads_for(3 * network_work(self.network, self.rows.shape[1:], self.training.batch))

    def close(self) -> bytes:
        """Freeze model and scale, and return a message without rows that carries the scale."""
        self.network.cpu().eval()
        self.guest.scale = Scale.fit(self.guest.values(self.rows), self.guest.bits)
        return self.guest.message(np.zeros((0, self.dim), np.float32), None).to_bytes()


def _batch_digest(batch: Batch) -> str:
    """Return the name of a batch: of its rows, in their order."""
    return row_digest(len(batch), np.ascontiguousarray(batch, dtype="<i8").view(np.uint8))


def _range(values: Rows, bits: int) -> Scale:
    """Return the range of one message's values."""
    if bits > 8:
        return Scale.fit(values, bits)
    columns = _scaled_together(values)
    if not len(columns):
        columns = np.zeros((1, columns.shape[1]), np.float32)
    return Scale(columns.min(axis=0), columns.max(axis=0))


def _symmetric(values: Rows, bits: int) -> Scale:
    """Return a range around zero in which zero is a code of its own: the gradient of a dropped guest is zero."""
    half = 2 ** (bits - 1)
    most = np.abs(_scaled_together(values)).max(axis=0, initial=0).astype(np.float32)
    return Scale(-most * np.float32(half / (half - 1)), most) if bits <= 8 else Scale.fit(values, bits)


def _scaled_together(values: Rows) -> Rows:
    """Return columns that have a scale each; beyond a limit all values share one."""
    return values if values.shape[1] <= SCALES_LIMIT else values.reshape(-1, 1)


def _message(
    values: Rows,
    bits: int,
    scale: Scale,
    party: str,
    run: str,
    rows: str,
    kind: str,
    present: NDArray[np.bool_] | None,
) -> Representation:
    return Representation.encode(
        values, bits=bits, scale=scale, party=party, run=run, rows=rows, present=present, learner="rounds", note=kind
    )
