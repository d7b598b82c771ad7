"""How a guest's message names its rows: by an agreed order, by ids, or by their place."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedonce.data.table import Table
from fedonce.errors import FedOnceWarning, InputError
from fedonce.messages.representation import Representation, row_digest
from fedonce.rows.ids import Ids, Naming, normalise
from fedonce.training.loop import Rows

if TYPE_CHECKING:
    from fedonce.rows.alignment import AgreedRows

GUESSABLE = (
    "The message of party {party!r} names rows by hashes without a key: whoever can list the ids (customer numbers, "
    "addresses) can find out which are inside. Share a secret (naming), or agree on rows by an alignment (agreed)."
)


class Guest(Protocol):
    """What is needed of a guest."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def run(self) -> str:
        """The training that its messages belong to."""

    @property
    def learnt_naming(self) -> tuple[str, tuple[str, ...]] | None:
        """How it named rows when it learnt."""

    def message(self, values: Rows, present: NDArray[np.bool_] | None, **rows: Any) -> Representation:
        """Put values into a message."""


def addressed(
    guest: Guest,
    own: Table,
    values: Rows,
    mask: NDArray[np.bool_] | None,
    agreed: AgreedRows | None,
    naming: Naming | None,
) -> Representation:
    """Put values into a message in the agreed order, or with ids, or by position where the table has no ids."""
    if own.ids is None:
        if agreed is not None:
            raise InputError(f"Party {guest.name!r} has agreed rows and a table without ids; name the column of ids.")
        return guest.message(values, mask)
    if mask is not None:
        raise InputError(f"Party {guest.name!r} has a table with ids, which say what is present; leave 'present' out.")
    if agreed is not None:
        return _agreed_message(guest, own.ids, values, agreed, naming)
    if naming is None and guest.learnt_naming is not None and guest.learnt_naming[0] == "keyed":
        raise InputError(
            f"Party {guest.name!r} named its rows by keyed hashes when it learnt; give the same secret again (naming), "
            "or the rows of an alignment (agreed).",
            parameter=("naming", "agreed"),
        )
    if naming is None:
        naming = Naming()
        text = GUESSABLE.format(party=guest.name)
        warnings.warn(FedOnceWarning(text, parameter=("naming", "agreed")), stacklevel=4)
    keys = naming.keys(own.ids, guest.run)
    order = np.lexsort(keys.T[::-1])  # the order of keys says nothing, that of the table might
    digest = row_digest(len(keys), keys[order])
    return guest.message(values[order], None, rows=digest, ids=keys[order], naming=naming.label, forms=naming.forms)


def _agreed_message(guest: Guest, ids: Ids, values: Rows, agreed: AgreedRows, naming: Naming | None) -> Representation:
    """Put the agreed rows that the guest has into a message, which then needs no ids."""
    if agreed.guest != guest.name or agreed.run != guest.run:
        raise InputError(
            f"The agreed rows are for party {agreed.guest!r}, run {agreed.run!r}; this is {guest.name!r}, run {guest.run!r}."
        )
    secret = None if naming is None else naming.secret
    positions = agreed.positions(normalise(ids, agreed.forms), secret)
    held = positions >= 0
    if not held.any():
        raise InputError(f"Party {guest.name!r} has none of the agreed rows; is this the table that was aligned?")
    return guest.message(values[positions[held]], None if held.all() else held, rows=agreed.digest)
