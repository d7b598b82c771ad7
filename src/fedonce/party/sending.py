"""How a guest's message names its rows: by an agreed order, by ids, or by their place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedonce.data.table import Table
from fedonce.errors import InputError
from fedonce.messages.representation import row_digest
from fedonce.rows.ids import Ids, Naming, normalise, unnamed

if TYPE_CHECKING:
    from fedonce.rows.alignment import AgreedRows


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


@dataclass(frozen=True, eq=False)
class Addressed:
    """Which rows of a table a message has, and how it names them.

    Parameters
    ----------
    order : array of int or None
        Their places in the table, in the order of the message; None: all, as they stand.
    present : array of bool or None
        Which of the agreed rows these are; None: all.
    names : dict
        What the message says of its rows: entries of `Representation`.
    """

    order: NDArray[np.intp] | None = None
    present: NDArray[np.bool_] | None = None
    names: dict[str, Any] = field(default_factory=dict)


def addressed(
    guest: Guest, own: Table, mask: NDArray[np.bool_] | None, agreed: AgreedRows | None, naming: Naming | None
) -> Addressed:
    """Return the rows of a message: in the agreed order, or with ids, or by position where the table has no ids."""
    if own.ids is None:
        if agreed is not None:
            raise InputError(f"Party {guest.name!r} has agreed rows and a table without ids; name the column of ids.")
        return Addressed(present=mask)
    if mask is not None:
        raise InputError(f"Party {guest.name!r} has a table with ids, which say what is present; leave 'present' out.")
    if agreed is not None:
        return _by_agreement(guest, own.ids, agreed, naming)
    if naming is None and guest.learnt_naming is not None and guest.learnt_naming[0] == "keyed":
        raise InputError(
            f"Party {guest.name!r} named its rows by keyed hashes when it learnt; give the same secret again (naming), "
            "or the rows of an alignment (agreed).",
            parameter=("naming", "agreed"),
        )
    if naming is None:
        raise unnamed(f"The message of party {guest.name!r}")
    keys = naming.keys(own.ids, guest.run)
    order = np.lexsort(keys.T[::-1])  # the order of keys says nothing, that of the table might
    names = {"rows": row_digest(len(keys), keys[order]), "ids": keys[order]}
    return Addressed(order, names=names | {"naming": naming.label, "forms": naming.forms})


def _by_agreement(guest: Guest, ids: Ids, agreed: AgreedRows, naming: Naming | None) -> Addressed:
    """Return the agreed rows that the guest has; the message then needs no ids."""
    if agreed.guest != guest.name or agreed.run != guest.run:
        raise InputError(
            f"The agreed rows are for party {agreed.guest!r}, run {agreed.run!r}; this is {guest.name!r}, run {guest.run!r}."
        )
    secret = None if naming is None else naming.secret
    positions = agreed.positions(normalise(ids, agreed.forms), secret)
    held = positions >= 0
    if not held.any():
        raise InputError(f"Party {guest.name!r} has none of the agreed rows; is this the table that was aligned?")
    return Addressed(positions[held], None if held.all() else held, {"rows": agreed.digest})
