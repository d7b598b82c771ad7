"""Multi-round FedOnce: after the one message, guests and host go on training together, batch by batch.

A *round* is one batch: each guest sends its values of the batch's rows, the host sends back how each value should
change to lower its loss (the gradient), and everyone takes a step. That is SplitNN (Vepakomma et al., 2018), started from
the models of the one-shot training, so that its first round is already as good as FedOnce; with `start="random"` it is SplitNN
itself. Every message is made, checked and counted like the one of FedOnce.

Unlike FedOnce, a guest learns something of the labels here: gradients depend on them.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedonce.data.table import Table
from fedonce.errors import BudgetError, InputError, MessageError
from fedonce.hostmodels import HostModel
from fedonce.messages.codecs import most_state
from fedonce.messages.received import Received
from fedonce.messages.representation import Representation
from fedonce.messages.traffic import Traffic
from fedonce.party import Host, arrange
from fedonce.rounds.engine import check_engine
from fedonce.rounds.settings import Rounds
from fedonce.rounds.wire import batch_digest, wire_message
from fedonce.rows.matching import HostRows, Matching
from fedonce.training.loop import Batch, Loop, pick_device
from fedonce.training.randomness import party_generator, torch_seeded
from fedonce.training.settings import Epoch
from fedonce.training.threads import network_work

logger = logging.getLogger(__name__)

OPENING_DIM = 4096  # values per row that a guest may announce without having sent any


def fit(
    host: Host,
    table: Any,
    label: Any,
    engine: object,
    rounds: Rounds,
    traffic: Traffic,
    matching: Matching | None = None,
) -> list[Epoch]:
    """Train the host's model and the guests' encoders together; count what is sent; return the host's history."""
    engine = check_engine(engine)
    side = HostSide(host, Table.of(table), label, rounds, (matching or host.matching).max_memory)
    side.open(engine.open_rounds(rounds, side.n_rows, host.name), traffic)
    if not side.opened:
        logger.info("host %s: no guest takes part, there are no rounds", host.name)
        return []
    training = rounds.training(side.trained, side.n_rows, side.affordable(traffic.bytes))
    order = int(side.rng.integers(2**63))
    engine.begin_rounds(training, order)

    def step(batch: Batch, epoch: int) -> Tensor:
        received = engine.forward()  # R_j of these rows, from each guest
        loss, gradients = side.step(batch, received, traffic)  # the host's step, and dL/dR_j for each guest
        engine.backward(gradients)
        traffic.rounds += 1
        return loss

    update, work = training.update(side.parameters), 3 * network_work(side.model, side.rows.shape[1:], training.batch)
    history = Loop(step, update, side.n_rows, training, np.random.default_rng(order), work=work).run()
    side.close(engine.close_rounds(), traffic)
    return history


def check(engine: object, host: Host) -> None:
    """Raise where there can be no rounds: messages travel too slowly, or the host's model cannot be trained on."""
    check_engine(engine)
    check_model(host)


def check_model(host: Host) -> None:
    """Raise where the host's model cannot be trained in rounds, or has a budget, of which rounds know nothing."""
    if host.purse is not None or host.ledger is not None:
        raise BudgetError(
            f"The host {host.name!r} has a privacy budget, and rounds have no private version: gradients of single rows would "
            "leave it. Leave the rounds out, or the budget."
        )
    host.prototype.must(
        "rounds", "cannot be trained in rounds, as it gives no gradients (rounds=0 is the one message alone)"
    )


