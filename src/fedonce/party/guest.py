"""Guest: a party without labels."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedonce.data.preparation import Public
from fedonce.data.schema import Reading
from fedonce.data.table import Table
from fedonce.errors import InputError
from fedonce.learners import Auto
from fedonce.learners.base import WITHOUT_NOISE, coded_for, progress_for, sent_for
from fedonce.learners.hinted import kept
from fedonce.messages import codecs
from fedonce.messages.envelope import checksum
from fedonce.messages.hints import Hints
from fedonce.messages.message_checks import rows_alike
from fedonce.messages.representation import Representation, row_digest
from fedonce.party import blurring, hinting, saving, saving_guest, sending, storage, writing
from fedonce.party.checks import check_bytes_per_row
from fedonce.party.guest_state import GuestAttributes, GuestSettings, GuestState, naming_used
from fedonce.party.presence import held_rows
from fedonce.party.protecting import check_protect, check_shared, protected, stated
from fedonce.privacy import LocalEpsilon
from fedonce.privacy.budget import Purse
from fedonce.privacy.ledger import to_text
from fedonce.privacy.local_epsilon import disclosed
from fedonce.rows.ids import Ids, Naming, one_form
from fedonce.training.checkpoints import Progress
from fedonce.training.loop import Rows, apply, pick_device
from fedonce.training.randomness import party_generator
from fedonce.training.settings import Epoch

if TYPE_CHECKING:
    from fedonce.rows.alignment import AgreedRows


class Guest(GuestAttributes):
    """A party without labels: it learns a representation of its own columns and sends it, once.

    Parameters
    ----------
    name : str
        The party's name.
    learner : str or Learner
        How it learns: a name from `fedonce.learners.LEARNERS`, or an object.
    dim : int
        Number of values per row; lowered where the learner cannot give so many.
    bits : int or str
        Bits per value on the wire: 32, 16, 8 or 4; or the name of an encoding of your own.
    epochs : int, optional
        Overrides the learner's own.
    shape : tuple, optional
        (channels, rows, columns) where the columns are pixels.
    random_state, device : int, str
        Seed of what it draws; "auto", "cpu" or "cuda".
    run : str
        The training that its messages belong to.
    noise : float
        Scale of Gaussian noise on every value that leaves the guest, after clipping each row to norm 1; 0: neither.
    purse : Purse, optional
        What it may spend of a privacy budget; its learner then learns privately. None: no budget, and no guarantee.
    public : Public, optional
        With a budget or a local epsilon: bounds and categories of its columns.
    naming : Naming, optional
        Where its tables have ids: how messages name rows without an agreed order. None: they need one. Hashes without a key,
        `Naming("hashed")`, can be undone by anyone who can list the ids.
    reading : Reading, optional
        How its tables are read from files; kept with what it learns.
    bytes_per_row : float, optional
        Bytes that a row's values may take in the message of the training, on average: how many of the `dim` values are sent,
        and how finely each is rounded, is then chosen by what they are worth.
    local_epsilon : float, optional
        Epsilon of what is disclosed of each row (`fedonce.privacy.LocalEpsilon`). The encoder then looks at no row, and columns
        of numbers need `public` bounds.
    protect : str, optional
        "cells:20": 20 rows or more of the training message share each value, which is a number in random order; rows of a
        prediction may be alone with theirs (docs/leakage.md).

    Nothing of it can be assigned: `settings` is what it was given, `state` what it has learnt, and its attributes show both.

    >>> rows = np.random.default_rng(0).normal(size=(100, 6))
    >>> shop = Guest("shop", learner="pca", dim=3)
    >>> shop.learn(rows).values.shape, shop.represent(rows[:5]).values.shape
    ((100, 3), (5, 3))
    """

    __slots__ = ()

    def __init__(
        self,
        name: str,
        learner: object = "auto",
        dim: int = 8,
        bits: int | str = 8,
        epochs: int | None = None,
        shape: tuple[int, ...] | None = None,
        run: str = "local",
        noise: float = 0.0,
        random_state: int = 0,
        device: str = "auto",
        purse: Purse | None = None,
        public: Public | None = None,
        naming: Naming | None = None,
        reading: Reading | None = None,
        bytes_per_row: float | None = None,
        local_epsilon: float | None = None,
        protect: str | None = None,
    ) -> None:
        encoding = codecs.find(bits, "Guest")
        check_protect("Guest", protect, noise=noise, local_epsilon=local_epsilon, purse=purse is not None)
        own = blurring.learner_for(
            protected("Guest", learner, protect), epochs, "Guest", bytes_per_row, local_epsilon, dim
        )
        check_bytes_per_row("Guest", bytes_per_row)
        writing.check_bits("Guest", encoding, bytes_per_row)
        late = (purse, public, naming, reading, bytes_per_row, local_epsilon)
        self._settings = GuestSettings(name, own, dim, encoding, shape, run, noise, random_state, device, *late)
        self._state = GuestState.before_learning(self._settings)

    @classmethod
    def from_settings(cls, settings: GuestSettings, state: GuestState | None = None) -> Guest:
        """Return a guest with what it was given and what it has learnt; None: it has learnt nothing."""
        guest = cls.__new__(cls)
        guest._settings = settings
        guest._state = GuestState.before_learning(settings) if state is None else state
        return guest

    def save(self, folder: str | Path, leaving: Mapping[str, bytes] | None = None) -> Path:
        """Write what was learnt to a folder, which stays with the guest: to represent rows later, on any machine.

        `leaving` are files that leave it, its message, by their names in the folder: they change together with the model.
        """
        return storage.save(folder, saving_guest.content(self.settings, self.state, leaving or {}))

    @classmethod
    def load(cls, folder: str | Path) -> Guest:
        """Read a guest from the folder that `save` wrote."""
        with saving.opened(folder, "guest") as stored:
            settings, state = saving_guest.parts(stored)
            guest = cls.from_settings(settings, state)
            guest._try(stored.weights)
            return guest

    def _try(self, weights: storage.Tensors) -> None:
        """Restore the codec and represent a row: parts that do not fit together are found here, not when they are needed."""
        if "noise.centre" in weights and weights["noise.centre"].ndim != 1:
            raise ValueError("its noise must be a number per value")
        row = saving.one_row(self.preparation, weights)
        values = self.values(row)
        perturbed = values if self.noise is None else blurring.perturbed(self.noise, values, None, self.encoder)
        self.adopt(replace(self.state, codec=saving_guest.codec(self.settings, weights, perturbed.shape[1])))
        self.message(self._laid_out(row, values) if self.noise is None else perturbed, None)

    def learn(
        self,
        table: Any,
        present: ArrayLike | None = None,
        agreed: AgreedRows | None = None,
        progress: Progress | None = None,
        naming: Naming | None = None,
        noise_key: bytes | None = None,
        hints: Hints | None = None,
    ) -> Representation:
        """Learn from the guest's training rows, without labels, and return the message for the host.

        `present` says which of the agreed rows `table` holds; None: all of them, in the agreed order. Where the table has
        ids, `agreed` is what an alignment found: all rows serve the learning, and the agreed ones are sent, of which as many
        share each value as the learner promises. Without it all are sent. `progress` is told how far the learning is; where
        it has a folder, a learning that was killed goes on from there. `naming` says how this message names rows; None: as
        the guest was made. With `noise_key`, a secret of a guest that perturbs its values, each row that has an id gets the
        same noise each time. `hints` are what the host has published of its labels.
        """
        own, naming = Table.of(table), naming or self.naming
        if not own.n_rows:
            raise InputError(f"Party {self.name!r} has no rows to learn from.")
        mask = held_rows(self.name, own.n_rows, present)
        to = sending.addressed(self, own, mask, agreed, naming)
        sent = None if to.order is None else np.sort(to.order)
        check_shared(self.name, self.settings.learner, own.n_rows if sent is None else len(sent))
        preparation = copy.copy(self.preparation).fit(own)
        rows = preparation.transform(own)
        learner, device = copy.deepcopy(self.settings.learner), pick_device(self.device)
        learner, hinted = hinting.taken(self.settings, learner, hints, own, mask, naming, agreed)
        rng, history = party_generator(self.random_state, self.name), list[Epoch]()
        with progress or Progress() as watching:
            if self.purse is None:
                told = progress_for(learner.fit, watching) | coded_for(learner.fit, preparation.coded)
                told |= sent_for(learner.fit, sent)
                history = learner.fit(rows, self.dim, rng, device, **told, **hinted)
            else:
                watched = progress_for(learner.fit_private, watching)
                learner.fit_private(rows, self.dim, rng, device, self.purse, **watched)
            used = naming_used(naming, self.learnt_naming)
            stated, learner = "" if hints is None else hints.stated, kept(learner, self.settings.learner)
            so_far = self.state.answered
            self.adopt(
                GuestState(learner, preparation, history=history, learnt_naming=used, hints=stated, answered=so_far)
            )
            message = self._addressed(self._fit_codec(rows, own.ids, noise_key), to, own)
            if self.noise is None:
                check_shared(self.name, self.learner, int(rows_alike(message.values).min()))
            return message

    def _fit_codec(self, rows: Rows, ids: Ids | None, noise_key: bytes | None) -> Rows:
        """Fit noise and codec to the values of prepared rows, and return the values to be sent."""
        values = self.values(rows)
        noise = blurring.fitted(self.settings.noise, self.settings.local_epsilon, self.learner, values, noise_key)
        self.adopt(replace(self.state, noise=noise))
        if noise is not None:
            values = blurring.perturbed(noise, values, ids, self.encoder)
        if isinstance(noise, LocalEpsilon):
            codec = blurring.codec(noise)
        elif self.purse is not None and np.isfinite(self.bound):
            codec = self.encoding.public(self.bound, values.shape[1])  # not coded: a length would tell of rows
        else:
            codec = writing.fitted(self.encoding, values, None if noise else self.learner, self.settings.bytes_per_row)
        self.adopt(replace(self.state, codec=codec))
        return values if noise else self._laid_out(rows, values)

    def _laid_out(self, rows: Rows, values: Rows) -> Rows:
        return writing.laid_out(self.codec, self.learner, rows, values, pick_device(self.device))

    def represent(
        self,
        table: Any,
        present: ArrayLike | None = None,
        agreed: AgreedRows | None = None,
        naming: Naming | None = None,
        noise_key: bytes | None = None,
    ) -> Representation:
        """Return the message for rows to be predicted, with what was learnt and the codec frozen then.

        `naming` and `noise_key` are those of `learn`; a guest that comes from disk has neither secret.
        """
        if self.codec is None:
            raise InputError(f"Party {self.name!r} has not learnt yet; call learn first.")
        own = Table.of(table)
        mask = held_rows(self.name, own.n_rows, present)
        to = sending.addressed(self, own, mask, agreed, naming or self.naming)
        return self._addressed(self.outgoing(own, noise_key), to, own)

    def outgoing(self, table: Table, noise_key: bytes | None = None) -> Rows:
        """Return what would be sent of a table's rows, in their order, for a look at it: messages are counted, this is not."""
        rows = self.preparation.transform(table)
        values = self.values(rows)
        noise = self.noise if self.noise is None or noise_key is None else replace(self.noise, key=noise_key)
        return (
            self._laid_out(rows, values)
            if noise is None
            else blurring.perturbed(noise, values, table.ids, self.encoder)
        )

    def answered(self, table: Table) -> tuple[list[str], list[bytes], str]:
        """Return, of a guest with a local epsilon, a table's ids, what is disclosed of each row, and what its answers are for."""
        assert isinstance(self.noise, LocalEpsilon)
        assert table.ids is not None
        cells = self.values(self.preparation.transform(table))[:, 0].astype(np.intp)
        return one_form(table.ids), disclosed(cells), self.noise.purpose(self.encoder)

    def _addressed(self, values: Rows, to: sending.Addressed, table: Table) -> Representation:
        """Return the message, and count one about rows without ids: with a local epsilon its answers are new ones."""
        message = self.message(values if to.order is None else values[to.order], to.present, **to.names)
        if table.ids is None and self.local_epsilon is not None:
            self.adopt(replace(self.state, answered=self.state.answered + 1))
        return message

    def values(self, rows: Rows) -> Rows:
        """Let the learner, which may be the user's own, transform prepared rows, and check what it gives."""
        device = pick_device(self.device)
        if self.fine_tuning is not None and self.fine_tuning.alone and self.fine_tuning.network is not None:
            return apply(self.fine_tuning.network, rows, device)
        values = np.asarray(self.learner.transform(rows, device), dtype=np.float32)
        if values.ndim != 2 or len(values) != len(rows) or not 1 <= values.shape[1] <= self.dim:
            raise InputError(
                f"The learner {self.learner.name!r} of party {self.name!r} must give {len(rows)} rows of 1 to {self.dim} values. "
                f"Got an array of shape {values.shape}."
            )
        if self.fine_tuning is not None and self.fine_tuning.network is not None:
            values = values + apply(self.fine_tuning.network, rows, device)
        return values if self.purse is None else np.clip(values, -self.bound, self.bound)

    @property
    def bound(self) -> float:
        """Within which values lie, known before any row is seen; infinite where the learner is not a private one."""
        exact = self.purse is not None and WITHOUT_NOISE in self.purse.used
        return np.inf if exact else self.learner.bound

    @property
    def learner_name(self) -> str:
        """How its values are made, for messages."""
        learner = self.learner.chosen() if isinstance(self.learner, Auto) and self.learner.chosen_ else self.learner
        if self.fine_tuning is None:
            return learner.name
        return "rounds" if self.fine_tuning.alone else f"{learner.name}, tuned"

    @property
    def model(self) -> str:
        """Digest of what was learnt: by it the host sees that training and prediction come from the same model."""
        alone = self.fine_tuning is not None and self.fine_tuning.alone  # then the learner may never have learnt
        tensors = {} if alone else dict(self.learner.state())
        if self.fine_tuning is not None and self.fine_tuning.network is not None:
            tensors |= {
                f"tuned.{name}": value.cpu().numpy() for name, value in self.fine_tuning.network.state_dict().items()
            }
        return checksum("model", {}, tensors)[:16]

    @property
    def encoder(self) -> str:
        """Digest of how columns become values: preparation and model."""
        prepared = json.dumps(self.preparation.to_json(), sort_keys=True)
        return hashlib.sha256(f"{self.model}\n{prepared}".encode()).hexdigest()

    @property
    def disclosed_epsilon(self) -> float | None:
        """What a row may have cost so far: epsilon once for its id as long as its cell stays, and per message without ids."""
        return None if self.local_epsilon is None else self.local_epsilon * max(self.state.answered, 1)

    def message(self, values: Rows, present: NDArray[np.bool_] | None, **rows: Any) -> Representation:
        """Put values into a message, written by the codec that was frozen when the guest learnt."""
        assert self.codec is not None
        dim = self.codec.decoded_dim(values.shape[1])
        protection = stated(self.learner)
        fewer = dim < self.dim and not self.settings.bytes_per_row and not protection
        hinted = f"{getattr(self.learner, 'hinted_', 0)} of {dim} values by hints" if self.state.hints else ""
        lowered = f"dim lowered from {self.dim} to {dim}" if fewer else ""
        rows.setdefault("rows", row_digest(len(values) if present is None else len(present)))
        return Representation.encode(
            values,
            self.codec,
            self.name,
            run=self.run,
            present=present,
            learner=self.learner_name,
            model=self.model,
            **rows,
            **blurring.stated(self.noise),
            spent=None if self.purse is None else to_text(self.purse.spent),
            note="; ".join(filter(None, (protection, hinted, lowered))),
            hints=self.state.hints,
        )
