"""What a guest does for an answer, with its own tables: learn, represent rows, align, train on in rounds."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import fedonce
from fedonce.assess.attacks.base import NOT_FOUND, READABLE
from fedonce.data.files import read_table
from fedonce.data.schema import Reading
from fedonce.data.table import Table
from fedonce.errors import InputError, MessageError
from fedonce.federation.disclosures import within
from fedonce.federation.hinting import hints_for
from fedonce.federation.record import ASKED, COLUMNS, MESSAGE, REBUILT
from fedonce.federation.request import Request
from fedonce.federation.tables import GuestTables
from fedonce.federation.workplace import STATE, Failed, Refused, Workplace
from fedonce.jobs import Learning, TableSource
from fedonce.jobs import guest as guest_job
from fedonce.jobs.sealing import Keys
from fedonce.jobs.settings import purse as purse_of
from fedonce.messages.keys import read_secret
from fedonce.party import Guest
from fedonce.party.storage import model_folder
from fedonce.privacy.budget import Plan
from fedonce.rounds.guest import GuestSide
from fedonce.rounds.settings import Rounds
from fedonce.rows import alignment
from fedonce.rows.alignment import AgreedRows
from fedonce.rows.ids import Ids, Naming, fingerprint, normalise
from fedonce.system.disk import write_file
from fedonce.training.checkpoints import Progress
from fedonce.training.settings import Training

AT_ONCE = 50  # rounds that are written down together, before the first of them
ROUNDS = {"rounds", "epochs", "bytes", "batch", "rate", "bits", "start"}

logger = logging.getLogger(__name__)


def learn(workplace: Workplace, request: Request, folder: Path) -> None:
    """Learn from the training table; keep the model, the request and the message."""
    tables = workplace.tables()
    if request.nonce:
        raise Refused("a request to learn has no nonce: asked twice, it has one answer.")
    workplace.check_allowance(request)
    workplace.tell("reading")
    own, reading = _training_table(workplace, request, tables)
    party = _new_guest(workplace, request, tables, reading)
    agreed = _rows(request) if request.naming == "agreed" else None
    hints = hints_for(request, party, own, agreed)

    def tell(epoch: int, epochs: int, stage: str) -> None:
        workplace.tell("learning", epoch, epochs)
        if workplace.stopped():  # what is learnt so far is kept, and nobody waits for the rest
            raise Failed("learning was stopped; it goes on from its last epoch when asked again")

    workplace.tell("learning")
    begun_with = f"{fedonce.__version__} {request.fingerprint} {_digest(tables.data)} {' '.join(reading.columns)}"
    progress = Progress(tell, folder / STATE, begun_with, forgets=False)
    with workplace.intended(request):
        key = _noise_key(workplace, party)
        message = party.learn(own, agreed=agreed, progress=progress, noise_key=key, hints=hints)
        if (kept := within(workplace, party, own, agreed, key)) is not own:
            message = party.represent(kept, agreed=agreed, noise_key=key)
        figures = _rebuilt(party, own)
        if request.local_epsilon is None:  # a refusal by figures of raw rows would disclose more than the answers
            workplace.check_rebuilt(figures)
        write_file(folder / COLUMNS, json.dumps(reading.columns).encode(), private=True)
        write_file(folder / REBUILT, json.dumps(figures).encode(), private=True)
        write_file(folder / ASKED, request.to_bytes(), private=True)
        guest_job.save(party, Keys().close(message), folder, MESSAGE)
    progress.forget()


def _new_guest(workplace: Workplace, request: Request, tables: GuestTables, reading: Reading) -> Guest:
    """Return a guest that is to learn as it is asked to."""
    late = (request.noise, request.seed or 0, request.bytes_per_row, request.local_epsilon, request.protect)
    learning = Learning(request.run, request.learner, request.dim, request.bits, request.epochs, *late)
    plan = None if request.plan is None else Plan.from_text(request.plan)
    purse = None if plan is None else purse_of(plan, workplace.name)
    naming = _naming(workplace, request, tables)
    return guest_job.new_guest(workplace.name, learning, reading, naming, purse, tables.public_for(request))


def _noise_key(workplace: Workplace, party: Guest) -> bytes | None:
    """Return the key by which the guest's noise is that of the row: a host that asks again gets nothing to average."""
    return workplace.record.noise_key() if party.perturbs else None


def _rebuilt(party: Guest, own: Table) -> dict[str, Any]:
    """Attack what is about to be sent, and return figures: no column has a name in them."""
    found = guest_job.attacked(party, own)
    figures = {
        "columns": len(found.columns),
        "unknown": sum(each.unknown for each in found.columns),
        "alarming": len(found.with_verdict(READABLE)),
        "by anyone": sum(each.finding is not None and not each.finding.knows for each in found.with_verdict(READABLE)),
        "best": round(found.worst, 4),
    }
    logger.info(
        "run %s: quick attacks read %d of %d columns, and some of %d more; the best one to %.2f of what guessing misses",
        party.run,
        figures["alarming"],
        figures["columns"],
        figures["columns"] - figures["alarming"] - len(found.with_verdict(NOT_FOUND)),
        figures["best"],
    )
    return figures


