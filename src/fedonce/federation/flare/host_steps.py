"""A host's training and predictions over a federation: the steps of `fedonce federation fit` and `predict`.

The same `Host`, the same messages and the same protocol as with files; only the engine is another. Beside the model the host
keeps what was asked and what arrived (`federation/`): a host that starts again goes on, and asks nobody to learn twice.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedonce
from fedonce import protocol
from fedonce.data.table import Table
from fedonce.errors import FederationError, InputError, MessageError
from fedonce.federation.collecting import Collector, Terms
from fedonce.federation.flare.engine import NvflareEngine, flare_transport
from fedonce.federation.flare.kits import Kit, open_kit
from fedonce.federation.request import Request
from fedonce.federation.runfile import RunFile
from fedonce.federation.status import GuestStatus
from fedonce.jobs import steps
from fedonce.messages.keys import read_secret
from fedonce.messages.representation import Representation
from fedonce.messages.traffic import Traffic
from fedonce.party import Host, storage
from fedonce.party.storage import model_folder
from fedonce.rounds.settings import Rounds
from fedonce.rows import alignment
from fedonce.rows.alignment import AgreedRows
from fedonce.rows.ids import fingerprint, normalise
from fedonce.rows.matching import Matching
from fedonce.system.disk import write_file
from fedonce.system.sizes import MESSAGE_LIMIT
from fedonce.system.text import Tell

FOLDER, FACTS, EVENTS, RECEIVED = "federation", "run.json", "events.jsonl", "received"
ALIGNMENT = ("alignment.request", "alignment.state")

Watch = Callable[[GuestStatus], None]


@dataclass
class Log:
    """Events as JSON lines in the model's folder: who stands where, and when; never a value of the data."""

    path: Path
    watch: Watch
    stage: str = "learn"

    def __call__(self, status: GuestStatus) -> None:
        """Write a line, and pass the news on."""
        self.write(stage=self.stage, **status.told)
        self.watch(status)

    def write(self, **event: Any) -> None:
        """Write a line."""
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **event})
        self.path.touch(mode=0o600)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


@dataclass(frozen=True)
class Outcome:
    """What a training over a federation came to."""

    host: Host
    rows: int
    fitted: protocol.Fitted
    statuses: dict[str, GuestStatus]
    lost: dict[str, str]
    aligned: dict[str, GuestStatus]

    @property
    def told(self) -> dict[str, Any]:
        """What to say, as JSON values."""
        traffic = self.fitted.traffic
        return {
            "host": self.host.name,
            "run": self.host.run,
            "rows": self.rows,
            "task": self.host.task,
            "took part": list(traffic.per_guest),
            **_by_state(self.statuses),
            "lost in rounds": self.lost,
            "guests": {name: _figures(status, traffic, self.fitted) for name, status in self.statuses.items()},
            "messages": traffic.messages,
            "bytes": traffic.bytes,
            "payload bytes": traffic.payload_bytes,
            "id bytes": traffic.id_bytes,
            "bytes to guests": traffic.bytes_to_guests,
            "rounds": traffic.rounds,
            "alignment bytes": sum(status.bytes or 0 for status in self.aligned.values()),
            "wire bytes": sum(status.wire or 0 for status in (*self.statuses.values(), *self.aligned.values())),
            "epsilon": None if self.host.ledger is None else self.host.ledger.epsilon(),
        }


def _by_state(statuses: Mapping[str, GuestStatus]) -> dict[str, Any]:
    return {
        "late": [name for name, status in statuses.items() if status.state == "late"],
        "refused": {name: status.reason for name, status in statuses.items() if status.state == "refused"},
        "failed": {
            name: status.reason for name, status in statuses.items() if status.state == "late" and status.reason
        },
    }


def _figures(status: GuestStatus, traffic: Traffic, fitted: protocol.Fitted) -> dict[str, Any]:
    sent = fitted.representations.get(status.guest)
    return {
        "state": status.state,
        "overlap": fitted.overlap.get(status.guest, 0.0),
        "bytes": traffic.per_guest.get(status.guest, 0),
        "payload bytes": 0 if sent is None else sent.payload_bytes,
        "wire bytes": status.wire,
        "seconds": status.seconds,
        "waited": status.waited,
        "jobs": status.tries,
    }


