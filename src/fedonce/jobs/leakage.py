"""A guest's look at a message before it is sent: what attacks read in it, column by column."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedonce.assess import leakage_page
from fedonce.assess.attacked import Attacked
from fedonce.assess.attacks import chosen
from fedonce.assess.inspection import protected_by
from fedonce.assess.leakage import Leakage, what_leaks
from fedonce.data.table import Table
from fedonce.errors import FedOnceWarning, MessageError, parameter_error
from fedonce.jobs.settings import RowNames, private_key
from fedonce.jobs.tables import TableSource
from fedonce.messages import envelope
from fedonce.messages.keys import read_secret, unseal
from fedonce.messages.representation import DIM_LIMIT, Representation
from fedonce.rows.matching import HostRows, Positions
from fedonce.system.text import Tell, silent


@dataclass(frozen=True)
class LeakageReport:
    """What attacks read in a message, of how many of the table's rows, and the page that says so.

    Attributes
    ----------
    message : Representation
        What was attacked.
    rows : int
        Rows of the table that it is about.
    leakage : Leakage
        What was found.
    page : path or None
        The page, where one was asked for.
    """

    message: Representation
    rows: int
    leakage: Leakage
    page: Path | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        about = {"party": self.message.party, "run": self.message.run, "learner": self.message.learner}
        about |= {"checksum": self.message.checksum}
        sizes = {"rows": self.rows, "values per row": self.message.values.shape[1]}
        page = {} if self.page is None else {"page": str(self.page)}
        return about | sizes | self.leakage.as_json() | {"warning": self.leakage.warning} | page


@dataclass(frozen=True)
class LeakageJob:
    """Attack a message with the table that it was made from.

    Parameters
    ----------
    message : path
        The message, not sealed, or sealed to `rows.key`.
    table : TableSource
        The guest's table, read as for the learning.
    rows : RowNames
        The secret, or the agreed rows, by which the message names its rows; and the key to open sealed files.
    second : path, optional
        Another message of the guest about some of the same rows, to link the two.
    attacks : "all", "quick", or names of attacks
        Which attacks.
    refuse_above : float, optional
        Raise where an attack rebuilds more than this part of what guessing gets wrong, of a column or of whole records.
    html : path, optional
        File for a page of the result.
    seed : int
        Of what the attacks draw.
    """

    message: str | Path
    table: TableSource
    rows: RowNames = field(default_factory=RowNames)
    second: str | Path | None = None
    attacks: str | Sequence[str] = "all"
    refuse_above: float | None = None
    html: str | Path | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        chosen(self.attacks, "LeakageJob")
        if self.refuse_above is not None and not 0 <= self.refuse_above <= 1:
            raise parameter_error("LeakageJob", "refuse_above", "between 0 and 1", self.refuse_above)

    def run(self, tell: Tell = silent) -> LeakageReport:
        """Do it; `tell` is told each step in a line."""
        message = self._open(self.message)
        tell(f"reading {self.table.path}")
        own = self.table.read(message.party)[0]
        held, places = self._match(message, own)
        more: dict[str, Any] = {}
        if message.ids is not None and own.ids is not None:
            more = {"ids": message.ids[places], "naming": message.naming, "own_ids": own.ids[held]}
        if self.second is not None:
            held, places, more["second"] = self._second(own, held, places)
            more |= {name: None for name in ("ids", "own_ids") if name in more}
        rows = replace(own.take(held), ids=None)
        tell(f"attacking {len(held):,} rows of {message.values.shape[1]} values")
        plain = message.learner if not message.noise else ""  # with noise, nothing is sent as it is
        advise, more = self.attacks == "all", more | protected_by(message)
        found = what_leaks(message.values[places], rows, self.attacks, self.seed, advise, learner=plain, **more)
        if self.refuse_above is not None:
            found.check(self.refuse_above)
        page = None
        if self.html is not None:
            attacked = Attacked.of(message, found, self.attacks)
            page = leakage_page.write(found, message, Path(self.message), attacked, Path(self.html))
        return LeakageReport(message, len(held), found, page)

    def _open(self, path: str | Path) -> Representation:
        key = private_key(self.rows.key)
        data = envelope.read_bytes(path, "message")
        try:
            if envelope.kind_of(data) == "sealed":
                if key is None:
                    raise MessageError(
                        "it is sealed: look at it before it is sealed, or give the key (key)", parameter="key"
                    )
                data = unseal(data, key)
            return Representation.from_bytes(data, max_dim=DIM_LIMIT)
        except MessageError as error:
            raise error.found_in(path) from None

    def _match(self, message: Representation, own: Table) -> tuple[Positions, Positions]:
        """Return the table's rows that a message is about, and their places in it."""
        agreed = self.rows.agreed()
        secret = None if self.rows.secret is None else read_secret(self.rows.secret)
        known = HostRows(own.n_rows, own.ids, secret, message.forms, () if agreed is None else (agreed,))
        held, places = known.match(message)
        if not len(held):
            raise MessageError(
                f"The message of party {message.party!r} is about none of the rows of {self.table.path}."
            )
        if missing := len(message.values) - len(places):
            warnings.warn(
                f"{missing:,} of the message's {len(message.values):,} rows are not in {self.table.path}: is it the table that "
                "the message was made from? With another one, nothing seems to be read.",
                FedOnceWarning,
                stacklevel=3,
            )
        return held, places

    def _second(self, own: Table, held: Positions, places: Positions) -> tuple[Positions, Positions, Any]:
        """Return the rows that are in both messages, their places in the first, and their values in the second."""
        assert self.second is not None
        message = self._open(self.second)
        also, there = self._match(message, own)
        place_of = dict(zip(also.tolist(), there.tolist(), strict=True))
        both = [row for row, each in enumerate(held.tolist()) if each in place_of]
        if not both:
            raise MessageError(f"The messages {self.message} and {self.second} have no row in common.")
        return held[both], places[both], message.values[[place_of[each] for each in held[both].tolist()]]