def _asked(workplace: Workplace, path: Path) -> Request:
    """Return what was asked when the guest learnt."""
    try:
        return Request.from_bytes(path.read_bytes())
    except MessageError as error:
        logger.warning("%s cannot be read: %s", path, error)
        raise Refused(
            f"{workplace.name} learnt with another version of fedonce; train again, under another run."
        ) from None


def represent(workplace: Workplace, request: Request, folder: Path) -> None:
    """Represent those of the rows asked about that the guest has."""
    tables = workplace.tables()
    workplace.check_policy(request, ())
    party = _learnt(workplace, request)
    workplace.tell("reading")
    own = _read_again(workplace, party, tables.predict or tables.data)
    asked, secret = _rows(request), _secret(tables)
    held = asked.positions(normalise(_ids(own), asked.forms), secret)
    if not (held >= 0).any():
        raise Refused(f"{workplace.name} has none of the {len(held)} rows asked about.")
    workplace.tell("representing")
    naming = None if secret is None else Naming("keyed", secret, asked.forms)
    noise_key = _noise_key(workplace, party)
    rows = within(workplace, party, own.take(held[held >= 0]), None, noise_key)
    message = party.represent(rows, agreed=asked, naming=naming, noise_key=noise_key)
    write_file(folder / MESSAGE, message.to_bytes(), private=True)


def align(workplace: Workplace, request: Request, folder: Path) -> None:
    """Answer which rows both have, by private set intersection."""
    tables = workplace.tables()
    policy = workplace.check_policy(request, ())
    if request.points is None:
        raise Refused("the request for an alignment holds no ids.")
    workplace.tell("reading")
    with _readable(workplace, tables.data):
        own = read_table(tables.data, id=tables.id, columns=(), party=workplace.name)
    workplace.tell("aligning")
    response = alignment.respond(request.points, _ids(own), workplace.name, request.forms, policy.max_align_rows)
    write_file(folder / MESSAGE, response, private=True)


def open_rounds(workplace: Workplace, request: Request) -> RoundsResponder:
    """Lay the guest's rows in the host's order, and get the model ready to be trained on."""
    tables = workplace.tables()
    workplace.check_policy(request, ())
    party = _learnt(workplace, request)
    if _asked(workplace, workplace.kept(request.model) / ASKED).plan is not None:
        raise Refused("what was learnt with a privacy budget takes part in no rounds: they have no private version.")
    if not set(request.rounds or ()) <= ROUNDS:
        raise Refused(f"the request for rounds may set {', '.join(sorted(ROUNDS))}, and nothing else.")
    workplace.check_rounds(request, party.dim)
    own = _read_again(workplace, party, tables.data)
    asked, order = _rows(request), request.order
    places = asked.positions(normalise(_ids(own), asked.forms), _secret(tables))
    rounds = Rounds(**{**(request.rounds or {}), "start": "one-shot"}) if request.rounds else None
    if order is None or rounds is None or (len(order) and (order.max() >= len(places) or order.min() < -1)):
        raise Refused("the request for rounds has no order of its rows, or does not say how many.")
    if len(np.unique(order[order >= 0])) < int((order >= 0).sum()):
        raise Refused("the order of the rows names one twice, whose values would leave twice in a round.")
    found = np.where(order >= 0, places[order], -1)
    present = found >= 0
    held = None if present.all() else present
    side = GuestSide(party, own.take(found[present]), held, rounds, len(order), request.host)
    return RoundsResponder(workplace, party, side, request)


@dataclass
class RoundsResponder:
    """A guest during rounds: answers one word of the host after the other."""

    workplace: Workplace
    party: Guest
    side: GuestSide
    request: Request
    began: bool = field(default=False, init=False)
    done: int = field(default=0, init=False)

    def answer(self, said: dict[str, Any]) -> bytes:
        """Return the guest's message, empty where none is due."""
        gradient = said.get("gradient")
        with self.workplace.discreet():
            try:
                if isinstance(gradient, bytes) and gradient:
                    self.side.backward(gradient)
                return self._word(str(said.get("word")), said)
            except MessageError as error:
                raise Refused(str(error)) from None

    def _word(self, word: str, said: dict[str, Any]) -> bytes:
        if word == "open":
            return self.side.opening()
        if word == "begin":
            self.side.begin(_training(said.get("training")), int(str(said.get("order"))))
            self.began = True
            return b""
        if word == "forward" and self.began:
            return self._forward()
        if word == "close" and self.began:
            return self._close()
        raise Refused(f"{word[:20]!r} is no word of the rounds, or comes too early.")

    def _forward(self) -> bytes:
        self.done += 1
        most = (self.request.rounds or {}).get("rounds")
        if most is not None and self.done > most:  # the policy was asked about so many, and no more
            raise Refused(f"{self.workplace.name} agreed to {most} rounds.")
        if self.done % AT_ONCE == 1 and most is not None:
            self.workplace.begin_rounds(self.request, min(AT_ONCE, most - self.done + 1))
        return self.side.forward()

    def _close(self) -> bytes:
        message = self.side.close()
        self.workplace.keep_tuned(self.request, self.side.dim)
        folder, before = (
            model_folder(self.workplace.kept(self.request.fingerprint)),
            self.workplace.kept(self.request.model),
        )
        self.party.save(folder)
        for name in (COLUMNS, ASKED):  # with these it is a model that can be asked for
            write_file(folder / name, (before / name).read_bytes(), private=True)
        return message


