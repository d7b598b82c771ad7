"""Bytes for all guests together, shared out among them by how much there is to tell: where all of them are at hand.

A guest of a federation knows nothing of the others, and there is one message from each: there the host divides evenly.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import numpy as np

from fedonce.data.table import Table
from fedonce.errors import parameter_error
from fedonce.learners import PCA, Cooccurrence
from fedonce.messages.codecs import Codec
from fedonce.messages.codecs.budget import LEAST_BYTES, MOST_BYTES, SAMPLE, shared_out
from fedonce.party.checks import check_bytes_per_row
from fedonce.party.guest import Guest
from fedonce.party.parameters import ByGuest, values
from fedonce.party.writing import check_bits
from fedonce.training.loop import Rows, pick_device
from fedonce.training.randomness import party_generator


def check_bytes(
    owner: str, encoding: type[Codec], per_row: ByGuest[float | None], total: float | None, anywhere: bool
) -> None:
    """Raise where bytes per row cannot be meant, or have no place beside the rest; `anywhere`: values may lie anywhere."""
    for given in values(per_row):
        check_bytes_per_row(owner, given)
        check_bits(owner, encoding, given)
    if total is not None and not isinstance(per_row, Mapping | None):
        wanted = "left out, or by guest, beside bytes_total, which is shared out among all others"
        raise parameter_error(owner, "bytes_per_row", wanted, per_row)
    check_bits(owner, encoding, total)
    for name, limits in (("bytes_per_row", values(per_row)), ("bytes_total", [total])):
        most = next((each for each in limits if each is not None), None)
        if most is not None and anywhere:
            wanted = "left out with noise, rounds or a privacy budget, whose values lie anywhere; give dim and bits"
            raise parameter_error(owner, name, wanted, most)


def check_bytes_total(owner: str, total: object, own: Mapping[str, float], guests: int) -> float:
    """Return how many bytes are left for those that have none of their `own`; raise where the total cannot be shared out."""
    number = isinstance(total, int | float | np.number) and not isinstance(total, bool)
    if not (number and LEAST_BYTES <= float(str(total)) <= guests * MOST_BYTES):
        raise parameter_error(owner, "bytes_total", f"a number from {LEAST_BYTES:g} to {MOST_BYTES:g} a guest", total)
    left, others = float(str(total)) - sum(own.values()), guests - len(own)
    if left < others * LEAST_BYTES - 1e-9:
        asked = f", beside the {sum(own.values()):g} that bytes_per_row gives to some" if own else ""
        raise parameter_error(
            owner, "bytes_total", f"at least {LEAST_BYTES:g} for each of {others} guests{asked}", total
        )
    return left


def shares(guests: Mapping[str, Guest], tables: Mapping[str, Table], left: float) -> dict[str, float]:
    """Return the bytes per row of each guest: what steps of one length take at all of them (reverse water-filling).

    Looked at are the principal components of prepared columns, which are standardised and so of one scale at all guests; for
    categories of many values their vectors (`Cooccurrence`), which are about as large.
    """
    names = [name for name in guests if name in tables and tables[name].n_rows]
    parts = [_values(guests[name], tables[name]) for name in names]
    found = shared_out(parts, [tables[name].n_rows for name in names], left)
    return dict.fromkeys(guests, LEAST_BYTES) | dict(zip(names, found, strict=True))


def _values(guest: Guest, table: Table) -> Rows:
    """Return what rows of a guest are about, as numbers of the scale of its standardised columns."""
    preparation = copy.copy(guest.preparation).fit(table)
    rows = preparation.transform(table)
    rows = rows[:: max(1, len(rows) // SAMPLE)]
    coded = preparation.coded or tuple(place for place, width in enumerate(guest.learner.embeddings) if width)
    rng, device = party_generator(guest.random_state, guest.name), pick_device(guest.device)
    if coded:
        vectors = Cooccurrence()
        vectors.fit(rows, guest.dim, rng, device, coded)
        return vectors.transform(rows, device)
    components = PCA()
    components.fit(rows, guest.dim, rng, device)
    return components.transform(rows, device)
