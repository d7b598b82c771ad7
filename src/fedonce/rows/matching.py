"""Which of the host's rows a message is about: by an agreed order, or by the ids that it carries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedonce.errors import MessageError
from fedonce.messages.representation import Representation, row_digest
from fedonce.rows.ids import Ids, Keys, fingerprint, keys_of, locate, normalise, repeated

if TYPE_CHECKING:
    from fedonce.rows.alignment import AgreedRows

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class Matching:
    """How a host finds the rows of a message, and how much memory the guests' values may take.

    Parameters
    ----------
    secret, forms
        Where rows have ids: the secret that guests hash them with, and how ids are made alike (`fedonce.rows.ids`).
    agreed : tuple of AgreedRows
        What alignments found: the order of rows in the messages of those guests.
    max_memory : int, optional
        Bytes that the guests' values may take, of all rows and guests together; None: a quarter of the machine's memory.
    """

    secret: bytes | None = field(default=None, repr=False)
    forms: tuple[str, ...] = ()
    agreed: tuple[AgreedRows, ...] = ()
    max_memory: int | None = None

    def rows(self, n_rows: int, ids: Ids | None) -> HostRows:
        """Return rows of the host that messages are matched with."""
        return HostRows(n_rows, ids, self.secret, self.forms, self.agreed)


@dataclass(frozen=True)
class HostRows:
    """The host's rows, which lead: what a guest lacks is absent, what it has beyond them is left out.

    Parameters
    ----------
    n_rows : int
        How many there are.
    ids : array of text, optional
        Their ids; None: rows are known by their position, the same in every party's table.
    secret, forms
        The secret that ids are hashed with, and how they are made alike.
    agreed : tuple of AgreedRows
        What alignments found.
    digest : str, optional
        Name of the order of rows known by position; None: that of 0, 1, 2, ...
    """

    n_rows: int
    ids: Ids | None = None
    secret: bytes | None = field(default=None, repr=False)
    forms: tuple[str, ...] = ()
    agreed: tuple[AgreedRows, ...] = ()
    digest: str | None = None
    _keys: dict[str, Keys] = field(default_factory=dict, init=False, repr=False)

    def match(self, message: Representation) -> tuple[Positions, Positions]:
        """Return the host's rows that a message is about, and for each its place among the message's values."""
        if message.ids is not None:
            return self._by_ids(message, message.ids)
        if self.ids is None:
            return self._by_position(message)
        return self._by_agreement(message, self.ids)

    def _by_position(self, message: Representation) -> tuple[Positions, Positions]:
        expected = row_digest(self.n_rows) if self.digest is None else self.digest
        if message.rows != expected or message.n_rows != self.n_rows:
            raise _refused(message, f"it is about {message.n_rows} rows, or others than the host's {self.n_rows}")
        held = np.arange(self.n_rows) if message.present is None else np.flatnonzero(message.present)
        return held, np.arange(len(held))

    def _by_ids(self, message: Representation, keys: Keys) -> tuple[Positions, Positions]:
        if self.ids is None:
            raise _refused(
                message, "it names rows by ids, and the host's table has none; say which column has them (id)", "id"
            )
        if message.forms != self.forms:
            theirs, ours = (",".join(forms) or "not at all" for forms in (message.forms, self.forms))
            raise _refused(
                message, f"its ids were normalised {theirs}, the host's {ours}; use the same 'forms'", "forms"
            )
        check_naming(message, self.secret)
        if repeated(keys) is not None:
            raise _refused(message, "it has two values for the same row")
        if message.naming not in self._keys:
            self._keys[message.naming] = keys_of(message.naming, self.ids, self.secret, message.run, self.forms)
        found = locate(self._keys[message.naming], keys)
        held = np.flatnonzero(found >= 0)
        return held, found[held]

    def _by_agreement(self, message: Representation, own: Ids) -> tuple[Positions, Positions]:
        for agreed in self.agreed:
            if agreed.digest == message.rows and agreed.guest == message.party:
                break
        else:
            raise _refused(
                message,
                "it has no ids, and is not about rows that were agreed with this guest; give the rows of the alignment "
                "(agreed), or let the guest send hashes of its ids",
                "agreed",
            )
        if len(agreed.keys) != message.n_rows:
            raise _refused(message, f"it is about {message.n_rows} rows, and {len(agreed.keys)} were agreed")
        places = agreed.positions(normalise(own, agreed.forms), self.secret)
        if message.present is not None:
            places = places[message.present]
        taken = np.flatnonzero(places >= 0)
        return places[taken], taken


def check_naming(message: Representation, secret: bytes | None) -> None:
    """Refuse a message whose ids are not made with the host's secret, where it has one, or with one that the host lacks."""
    keyed = message.naming.startswith("keyed")
    if keyed and secret is None:
        raise _refused(message, "its ids are hashed with a secret; give it (secret)", "secret")
    if keyed and secret is not None and message.naming != f"keyed {fingerprint(secret)}":
        raise _refused(message, "its ids are hashed with another secret than the host's; both sides need the same file")
    if secret is not None and message.naming and not keyed:
        raise _refused(
            message,
            f"its ids are {message.naming}, made without the secret: anybody could have made them. Let the guest use the secret, "
            "or leave the host's out (secret)",
            "secret",
        )


def _refused(message: Representation, why: str, *parameters: str) -> MessageError:
    return MessageError(f"The message of party {message.party!r} is refused: {why}.", parameter=parameters)