def _training(content: Any) -> Training:
    """Return how everyone trains, from what the host says."""
    try:
        return Training(**content)
    except (TypeError, InputError) as error:
        raise Refused(f"how to train cannot be read ({error}).") from None


def _training_table(workplace: Workplace, request: Request, tables: GuestTables) -> tuple[Table, Reading]:
    """Read the columns that the request names and the policy allows."""
    public = tables.public_for(request)
    with _readable(workplace, tables.data):
        source = TableSource(tables.data, tables.id, None, tables.drop, tables.types)
        own, reading = source.read(workplace.name, public=public)
    used = workplace.check_policy(request, reading.columns).used_columns(request, list(reading.columns))
    if not used:
        raise Refused(f"{workplace.name} has no column that it may use for this.")
    types = {name: reading.types[name] for name in used}
    return own.select([own.names.index(name) for name in used]), replace(reading, columns=tuple(used), types=types)


def _naming(workplace: Workplace, request: Request, tables: GuestTables) -> Naming | None:
    """Return how the message names rows, as the host asks; with a secret, both must have the same."""
    secret = _secret(tables)
    if request.naming == "hashed":
        return Naming("hashed", forms=request.forms)
    if request.naming == "agreed":
        return None if secret is None else Naming("keyed", secret, request.forms)
    if secret is None or request.naming != f"keyed {fingerprint(secret)}":
        raise Refused(
            f"{request.host} names rows with a secret, and {workplace.name} has {'none' if secret is None else 'another one'}; "
            "give the guest the same file when it starts (secret)."
        )
    return Naming("keyed", secret, request.forms)


def _secret(tables: GuestTables) -> bytes | None:
    return None if tables.secret is None else read_secret(tables.secret)


def _rows(request: Request) -> AgreedRows:
    if request.rows is None:
        raise Refused("the request does not say which rows it is about.")
    try:
        return AgreedRows.from_bytes(request.rows, request.host)
    except MessageError as error:
        raise Refused(str(error)) from None


def _learnt(workplace: Workplace, request: Request) -> Guest:
    """Return the guest as it learnt for this run, if its policy would still let it."""
    folder = workplace.kept(request.model)
    known = workplace.record.tally().has_model(request.model)  # what never left is not left by way of predictions
    if not request.model or not known or not (folder / ASKED).exists():
        raise Refused(f"{workplace.name} has no model of run {request.run!r} as it is asked for; train again.")
    party = Guest.load(folder)
    if party.run != request.run:
        raise Refused(f"the model that is asked for belongs to another run than {request.run!r}.")
    workplace.check_again(_asked(workplace, folder / ASKED), folder)
    return party


def _read_again(workplace: Workplace, party: Guest, path: Path) -> Table:
    """Read a table as it was read for learning."""
    assert party.reading is not None
    try:
        return party.reading.read(path, workplace.name)
    except InputError as error:
        if not path.exists():
            raise _gone(workplace) from error
        raise Failed(
            f"the table of {workplace.name} has changed: it no longer has the columns that the model was learnt from, or not of "
            "the same kind. The guest's log says which."
        ) from error


@contextmanager
def _readable(workplace: Workplace, path: Path) -> Iterator[None]:
    """Say for the host's eyes that a table cannot be read."""
    try:
        yield
    except InputError as error:
        if not path.exists():
            raise _gone(workplace) from error
        raise Failed(f"{workplace.name} cannot read its table; its log says why.") from error


def _gone(workplace: Workplace) -> Failed:
    return Failed(
        f"the table of {workplace.name} is not there; the guest must put it back, or name another (federation start)."
    )


def _ids(own: Table) -> Ids:
    assert own.ids is not None  # the kit names the column of ids
    return own.ids


def _digest(path: Path) -> str:
    """Return what tells a file that was changed: its size and the time of its last change."""
    found = path.stat()
    return f"{found.st_size} {found.st_mtime_ns}"