class HostSide:
    """The host's half of the rounds."""

    def __init__(self, host: Host, table: Table, label: Any, rounds: Rounds, max_memory: int | None = None) -> None:
        check_model(host)
        self.host, self.rounds, self.n_rows, self.max_memory = host, rounds, table.n_rows, max_memory
        self.device, self.dtype = pick_device(host.device), torch.get_default_dtype()
        # A party's name has no line break: this generator is nobody else's.
        self.rng = party_generator(host.random_state, f"{host.name}\nrounds")
        targets = host.targets(label, table.n_rows)
        cold = rounds.start == "random"
        preparation = copy.copy(host.preparation).fit(table) if cold else host.preparation
        self.state = replace(
            host.state,
            preparation=preparation,
            classes=targets.classes,
            offset=targets.offset,
            spread=targets.spread,
            temperature=1.0,  # both are of the model before
            validation=None,
        )
        self.rows = preparation.transform(table)
        self.own = torch.from_numpy(self.rows).to(self.device, self.dtype)
        self.target = torch.from_numpy(targets.values).to(self.device)

    @property
    def parameters(self) -> list[nn.Parameter]:
        """What the host trains."""
        return list(self.model.parameters())

    def open(self, received: Mapping[str, Received], traffic: Traffic) -> None:
        """Learn who takes part, with how many values, and get the model ready."""
        cold = self.rounds.start == "random"
        self.opened = self._read(received, traffic)
        for party, message in self.opened.items():
            known = OPENING_DIM if cold else self.host.dims.get(party, 0)
            if (
                message.n_rows
                or message.run != self.host.run
                or party == self.host.name
                or not 1 <= message.dim <= known
            ):
                raise MessageError(
                    f"The message with which party {party!r} opens rounds is refused: it must be of run {self.host.run!r}, from "
                    f"a guest that takes part, without rows, and of at most {known} values per row."
                )
        if cold:
            model, dims = (
                self.host.new_model(rounds=True),
                {party: message.dim for party, message in self.opened.items()},
            )
            with torch_seeded(self.rng):
                model.start(self.rows, list(dims.values()), self.state.n_outputs)
            self.state = replace(self.state, dims=dims, model=model)
        assert self.state.model is not None
        self.host.adopt(self.state)
        self.trained: HostModel = self.state.model
        self.model = self.trained.module().to(self.device, self.dtype).train()

    def affordable(self, sent: int) -> int | None:
        """Return how many rounds the limit in bytes allows, after so many bytes; None: there is no such limit."""
        if self.rounds.bytes is None:
            return None
        batch = self.rounds.batch_of(self.trained, self.n_rows)
        cost = self._round_bytes(batch)
        # A closing message is as long as the opening one, and may have another codec's state and a longer learner's name.
        closing = sum(message.nbytes + most_state(message.dim) + 256 for message in self.opened.values())
        left = self.rounds.bytes - sent - closing
        if left < cost:
            raise InputError(
                f"rounds with bytes={self.rounds.bytes:,} do not allow one round: {sent + closing:,} bytes go to other messages, "
                f"and a round takes {cost:,} with batches of {batch} rows. Give more bytes, a smaller batch or fewer bits."
            )
        return left // cost

    def step(self, batch: Batch, received: Mapping[str, Received], traffic: Traffic) -> tuple[Tensor, dict[str, bytes]]:
        """Take the loss of a batch, leave the gradients in the host's parameters and return those of the guests' values."""
        messages = self._read(received, traffic)
        for party, message in messages.items():
            opened = self.opened.get(party, message)
            if type(message.codec) is not type(opened.codec):
                raise MessageError(
                    f"The message of party {party!r} is refused: it has {message.codec.choice()} bits per value, not the "
                    f"{opened.codec.choice()} with which the party opened rounds."
                )
        rows = batch_digest(batch)
        arranged = arrange(list(messages.values()), self.host.dims, HostRows(len(batch), digest=rows), self.host.run)
        values, present = (torch.from_numpy(array).to(self.device, self.dtype) for array in arranged)
        values.requires_grad_()
        where = torch.from_numpy(batch).to(self.device)
        with torch_seeded(self.rng):
            loss = self.trained.loss(self.own[where], values, present, self.target[where])
        for parameter in self.parameters:
            parameter.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        # Of the sum over rows, not the mean: small numbers would be lost with few bits.
        whole = np.zeros_like(arranged[0]) if values.grad is None else (values.grad * len(batch)).float().cpu().numpy()
        gradients, start = {}, 0
        for party, dim in self.host.dims.items():
            if party in messages:
                own, held = whole[:, start : start + dim], messages[party].present
                own = own if held is None else own[held]
                codec = messages[party].codec.around_zero(own)
                gradient = wire_message(own, codec, self.host.name, self.host.run, rows, "gradient", held)
                gradients[party] = data = gradient.to_bytes()
                traffic.add(gradient, len(data), to=party)
            start += dim
        return loss.detach(), gradients

    def close(self, received: Mapping[str, Received], traffic: Traffic) -> None:
        """Remember the guests' new scales; the model is done."""
        makers, seen = dict(self.state.makers), dict(self.state.seen)
        for party, message in self._read(received, traffic).items():
            if party not in self.opened or message.run != self.host.run or message.dim != self.host.dims[party]:
                raise MessageError(
                    f"The message with which party {party!r} closes rounds is refused: its run or number of values is another "
                    "than at the opening."
                )
            makers[party] = message.maker
            seen.pop(party, None)  # figures of values that the guest no longer makes
        self.model.cpu().eval()
        self.host.adopt(replace(self.state, makers=makers, seen=seen))

    def _round_bytes(self, batch: int) -> int:
        """Return the bytes of a round of a full batch, at most: every guest's values and gradients."""
        rows, total = batch_digest(np.arange(batch)), 0
        for party, opened in self.opened.items():
            values, most = np.ones((batch, opened.dim), np.float32), opened.codec.most_payload(batch, opened.dim)
            held = None if opened.present is None else np.ones(batch, bool)
            for sender, kind in ((party, "values"), (self.host.name, "gradient")):
                codec = opened.codec.spanning(values)
                message = wire_message(values, codec, sender, self.host.run, rows, kind, held)
                total += message.nbytes - message.payload_bytes + most
        return total

    def _read(self, received: Mapping[str, Received], traffic: Traffic) -> dict[str, Representation]:
        # How many values a message may have is compared with its opening, or with the training, by whoever asked for it.
        for party, message in received.items():
            message.check(party, self.max_memory)
            traffic.add(message.representation, message.moved)
        return {party: message.representation for party, message in received.items()}
