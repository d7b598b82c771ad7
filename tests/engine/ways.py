"""The same parties, tables and settings over each engine: in one process, by files, and over two transports of a federation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from itertools import count
from pathlib import Path

import numpy as np

import fedonce
from fedonce import read_table
from fedonce.data.table import Table
from fedonce.engine.files import FilesEngine
from fedonce.engine.local import LocalEngine
from fedonce.federation.answer import Responder
from fedonce.federation.collecting import Terms
from fedonce.federation.engine import RoundsFederationEngine
from fedonce.federation.request import Request
from fedonce.federation.tables import GuestTables
from fedonce.jobs.settings import estimator_seed
from fedonce.messages.representation import Representation
from fedonce.party import Guest, Host
from fedonce.rounds.settings import Rounds
from fedonce.rows import alignment
from fedonce.rows.alignment import AgreedRows
from fedonce.rows.ids import Naming
from tests.federation.faults import POLICY
from tests.federation.memory import MemoryTransport
from tests.federation.parties import COLUMNS, FREELY, Parties, write_csv
from tests.federation.pretended import Clock

UNKEYED = 'ids = ["hashed", "agreed"]\n'
RUN, GUESTS, ABSENT = "june", ("shop", "telco"), "cinema"
ROWS, NEW = 160, 40
SEED = estimator_seed(0)


def write_tables(folder: Path) -> None:
    """Write a table per party, all in one order of rows; the label is the host's."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, 16))
    y = (x[:, 0] + x[:, 4] * x[:, 5] + x[:, 8] > 0).astype(int)
    for party, (first, last) in COLUMNS.items():
        write_csv(folder / f"{party}.csv", x[:, first:last], range(ROWS), first, y if party == "bank" else None)


def a_host() -> Host:
    return Host("bank", epochs=2, run=RUN, random_state=SEED)


def a_guest(name: str, kind: type[Guest] = Guest) -> Guest:
    return kind(name, "pca", 3, run=RUN, random_state=SEED, naming=Naming("hashed"))


class Damaged(Guest):
    """A guest whose message arrives damaged."""

    def learn(self, *arguments, **given):
        message = super().learn(*arguments, **given)
        data = message.to_bytes()
        object.__setattr__(message, "to_bytes", lambda: data[:-1] + bytes([data[-1] ^ 1]))
        return message


class Way:
    """Parties over one kind of engine.

    `engine` lets guests learn, and with `absent` also waits for one that is not there; `predicting` asks for values of the first
    rows, of the models that an engine left; `broken` cannot use what the shop sends.
    """

    def __init__(self, folder: Path) -> None:
        write_tables(folder)
        self.folder = folder
        self.tables = {name: read_table(folder / f"{name}.csv", id="customer") for name in COLUMNS}
        self.label, self.own = self.tables["bank"].pop("churned")
        self.numbers = count()

    def first(self, table: Table) -> Table:
        return table.take(np.arange(ROWS) < NEW)

    def reference(self) -> dict[str, Representation]:
        """Return the guests' messages without any engine."""
        return {name: a_guest(name).learn(self.tables[name]) for name in GUESTS}

    def close(self) -> None:
        """End what was started."""


class Local(Way):
    def engine(self, absent: bool = False, kind: type[Guest] = Guest) -> LocalEngine:
        names = (*GUESTS, ABSENT) if absent else GUESTS
        guests = {name: a_guest(name, kind if name == "shop" else Guest) for name in names}
        return LocalEngine(guests, self.tables, {ABSENT: np.zeros(ROWS, bool)})

    def predicting(self, engine: LocalEngine) -> LocalEngine:
        return LocalEngine(engine.parties, {name: self.first(table) for name, table in self.tables.items()}, {})

    def broken(self) -> LocalEngine:
        return self.engine(kind=Damaged)


class Files(Way):
    def engine(self, absent: bool = False, kind: type[Guest] = Guest) -> FilesEngine:
        self.guests = {name: a_guest(name, kind if name == "shop" else Guest) for name in GUESTS}
        sent = {name: guest.learn(self.tables[name]).to_bytes() for name, guest in self.guests.items()}
        return self._files(sent, (*GUESTS, ABSENT) if absent else GUESTS)

    def predicting(self, engine: FilesEngine) -> FilesEngine:
        sent = {name: guest.represent(self.first(self.tables[name])).to_bytes() for name, guest in self.guests.items()}
        return self._files(sent, GUESTS)

    def broken(self) -> FilesEngine:
        return self.engine(kind=Damaged)

    def _files(self, sent: Mapping[str, bytes], expect: tuple[str, ...]) -> FilesEngine:
        folder = self.folder / f"sent{next(self.numbers)}"
        folder.mkdir()
        paths = [folder / f"{name}.fedonce" for name in sent]
        for path, data in zip(paths, sent.values(), strict=True):
            path.write_bytes(data)
        return FilesEngine(RUN, paths, expect=expect)


