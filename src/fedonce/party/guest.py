"""Guest: a party without labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedonce import learners
from fedonce.data.preparation import Preparation, Public
from fedonce.data.schema import Reading
from fedonce.data.table import Table
from fedonce.errors import FedOnceWarning, InputError, parameter_error, shown
from fedonce.learners import Auto
from fedonce.learners.base import WITHOUT_NOISE
from fedonce.messages import codecs
from fedonce.messages.codecs import Codec
from fedonce.messages.envelope import checksum
from fedonce.messages.representation import Representation, row_digest
from fedonce.party.checks import check_party, check_purse, public_of
from fedonce.party.saving import guest_from, keep_guest
from fedonce.party.tuned import Tuned
from fedonce.privacy import LocalNoise
from fedonce.privacy.budget import Purse
from fedonce.privacy.ledger import to_text
from fedonce.rows.ids import Ids, Naming, normalise
from fedonce.training.checkpoints import Progress, watched
from fedonce.training.loop import Rows, apply, pick_device
from fedonce.training.randomness import party_generator
from fedonce.training.settings import Epoch

if TYPE_CHECKING:
    from fedonce.rows.alignment import AgreedRows

NOISE_LIMIT = 1e6
GUESSABLE = (
    "The message of party {party!r} names rows by hashes without a key: whoever can list the ids (customer numbers, "
    "addresses) can find out which are inside. Share a secret (naming), or agree on rows by an alignment (agreed)."
)


class Guest:
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
    run : str
        The training that its messages belong to.
    noise : float
        Scale of Gaussian noise on every value that leaves the guest, after clipping each row to norm 1; 0: neither.
    purse : Purse, optional
        What it may spend of a privacy budget; its learner then learns privately. None: no budget, and no guarantee.
    public : Public, optional
        With a budget: bounds and categories of its columns.
    naming : Naming, optional
        Where its tables have ids: how messages name rows without an agreed order. None: by hashes without a key, and a warning.
    random_state : int
        Seed; together with the name it fixes all that the guest draws.
    device : str
        "cpu", "cuda" or "auto".
    """

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
    ) -> None:
        check_party("Guest", name, random_state, run)
        check_noise("Guest", "noise", noise)
        check_purse("Guest", name, purse, public)
        if purse is not None and noise:
            wanted = "0 with a privacy budget: its centre and radius are figures of private rows that nobody has priced"
            raise parameter_error("Guest", "noise", wanted, noise)
        self.encoding = codecs.find(bits, "Guest")
        if not isinstance(dim, int | np.integer) or dim < 1:
            raise parameter_error("Guest", "dim", "a positive integer", dim)
        self.name, self.dim, self.bits, self.run = name, dim, self.encoding.choice(), run
        self.learner = learners.make(learner, epochs, "Guest")
        self.purse = purse
        self.preparation = Preparation(name, shape, self.learner.embeddings, public_of(purse, public))
        self.random_state, self.device, self.naming = random_state, device, naming
        self.noise = LocalNoise(float(noise)) if noise else None
        self.tuned: Tuned | None = None  # what more rounds have changed
        self.codec: Codec | None = None  # how its values are written, fitted when it has learnt
        self.history: list[Epoch] = []
        self.reading: Reading | None = None  # how its tables are read from files
        self.learnt_naming: tuple[str, tuple[str, ...]] | None = (
            None  # from disk: how it named rows; without the secret
        )

    def save(self, folder: str | Path, leaving: Mapping[str, bytes] | None = None) -> Path:
        """Write what was learnt to a folder, which stays with the guest: to represent rows later, on any machine.

        `leaving` are files that leave it, its message, by their names in the folder: they change together with the model.
        """
        return keep_guest(self, folder, leaving or {})

    @classmethod
    def load(cls, folder: str | Path) -> Guest:
        """Read a guest from the folder that `save` wrote."""
        return guest_from(folder, Guest)

    def learn(
        self,
        table: Any,
        present: ArrayLike | None = None,
        agreed: AgreedRows | None = None,
        progress: Progress | None = None,
    ) -> Representation:
        """Learn from the guest's training rows, without labels, and return the message for the host.

        `present` says which of the agreed rows `table` holds; None: all of them, in the agreed order. Where the table has ids,
        `agreed` is what an alignment found: all rows serve the learning, and the agreed ones are sent. Without it all are.
        `progress` is told how far the learning is; where it has a folder, a learning that was killed goes on from there.
        """
        own = Table.of(table)
        if not own.n_rows:
            raise InputError(f"Party {self.name!r} has no rows to learn from.")
        mask = self._mask(own, present)
        rows = self.preparation.fit(own).transform(own)
        self.tuned = None
        with watched(progress):
            values = self._fit(rows, own.ids)
            return self._send(own, values, mask, agreed)

    def _fit(self, rows: Rows, ids: Ids | None) -> Rows:
        """Fit the learner and the codec to prepared rows, and return the values to be sent."""
        rng = party_generator(self.random_state, self.name)
        if self.purse is not None:
            self.learner.fit_private(rows, self.dim, rng, pick_device(self.device), self.purse)
            values = self.values(rows)
            bounded, dim = np.isfinite(self.bound), values.shape[1]
            self.codec = self.encoding.public(self.bound, dim) if bounded else self.encoding.fit(values)
            return values
        self.history = self.learner.fit(rows, self.dim, rng, pick_device(self.device))
        values = self.values(rows)
        if self.noise is not None:
            self.noise.fit(values)
            values = self._blurred(values, rows, ids)
        self.codec = self.encoding.fit(values)
        return values

    def represent(
        self, table: Any, present: ArrayLike | None = None, agreed: AgreedRows | None = None
    ) -> Representation:
        """Return the message for rows to be predicted, with what was learnt and the codec frozen then."""
        if self.codec is None:
            raise InputError(f"Party {self.name!r} has not learnt yet; call learn first.")
        own = Table.of(table)
        mask = self._mask(own, present)
        rows = self.preparation.transform(own)
        return self._send(own, self._blurred(self.values(rows), rows, own.ids), mask, agreed)

    def _blurred(self, values: Rows, rows: Rows, ids: Ids | None) -> Rows:
        """Add noise, where the guest does; a guest that has a key for it gives the same row the same noise each time."""
        if self.noise is None or self.noise.key is None or ids is None:
            return values if self.noise is None else self.noise.blur(values)
        model = self.model
        names = [f"{model} {name}".encode("utf-8", "surrogatepass") for name in ids]
        # Of the prepared rows, which depend on nothing but the row itself: the last bit of values depends on the rows beside it.
        return self.noise.blur(values, names, [row.tobytes() for row in np.ascontiguousarray(rows)])

    def _mask(self, own: Table, present: ArrayLike | None) -> NDArray[np.bool_] | None:
        """Check that `present` is a boolean per agreed row, and that the table holds the marked rows."""
        if present is None:
            return None
        mask = np.asarray(present)
        marked = int(mask.sum()) if mask.dtype == bool and mask.ndim == 1 else None
        if marked != own.n_rows:
            what = f"is {shown(present)}" if marked is None else f"marks {marked}"
            raise InputError(
                f"Party {self.name!r} has a table of {own.n_rows} rows, and 'present' {what}; it must be a "
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
        if self.tuned is None:
            return learner.name
        return "rounds" if self.tuned.alone else f"{learner.name}, tuned"

    def _send(
        self, own: Table, values: Rows, mask: NDArray[np.bool_] | None, agreed: AgreedRows | None
    ) -> Representation:
        """Put values into a message in the agreed order, or with ids, or by position where the table has no ids."""
        if own.ids is None:
            if agreed is not None:
                raise InputError(
                    f"Party {self.name!r} has agreed rows and a table without ids; name the column of ids."
                )
            return self.message(values, mask)
        if mask is not None:
            raise InputError(
                f"Party {self.name!r} has a table with ids, which say what is present; leave 'present' out."
            )
        if agreed is not None:
            return self._agreed_message(own.ids, values, agreed)
        naming = self.naming or Naming()
        if self.naming is None and self.learnt_naming is not None and self.learnt_naming[0] == "keyed":
            raise InputError(
                f"Party {self.name!r} named its rows by keyed hashes when it learnt; give the same secret again (naming), "
                "or the rows of an alignment (agreed).",
                parameter=("naming", "agreed"),
            )
        if self.naming is None:
            text = GUESSABLE.format(party=self.name)
            warnings.warn(FedOnceWarning(text, parameter=("naming", "agreed")), stacklevel=3)
        keys = naming.keys(own.ids, self.run)
        order = np.lexsort(keys.T[::-1])  # the order of keys says nothing, that of the table might
        digest = row_digest(len(keys), keys[order])
        return self.message(values[order], None, rows=digest, ids=keys[order], naming=naming.label, forms=naming.forms)

    def _agreed_message(self, ids: Ids, values: Rows, agreed: AgreedRows) -> Representation:
        """Put the agreed rows that the guest has into a message, which then needs no ids."""
        if agreed.guest != self.name or agreed.run != self.run:
            raise InputError(
                f"The agreed rows are for party {agreed.guest!r}, run {agreed.run!r}; this is {self.name!r}, run {self.run!r}."
            )
        secret = None if self.naming is None else self.naming.secret
        positions = agreed.positions(normalise(ids, agreed.forms), secret)
        held = positions >= 0
        if not held.any():
            raise InputError(f"Party {self.name!r} has none of the agreed rows; is this the table that was aligned?")
        return self.message(values[positions[held]], None if held.all() else held, rows=agreed.digest)

    @property
    def model(self) -> str:
        """Digest of what was learnt: by it the host sees that training and prediction come from the same model."""
        alone = self.tuned is not None and self.tuned.alone  # then the learner may never have learnt
        tensors = {} if alone else dict(self.learner.state())
        if self.tuned is not None and self.tuned.network is not None:
            tensors |= {f"tuned.{name}": value.cpu().numpy() for name, value in self.tuned.network.state_dict().items()}
        return checksum("model", {}, tensors)[:16]

    def message(self, values: Rows, present: NDArray[np.bool_] | None, **rows: Any) -> Representation:
        """Put values into a message, written by the codec that was frozen when the guest learnt."""
        assert self.codec is not None
        lowered = values.shape[1] < self.dim
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
            noise=0.0 if self.noise is None else self.noise.scale,
            spent=None if self.purse is None else to_text(self.purse.spent),
            note=f"dim lowered from {self.dim} to {values.shape[1]}" if lowered else "",
        )


def check_noise(owner: str, parameter: str, noise: object) -> None:
    """Raise unless `noise` is a scale that noise can have."""
    if isinstance(noise, bool) or not isinstance(noise, int | float | np.number) or not 0 <= noise <= NOISE_LIMIT:
        raise parameter_error(owner, parameter, f"a number from 0 (no noise) to {NOISE_LIMIT:g}", noise)