@dataclass
class HostRun:
    """One run of a host: its table, its kit, what it asks of whom."""

    file: RunFile
    kit: Kit
    out: Path
    party: Host
    own: Table
    label: NDArray[Any]
    log: Log
    end: float
    secret: bytes | None
    lost: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, GuestStatus] = field(default_factory=dict)  # guests that an alignment found no row of
    agreed: dict[str, bytes] = field(default_factory=dict)
    aligned: dict[str, GuestStatus] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where what arrived is kept."""
        return self.out / FOLDER

    @property
    def matching(self) -> Matching:
        """How the rows of messages are found."""
        return replace(self.party.matching, agreed=tuple(map(AgreedRows.from_bytes, self.agreed.values())))

    def run(self) -> tuple[protocol.Fitted, NvflareEngine]:
        """Align, let guests learn, train, and go on by rounds where it is wanted."""
        if self.file.align:
            self._align()
        asked = {name: self._ask_learn(name) for name in self.file.guests if name not in self.left_out}
        rounds = self.file.rounds_settings()
        self.log.stage = "learn"
        terms = self._terms(self.end)
        with closing(NvflareEngine(self.kit, asked, self.folder / RECEIVED, terms, self._read, self._watch)) as engine:
            engine.ask_rounds = self._ask_rounds
            fitted = protocol.fit(self.party, self.own, self.label, engine, rounds, self.matching)
        return fitted, engine

    def _terms(self, end: float) -> Terms:
        file = self.file
        return Terms(end, file.min_guests, file.silence, file.max_message, file.max_memory)

    def _watch(self, status: GuestStatus) -> None:
        if status.state == "lost":
            self.lost[status.guest] = status.reason
        self.log(status)

    def _ask(self, guest: str, what: str, **more: Any) -> Request:
        rows = self.agreed.get(guest)
        naming = "hashed" if self.secret is None else f"keyed {fingerprint(self.secret)}"
        if rows is not None:
            naming = "agreed"
        return Request(
            self.party.name,
            guest,
            self.file.run,
            what,
            fedonce.__version__,
            forms=self.party.forms,
            naming=naming,
            rows=more.pop("rows", rows),
            seed=self.file.seed,
            **more,
        )

    def _read(self, guest: str, data: bytes) -> Representation:
        """Decode a message; raise where it cannot be used, or is about none of the host's rows."""
        dim = self.file.learn_settings(guest)["dim"]  # fewer, never more
        message = Representation.from_bytes(data, guest, dim, self.file.max_memory)
        if message.run != self.file.run:
            raise MessageError(f"its message belongs to run {message.run!r}, this is run {self.file.run!r}")
        if self.party.ledger is not None:
            self.party.spent_of(message)
        held, _ = self.matching.rows(self.own.n_rows, self.own.ids).match(message)
        if not len(held):
            raise MessageError(
                f"none of the rows of its message is one of the host's {self.own.n_rows}; look at the columns of ids, and how "
                "they are written (normalise_ids)"
            )
        return message

    def _align(self) -> None:
        """Find out with each guest which rows both have; a request that was made before is used again."""
        ids = self.own.ids
        assert ids is not None
        # What an alignment depends on, and no more: another one would name the rows anew, and guests would have to learn again.
        depends = [self.file.run, self.file.reveal, ",".join(self.party.forms), *ids]
        about = hashlib.sha256("\n".join(depends).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        asked_file, state_file = (self.folder / f"{name}-{about}" for name in ALIGNMENT)
        if not (asked_file.exists() and state_file.exists()):
            points, state = alignment.request(ids, self.party.name, self.file.run, self.file.reveal, self.party.forms)
            write_file(state_file, state, private=True)
            write_file(asked_file, points, private=True)
        points, state = asked_file.read_bytes(), state_file.read_bytes()

        def read(guest: str, data: bytes) -> alignment.Matched:
            try:
                found = alignment.finish(state, data, ids)
            except InputError as error:  # they share no row
                raise MessageError(str(error)) from None
            if found.guest != guest:
                raise MessageError(f"its answer to the alignment is by {found.guest!r}")
            return found

        self.log.stage = "align"
        asked = {name: self._ask(name, "align", points=points) for name in self.file.guests}
        half = (time.monotonic() + self.end) / 2  # who does not align in time leaves the others time to learn
        terms = self._terms(half)
        transport = flare_transport(self.kit, terms)
        with closing(Collector(transport, self.folder / RECEIVED, terms, read, self._watch)) as collector:
            matched = collector.collect(asked)
        self.aligned = collector.statuses
        self.left_out = {name: status for name, status in collector.statuses.items() if status.bytes is None}
        if self.file.reveal == "both":
            for name, found in matched.items():
                shared = ids[found.positions]
                self.agreed[name] = alignment.agreed_rows(
                    shared, self.party.name, name, self.file.run, self.party.forms, self.secret, found.salt
                )

    def _ask_rounds(self, rounds: Rounds) -> dict[str, Request]:
        """Ask the guests that sent a message to go on: about the agreed rows, or the host's rows by hashes."""
        ids = self.own.ids
        assert ids is not None
        self.log.stage = "rounds"
        asked = {}
        for name in self.party.dims:
            rows = self.agreed.get(name) or alignment.agreed_rows(
                ids, self.party.name, name, self.file.run, self.party.forms, self.secret
            )
            agreed = AgreedRows.from_bytes(rows)
            places = agreed.positions(normalise(ids, agreed.forms), self.secret)  # the host's row of each agreed one
            order = np.full(len(ids), -1, np.int64)
            order[places[places >= 0]] = np.flatnonzero(places >= 0)
            asked[name] = self._ask(
                name,
                "rounds",
                rows=rows,
                order=order,
                model=self.model_of(name),
                nonce=secrets.token_hex(8),
                rounds={key: value for key, value in asdict(rounds).items() if value is not None},
            )
        return asked

    def _ask_learn(self, guest: str) -> Request:
        plan = self.party.plan
        text = None if plan is None else plan.to_text()
        return self._ask(guest, "learn", plan=text, **self.file.learn_settings(guest))

    def model_of(self, guest: str) -> str:
        """Return by which fingerprint a guest knows its model."""
        return self._ask_learn(guest).fingerprint


def fit(file: RunFile, kit: Path, out: Path, watch: Watch, tell: Tell, refit: bool = False) -> Outcome:
    """Train by a run file: ask guests, wait for them, train, save."""
    opened = _host_kit(kit)
    file.check_guests(opened.guests)
    steps.check_folder(out)
    with storage.alone(out, tell):
        return _fit(file, opened, out, watch, tell, refit)


def _fit(file: RunFile, opened: Kit, out: Path, watch: Watch, tell: Tell, refit: bool) -> Outcome:
    steps.model_before(out, refit and storage.exists(out))  # raises where there is a model, or its budget is spent
    training = _prepare(file, opened, out, watch, tell)
    training.log.write(stage="start", run=file.run, guests=list(file.guests), version=fedonce.__version__)
    fitted, engine = training.run()
    statuses = training.left_out | engine.statuses
    messages = engine.received()
    party = training.party
    models = {name: engine.tuned.get(name) or training.model_of(name) for name in party.dims}
    party.save(out, messages)
    facts = {
        "kit": str(opened.path.resolve()),
        "models": models,
        "run": file.run,
        "forms": list(party.forms),
        "secret": None if file.secret is None else str(file.secret.resolve()),
        "max_message": file.max_message,
        "max_memory": file.max_memory,
    }
    write_file(training.folder / FACTS, json.dumps(facts, indent=2).encode(), private=True)
    outcome = Outcome(party, training.own.n_rows, fitted, statuses, training.lost, training.aligned)
    training.log.write(stage="end", **outcome.told)
    return outcome


def _prepare(file: RunFile, kit: Kit, out: Path, watch: Watch, tell: Tell) -> HostRun:
    """Read the host's table and make the host, before anybody is asked."""
    end = time.monotonic() + file.deadline
    tell(f"reading {file.table}")
    own, y, reading = steps.labelled_table(file.table, None, kit.name, **file.table_settings())
    task = file.task or steps.infer_task(y)
    steps.check_task(task, y, file.label)
    secret = None if file.secret is None else read_secret(file.secret)
    plan = file.plan(kit.name, own.n_rows)
    bounds, labels = steps.public(None if file.budget is None else file.budget.public, plan is not None)
    party = Host(
        kit.name,
        task,
        file.recipe,
        file.host_epochs,
        run=file.run,
        random_state=steps.estimator_seed(file.seed),
        purse=None if plan is None else steps.purse(plan, kit.name),
        public=bounds,
        plan=plan,
        labels=labels,
        secret=secret,
        forms=file.forms,
        max_memory=file.max_memory,
        model=file.model,
        reading=reading,
    )
    party.check_label(y, own.n_rows)
    model_folder(out)
    folder = model_folder(out / FOLDER)
    return HostRun(file, kit, out, party, own, y, Log(folder / EVENTS, watch), end, secret)


def _host_kit(path: Path) -> Kit:
    kit = open_kit(path)
    if kit.role != "host":
        raise FederationError(
            f"The kit {path} is that of the guest {kit.name!r}; training and prediction are the host's."
        )
    return kit


@dataclass(frozen=True)
class Predicted:
    """What a prediction over a federation came to."""

    host: Host
    table: Table
    prediction: protocol.Prediction
    statuses: dict[str, GuestStatus]

    @property
    def told(self) -> dict[str, Any]:
        """What to say, as JSON values."""
        traffic = self.prediction.traffic
        return {
            "rows": self.table.n_rows,
            "guests": self.prediction.overlap,
            "absent": list(self.prediction.absent),
            **_by_state(self.statuses),
            "seconds": {name: status.seconds for name, status in self.statuses.items()},
            "messages": traffic.messages,
            "bytes": traffic.bytes,
            "payload bytes": traffic.payload_bytes,
            "wire bytes": sum(status.wire or 0 for status in self.statuses.values()),
        }


def predict(
    table: Path,
    model: Path,
    deadline: float,
    watch: Watch,
    tell: Tell,
    kit: Path | None = None,
    care: steps.Care | None = None,
) -> Predicted:
    """Ask guests for their values of a table's rows, by hashes of the ids, and predict."""
    end = time.monotonic() + deadline
    facts = _facts(model)
    opened = _host_kit(kit or Path(facts["kit"]))
    party = Host.load(model)
    if party.reading is None:
        raise InputError(f"The model in {model} does not say how tables are read.")
    tell(f"reading {table}")
    own = party.reading.read(table, party.name)
    if own.ids is None or not own.n_rows:
        raise InputError(f"{table} has no rows to predict.")
    secret = None if facts["secret"] is None else read_secret(Path(facts["secret"]))
    rows = {
        name: alignment.agreed_rows(own.ids, party.name, name, party.run, party.forms, secret) for name in party.dims
    }
    agreed = tuple(AgreedRows.from_bytes(data) for data in rows.values())
    matching = Matching(secret, party.forms, agreed, facts["max_memory"])
    asked = {
        name: Request(
            party.name,
            name,
            party.run,
            "represent",
            fedonce.__version__,
            forms=party.forms,
            naming="agreed",
            model=facts["models"][name],
            nonce=secrets.token_hex(8),
            rows=rows[name],
        )
        for name in party.dims
    }

    def read(guest: str, data: bytes) -> Representation:
        message = Representation.from_bytes(data, guest, party.dims[guest], matching.max_memory)
        if message.maker != party.makers[guest]:
            raise MessageError("its values are not made by the model of the training; train again")
        matching.rows(own.n_rows, own.ids).match(message)
        return message

    log = Log(model_folder(model / FOLDER) / EVENTS, watch, "predict")
    folder = model / FOLDER / f"predictions-{secrets.token_hex(4)}"
    terms = Terms(end, 0, max_message=facts["max_message"], max_memory=facts["max_memory"])
    engine = NvflareEngine(opened, asked, folder, terms, read, log)
    try:
        prediction = protocol.predict(party, own, engine, matching)
    finally:
        engine.close()
        shutil.rmtree(folder, ignore_errors=True)
    done = Predicted(party, own, prediction, engine.statuses)
    log.write(stage="predicted", **done.told)
    (care or steps.Care()).check(party, prediction, _reasons(engine.statuses))
    return done


def _reasons(statuses: Mapping[str, GuestStatus]) -> dict[str, str]:
    """Return why guests did not answer, where that is known."""
    return {name: status.reason or status.state for name, status in statuses.items() if status.bytes is None}


def _facts(model: Path) -> dict[str, Any]:
    path = model / FOLDER / FACTS
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        limits = {"max_message": found.get("max_message", MESSAGE_LIMIT), "max_memory": found.get("max_memory")}
        return {"kit": str(found["kit"]), "models": dict(found["models"]), "secret": found["secret"], **limits}
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"The folder {model} has no model that was trained over a federation; name the --out of `fedonce federation fit`."
        ) from None