class Federation(Way):
    """Guests that answer requests; a subclass says over which transport, and how long to wait for one that is not there."""

    def engine(self, absent: bool = False, dim: int = 3) -> RoundsFederationEngine:
        names = (*GUESTS, ABSENT) if absent else GUESTS
        asked = {name: self._ask(name, "learn", learner="pca", dim=dim, seed=0) for name in names}
        engine = self._over(asked, absent, least=1)
        engine.ask_rounds = self._ask_rounds
        return engine

    def predicting(self, engine: RoundsFederationEngine) -> RoundsFederationEngine:
        ids, models = self.first(self.own).ids, self._models(engine)
        asked = {
            name: self._ask(
                name,
                "represent",
                naming="agreed",
                model=model,
                nonce="00",
                rows=alignment.agreed_rows(ids, "bank", name, RUN),
            )
            for name, model in models.items()
        }
        self.agreed = tuple(AgreedRows.from_bytes(request.rows) for request in asked.values())
        return self._over(asked, False, least=0)

    def broken(self) -> RoundsFederationEngine:
        """The shop's policy allows fewer values."""
        asked = {"shop": self._ask("shop", "learn", learner="pca", dim=65, seed=0)}
        return self._over(asked, False, least=1)

    def _models(self, engine: RoundsFederationEngine) -> dict[str, str]:
        return {name: request.fingerprint for name, request in engine.asked.items()} | engine.tuned

    def _ask(self, guest: str, what: str, **settings) -> Request:
        return Request("bank", guest, RUN, what, fedonce.__version__, **settings)

    def _ask_rounds(self, rounds: Rounds) -> dict[str, Request]:
        asked = {}
        for name in GUESTS:
            rows = alignment.agreed_rows(self.own.ids, "bank", name, RUN)
            places = AgreedRows.from_bytes(rows).positions(self.own.ids, None)
            order = np.full(ROWS, -1, np.int64)
            order[places[places >= 0]] = np.flatnonzero(places >= 0)
            model = self._ask(name, "learn", learner="pca", dim=3, seed=0).fingerprint
            settings = {key: value for key, value in asdict(rounds).items() if value is not None}
            asked[name] = self._ask(name, "rounds", rows=rows, order=order, model=model, nonce="00", rounds=settings)
        return asked

    def _over(self, asked: Mapping[str, Request], absent: bool, least: int) -> RoundsFederationEngine:
        raise NotImplementedError


class Memory(Federation):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.responders = {}
        for name in GUESTS:
            kit = folder / "kits" / name
            kit.mkdir(parents=True)
            GuestTables(folder / f"{name}.csv", "customer").to_file(kit / "guest.toml")
            (kit / "policy.toml").write_text(FREELY + POLICY + UNKEYED)
            self.responders[name] = Responder(kit, name, lambda *told: None)

    def _over(self, asked: Mapping[str, Request], absent: bool, least: int) -> RoundsFederationEngine:
        clock, folder = Clock(), self.folder / f"received{next(self.numbers)}"
        return RoundsFederationEngine(
            MemoryTransport(self.responders),
            asked,
            folder,
            Terms(60.0, least),
            self._reading(asked),
            clock=clock,
            sleep=clock.sleep,
        )

    def _reading(self, asked):
        """Read answers to predictions, too, of which the host knows how many values they have."""
        return lambda guest, data: Representation.from_bytes(data, guest, 3)


class Flare(Memory):
    def __init__(self, folder: Path) -> None:
        Federation.__init__(self, folder)
        self.parties = Parties(folder, (*GUESTS, ABSENT))
        write_tables(folder)
        for name in GUESTS:
            self.parties.policy(name, POLICY + UNKEYED)
        self.parties.start("bank", *GUESTS)

    def _over(self, asked: Mapping[str, Request], absent: bool, least: int) -> RoundsFederationEngine:
        from fedonce.federation.flare.engine import NvflareEngine

        terms = Terms(time.monotonic() + (30.0 if absent else 120.0), least)
        folder = self.folder / f"received{next(self.numbers)}"
        return NvflareEngine(self.parties.kit("bank"), asked, folder, terms, self._reading(asked))

    def close(self) -> None:
        self.parties.close()
