"""A guest's half of the rounds."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from math import ceil

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedonce.data.table import Table
from fedonce.errors import BudgetError, InputError, MessageError
from fedonce.learners import Auto, Hinted, NetworkLearner
from fedonce.messages.representation import DIM_LIMIT, Representation, row_digest
from fedonce.party import FineTuning, Guest
from fedonce.rounds.settings import Rounds
from fedonce.rounds.wire import batch_digest, wire_message
from fedonce.training.loop import IMAGE_NDIM, Batch, Rows, pick_device
from fedonce.training.networks import TUNED_HIDDEN, Correction, encoder, shifted
from fedonce.training.randomness import party_generator, torch_seeded
from fedonce.training.settings import Training
from fedonce.training.threads import network_work, threads_for


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
        if guest.purse is not None:
            raise BudgetError(
                f"Party {guest.name!r} has a privacy budget, and takes part in no rounds: they have no private version. Leave "
                "the rounds out, or the budget."
            )
        if guest.state.hints:
            raise InputError(
                f"Party {guest.name!r} has learnt from hints at labels, and takes part in no rounds: their gradients tell it the "
                "labels, whatever hints hide. Leave out the hints, or rounds.",
                parameter=("hints", "rounds"),
            )
        self.guest, self.host, self.n_rows = guest, host, n_rows
        self.encoding, self.shift = rounds.encoding(guest.encoding), rounds.shift
        self.present = present
        self.position = np.cumsum(present) - 1 if present is not None else np.arange(n_rows)
        self.rng = party_generator(guest.random_state, f"{guest.name}\nrounds")
        self.device, self.dtype = pick_device(guest.device), torch.get_default_dtype()
        cold = rounds.start == "random"
        if guest.perturbs:
            raise InputError(
                f"Party {guest.name!r} blurs what it sends, and takes part in no rounds: a row's values would leave it many "
                "times, and noise averages out. Make the guest with noise=0, or leave rounds out."
            )
        if cold and present is not None:
            raise InputError(
                f"Rounds from a random start need every row of party {guest.name!r}, which lacks some; take start='one-shot'."
            )
        if cold:
            # What is learnt in place of the learner knows nothing of codes.
            uncoded = replace(guest.preparation, coding=None)
            guest.adopt(replace(guest.state, preparation=uncoded.fit(table)))
        self.rows = guest.preparation.transform(table)
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
        if isinstance(learner, Hinted):
            learner = learner.without_hints()
            self.guest.adopt(replace(self.guest.state, learner=learner))
        if isinstance(learner, NetworkLearner):
            self._fine_tune(FineTuning())
            return learner.start(self.rows, self.dim, self.device)
        network = encoder(self.rows.shape[1:], TUNED_HIDDEN, self.dim)
        self._fine_tune(FineTuning(network, alone=True))
        return network

    def _learnt_network(self) -> nn.Module:
        """Return what is trained further: the learner's network, or one that is added to its values."""
        learner = self.guest.learner.chosen() if isinstance(self.guest.learner, Auto) else self.guest.learner
        tuned = self.guest.fine_tuning
        if isinstance(learner, NetworkLearner):
            self.dim = learner.dim_
            self._fine_tune(FineTuning())
            return learner.fitted()
        if tuned is not None and tuned.network is not None:  # rounds have been before: go on with what they added
            self.dim = self.guest.values(self.rows[:1]).shape[1]
            self.base = None if tuned.alone else self._tensor(learner.transform(self.rows, self.device))
            return tuned.network
        values = self.guest.values(self.rows)
        self.dim, self.base = values.shape[1], self._tensor(values)
        correction = Correction(self.rows.shape[1:], values, self.guest.preparation.code_sizes)
        self._fine_tune(FineTuning(correction))
        return correction

    def _fine_tune(self, fine_tuning: FineTuning) -> None:
        """Let the guest's values be those of the network that is trained here."""
        self.guest.adopt(replace(self.guest.state, fine_tuning=fine_tuning))

    def _tensor(self, values: Rows) -> Tensor:
        return torch.from_numpy(values).to(self.device, self.dtype)

    def opening(self) -> bytes:
        """Return a message without rows, which says how many values there will be, and how they are written."""
        values = np.zeros((0, self.dim), np.float32)
        held = None if self.present is None else np.zeros(0, bool)
        codec, guest = self.encoding.spanning(values), self.guest
        message = wire_message(values, codec, guest.name, guest.run, row_digest(0), "opening", held)
        return replace(message, learner=guest.learner_name).to_bytes()

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
            own = self.own[where]
            self.outputs = self.network(shifted(own, self.shift) if self.shift and own.ndim == IMAGE_NDIM else own)
        self.batch = batch
        values = self.outputs.detach() if self.base is None else self.outputs.detach() + self.base[where]
        numbers = values.float().cpu().numpy()
        codec, guest = self.encoding.spanning(numbers), self.guest
        return wire_message(numbers, codec, guest.name, guest.run, batch_digest(batch), "values", held).to_bytes()

    def backward(self, data: bytes) -> None:
        """Take a step by the gradient that the host sent."""
        gradient = Representation.from_bytes(data, self.host, DIM_LIMIT)
        if self.batch is None or self.outputs is None:
            raise MessageError(f"Party {self.guest.name!r} got a gradient without having sent values.")
        expected = (self.guest.run, batch_digest(self.batch), tuple(self.outputs.shape))
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
        """Freeze model and codec, and return a message without rows that carries the codec's state."""
        self.network.cpu().eval()
        codec = self.guest.encoding.fit(self.guest.values(self.rows))
        self.guest.adopt(replace(self.guest.state, codec=codec))
        return self.guest.message(np.zeros((0, self.dim), np.float32), None).to_bytes()
