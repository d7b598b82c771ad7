"""What a host asks of its guests: to align, to learn, to go on in rounds, to represent rows; and which answers can be used."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedonce
from fedonce.data.table import Table
from fedonce.errors import MessageError
from fedonce.federation.request import Request
from fedonce.federation.runfile import RunFile
from fedonce.messages.hints import Hints, stated_in_words
from fedonce.messages.representation import Representation
from fedonce.party import Host
from fedonce.rounds.settings import Rounds
from fedonce.rows import alignment
from fedonce.rows.alignment import AgreedRows
from fedonce.rows.ids import Ids, fingerprint, normalise
from fedonce.rows.matching import Matching


@dataclass(frozen=True)
class Asking:
    """The requests of one training.

    Parameters
    ----------
    file : RunFile
        What is asked of whom.
    party : Host
        Who asks.
    agreed : dict by guest
        Files of the rows that an alignment found.
    hints : dict by guest
        Files of hints at the labels.
    """

    file: RunFile
    party: Host
    agreed: Mapping[str, bytes] = field(default_factory=dict)
    hints: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def matching(self) -> Matching:
        """How the rows of messages are found."""
        return replace(self.party.matching, agreed=tuple(map(AgreedRows.from_bytes, self.agreed.values())))

    def align(self, points: bytes) -> dict[str, Request]:
        """Ask all guests which rows both have."""
        return {name: self._request(name, "align", points=points) for name in self.file.guests}

    def learn(self, guest: str) -> Request:
        """Ask a guest to learn."""
        plan = self.party.plan
        text = None if plan is None else plan.to_text()
        hints, settings = self.hints.get(guest), self.file.learn_settings(guest)
        return self._request(guest, "learn", plan=text, hints=hints, **settings)

    def rounds(self, rounds: Rounds, ids: Ids) -> dict[str, Request]:
        """Ask the guests that sent a message to go on: about the agreed rows, or the host's rows by hashes."""
        party, asked = self.party, {}
        for name in party.dims:
            rows = self.agreed.get(name) or alignment.agreed_rows(
                ids, party.name, name, self.file.run, party.forms, party.secret
            )
            asked[name] = self._request(
                name,
                "rounds",
                rows=rows,
                order=_order(AgreedRows.from_bytes(rows), ids, party.secret),
                model=self.learn(name).fingerprint,
                nonce=secrets.token_hex(8),
                rounds={key: value for key, value in asdict(rounds).items() if value is not None},
            )
        return asked

    def _request(self, guest: str, what: str, **more: Any) -> Request:
        rows, secret = self.agreed.get(guest), self.party.secret
        naming = "hashed" if secret is None else f"keyed {fingerprint(secret)}"
        return Request(
            self.party.name,
            guest,
            self.file.run,
            what,
            fedonce.__version__,
            forms=self.party.forms,
            naming=naming if rows is None else "agreed",
            rows=more.pop("rows", rows),
            seed=self.file.seed,
            **more,
        )

    def read(self, guest: str, data: bytes, own: Table) -> Representation:
        """Decode a message; raise where it cannot be used, or is about none of the host's rows."""
        dim = self.file.learn_settings(guest)["dim"]  # fewer, never more
        message = Representation.from_bytes(data, guest, dim, self.file.max_memory)
        if message.run != self.file.run:
            raise MessageError(f"its message belongs to run {message.run!r}, this is run {self.file.run!r}")
        self._check_hints(guest, message.hints)
        if self.party.ledger is not None:
            self.party.spent_of(message)
        held, _ = self.matching.rows(own.n_rows, own.ids).match(message)
        if not len(held):
            raise MessageError(
                f"none of the rows of its message is one of the host's {own.n_rows}; look at the columns of ids, and how "
                "they are written (normalise_ids)"
            )
        return message

    def _check_hints(self, guest: str, stated: str) -> None:
        """Raise where a message says of hints something else than this host gave the guest: ledgers would repeat it."""
        given = Hints.from_bytes(self.hints[guest]).stated if guest in self.hints else ""
        if stated != given:
            claims, gave = (f"hints at {stated_in_words(each)}" if each else "no hints" for each in (stated, given))
            raise MessageError(
                f"its message says that {guest} learnt with {claims}, and in this run the host gave it {gave}; ask {guest} what "
                "it learnt with"
            )


def _order(agreed: AgreedRows, ids: Ids, secret: bytes | None) -> NDArray[np.int64]:
    """Return for each of the host's rows its place among the agreed ones; -1: it is none of them."""
    places = agreed.positions(normalise(ids, agreed.forms), secret)
    order = np.full(len(ids), -1, np.int64)
    order[places[places >= 0]] = np.flatnonzero(places >= 0)
    return order


@dataclass(frozen=True)
class AskingRows:
    """The requests of one prediction, and whether answers can be used."""

    party: Host
    own: Table
    models: Mapping[str, str]
    rows: Mapping[str, bytes]  # by guest the file of the rows that it is asked about: hashes of ids
    matching: Matching

    @classmethod
    def of(cls, party: Host, own: Table, ids: Ids, models: Mapping[str, str], limits: Matching) -> AskingRows:
        """Return the requests about rows with ids; of `limits` the secret and the memory count."""
        secret, rows = limits.secret, {}
        for name in party.dims:
            rows[name] = alignment.agreed_rows(ids, party.name, name, party.run, party.forms, secret)
        agreed = tuple(map(AgreedRows.from_bytes, rows.values()))
        return cls(party, own, models, rows, replace(limits, forms=party.forms, agreed=agreed))

    def represent(self) -> dict[str, Request]:
        """Ask guests for the values of rows, each about its own file of them."""
        party = self.party
        return {
            name: Request(
                party.name,
                name,
                party.run,
                "represent",
                fedonce.__version__,
                forms=party.forms,
                naming="agreed",
                model=self.models[name],
                nonce=secrets.token_hex(8),
                rows=self.rows[name],
            )
            for name in party.dims
        }

    def read(self, guest: str, data: bytes) -> Representation:
        """Decode a message; raise where it cannot be used."""
        party = self.party
        message = Representation.from_bytes(data, guest, party.dims[guest], self.matching.max_memory)
        if message.maker != party.makers[guest]:
            raise MessageError("its values are not made by the model of the training; train again")
        self.matching.rows(self.own.n_rows, self.own.ids).match(message)
        return message
