"""How a guest answers what a host asks: its own policy first, then its own tables, then one file; kept, to be sent again.

Under the request's fingerprint the guest keeps its answer and the model that made it. Asked again, it gives the same bytes
without looking at its table; killed in the middle of learning, it goes on from its last epoch. What the host is told of a refusal
or a failure is made here, for its eyes: no path, no value of the data, no column that the host did not name itself.
"""

from __future__ import annotations

import fcntl
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import fedonce
from fedonce import alignment, workflow
from fedonce.alignment import AgreedRows
from fedonce.crypto import read_secret
from fedonce.disk import write_file
from fedonce.errors import FedOnceError, InputError, MessageError
from fedonce.federation.asking import Request
from fedonce.federation.kits import GuestTables
from fedonce.federation.policy import Policy
from fedonce.ids import Naming, fingerprint, normalise
from fedonce.multiround import GuestSide, Rounds
from fedonce.party import Guest
from fedonce.preparation import Public
from fedonce.privacy.budget import Plan, Purse
from fedonce.progress import Progress
from fedonce.reading import Reading
from fedonce.storage import model_folder
from fedonce.tablefiles import read_table
from fedonce.tables import Table
from fedonce.training import Training

ANSWERS, MESSAGE, ASKED, STATE = "answers", "message.fedonce", "request.fedonce", "state"

logger = logging.getLogger(__name__)


class Refused(FedOnceError):  # noqa: N818  # what it is: an answer
    """The guest does not do what it is asked; the text is for the host's eyes."""


class Failed(FedOnceError):  # noqa: N818
    """The guest could not do what it is asked; the text is for the host's eyes, the cause for the guest's."""


class Tell(Protocol):
    """Where the guest stands: a word, and which epoch of how many."""

    def __call__(self, state: str, epoch: int | None = None, epochs: int | None = None) -> None:
        """Tell it."""


@dataclass(frozen=True)
class Desk:
    """A guest at its own tables.

    Parameters
    ----------
    kit : path
        The guest's kit: its tables and policy are named there, and its answers kept.
    name : str
        The guest's name.
    tell : callable
        Is told where the guest stands.
    stopped : callable
        Whether nobody waits for the answer any more.
    """

    kit: Path
    name: str
    tell: Tell
    stopped: Callable[[], bool] = lambda: False

    @classmethod
    def of(cls, workspace: Path, name: str, tell: Tell, stopped: Callable[[], bool]) -> Desk:
        """Return the desk of the kit that a FLARE client was started from."""
        return cls(workspace.resolve().parent, name, tell, stopped)

    def read(self, data: bytes) -> Request:
        """Read a request, and refuse one that is not for this guest or from another version."""
        try:
            request = Request.from_bytes(data)
        except MessageError as error:
            raise Refused(str(error)) from None
        if request.version != fedonce.__version__:
            raise Refused(
                f"{self.name} has fedonce {fedonce.__version__}, {request.host} has {request.version}; install the same "
                "version at both."
            )
        if request.guest != self.name:
            raise Refused(f"the request is for {request.guest!r}, this is {self.name!r}.")
        return request

    def answer(self, request: Request) -> Path:
        """Return the file with the answer: the one kept from before, or a new one."""
        folder = self.kit / ANSWERS / request.fingerprint
        with self._only_one(folder):
            message = folder / MESSAGE
            if message.exists():
                self._check_policy(request, request.columns or ())
                logger.info("%s of run %s was answered before: the same file again", request.what, request.run)
                return message
            make = {"learn": self._learn, "represent": self._represent, "align": self._align}[request.what]
            with self._discreet():
                make(request, folder)
            return message

    def open_rounds(self, request: Request) -> RoundsDesk:
        """Get ready for training on together."""
        with self._discreet():
            tables = self._tables()
            self._check_policy(request, ())
            party = self._learnt(request)
            own = self._read_again(party, tables.data)
            asked, forms_secret = self._rows(request), self._secret(tables)
            if request.order is None or not request.rounds:
                raise Refused("the request for rounds has no order of rows, or does not say how many.")
            places = asked.positions(normalise(self._ids(own), asked.forms), forms_secret)
            order = request.order
            if len(order) and (order.max() >= len(places) or order.min() < -1):
                raise Refused("the request for rounds has an order beyond its rows.")
            found = np.where(order >= 0, places[order], -1)
            present = found >= 0
            table = own.take(found[present])
            party.naming = None
            side = GuestSide(
                party, table, None if present.all() else present, Rounds(**request.rounds), len(order), request.host
            )
        return RoundsDesk(self, party, side, self.kit / ANSWERS / request.fingerprint, request)

    def _learn(self, request: Request, folder: Path) -> None:
        tables = self._tables()
        self.tell("reading")
        own, reading = self._training_table(request, tables)
        budget = None if request.plan is None else self._purse(request)
        public: Public | None = None
        if budget is not None:
            public, _ = workflow.public(tables.public, True)
        party = Guest(
            self.name, request.learner, request.dim, request.bits, request.epochs, run=request.run, noise=request.noise,
            random_state=workflow.estimator_seed(request.seed or 0), naming=self._naming(request, tables), purse=budget,
            public=public,
        )  # fmt: skip
        party.reading = reading
        agreed = self._rows(request) if request.naming == "agreed" else None
        self.tell("learning")
        progress = Progress(
            tell=lambda epoch, epochs, stage: self._epoch(epoch, epochs),
            folder=folder / STATE, fingerprint=f"{fedonce.__version__} {request.fingerprint} {_digest(tables.data)}",
        )  # fmt: skip
        message = party.learn(own, agreed=agreed, progress=progress)
        write_file(folder / ASKED, request.to_bytes(), private=True)
        workflow.save_guest(party, message, folder, MESSAGE, None, None)

    def _epoch(self, epoch: int, epochs: int) -> None:
        self.tell("learning", epoch, epochs)
        if self.stopped():  # what is learnt so far is kept, and nobody waits for the rest
            raise Failed("learning was stopped; it goes on from its last epoch when asked again")

    def _represent(self, request: Request, folder: Path) -> None:
        tables = self._tables()
        self._check_policy(request, ())
        party = self._learnt(request)
        self.tell("reading")
        own = self._read_again(party, tables.predict or tables.data)
        asked, secret = self._rows(request), self._secret(tables)
        held = asked.positions(normalise(self._ids(own), asked.forms), secret)
        if not (held >= 0).any():
            raise Refused(f"{self.name} has none of the {len(held)} rows asked about.")
        self.tell("representing")
        party.naming = None if secret is None else Naming("keyed", secret, asked.forms)
        message = party.represent(own.take(held[held >= 0]), agreed=asked)
        write_file(model_folder(folder) / MESSAGE, message.to_bytes(), private=True)

    def _align(self, request: Request, folder: Path) -> None:
        tables = self._tables()
        policy = self._check_policy(request, ())
        if request.points is None:
            raise Refused("the request for an alignment holds no ids.")
        self.tell("reading")
        own = self._read(tables.data, id=tables.id, columns=())
        self.tell("aligning")
        response = alignment.respond(request.points, self._ids(own), self.name, request.forms, policy.max_align_rows)
        write_file(model_folder(folder) / MESSAGE, response, private=True)

    def _training_table(self, request: Request, tables: GuestTables) -> tuple[Table, Reading]:
        """Read the columns that the request names and the policy allows."""
        own = self._read(tables.data, id=tables.id, columns=None, types=tables.types)
        names = [str(name) for name in own.names if name not in tables.drop]
        policy = self._check_policy(request, names)
        used = policy.used_columns(request, names)
        if not used:
            raise Refused(f"{self.name} has no column that it may use for this.")
        own = own.select([own.names.index(name) for name in used])
        return own, Reading(tables.id, tuple(used), {str(name): kind for name, kind in own.kinds.items()})

    def _check_policy(self, request: Request, columns: Any) -> Policy:
        tables = self._tables()
        policy = Policy.read(tables.policy or self.kit / "policy.toml")
        reason = policy.refusal(request, list(columns))
        if reason is not None:
            raise Refused(reason)
        return policy

    def _tables(self) -> GuestTables:
        return GuestTables.from_file(self.kit / "guest.toml")

    def _secret(self, tables: GuestTables) -> bytes | None:
        return None if tables.secret is None else read_secret(tables.secret)

    def _naming(self, request: Request, tables: GuestTables) -> Naming:
        """Return how the message names rows, as the host asks; with a secret, both must have the same."""
        secret = self._secret(tables)
        if not request.naming.startswith("keyed"):
            agreed = request.naming == "agreed" and secret is not None
            return Naming("keyed", secret, request.forms) if agreed else Naming("hashed", forms=request.forms)
        if secret is None or request.naming != f"keyed {fingerprint(secret)}":
            raise Refused(
                f"{request.host} names rows with a secret, and {self.name} has {'none' if secret is None else 'another one'}; "
                "give the guest the same file (federation start --secret)."
            )
        return Naming("keyed", secret, request.forms)

    def _purse(self, request: Request) -> Purse:
        return workflow.purse(Plan.from_text(request.plan or ""), self.name)

    def _rows(self, request: Request) -> AgreedRows:
        if request.rows is None:
            raise Refused("the request does not say which rows it is about.")
        try:
            return AgreedRows.from_bytes(request.rows, request.host)
        except MessageError as error:
            raise Refused(str(error)) from None

    def _learnt(self, request: Request) -> Guest:
        folder = self.kit / ANSWERS / request.model
        if not request.model or not (folder / "manifest.json").exists():
            raise Refused(f"{self.name} has no model of run {request.run!r} as it is asked for; train again.")
        party = Guest.load(folder)
        if party.run != request.run:
            raise Refused(f"the model that is asked for belongs to another run than {request.run!r}.")
        self._check_again(party, folder)
        return party

    def _check_again(self, party: Guest, folder: Path) -> None:
        """Refuse to use a model that the policy, as it is now, would not let the guest learn."""
        assert party.reading is not None
        asked = Request.from_bytes((folder / ASKED).read_bytes())
        used = party.reading.columns
        try:
            self._check_policy(replace(asked, columns=used), used)
        except Refused as refused:
            logger.warning("the model of run %s is no longer allowed: %s", asked.run, refused)
            raise Refused(f"the policy of {self.name} no longer allows what this model was learnt with.") from None

    def _read_again(self, party: Guest, path: Path) -> Table:
        """Read a table as it was read for learning."""
        assert party.reading is not None
        try:
            return party.reading.read(path, self.name)
        except InputError as error:
            if not path.exists():
                raise self._gone(error) from error
            raise Failed(
                f"the table of {self.name} has changed: it no longer has the columns that the model was learnt from, or not of "
                "the same kind. The guest's log says which."
            ) from error

    def _read(self, path: Path, **how: Any) -> Table:
        try:
            return read_table(path, party=self.name, **how)
        except InputError as error:
            if not path.exists():
                raise self._gone(error) from error
            raise Failed(f"{self.name} cannot read its table; its log says why.") from error

    def _gone(self, error: InputError) -> Failed:
        return Failed(
            f"the table of {self.name} is not there; the guest must put it back, or name another (federation start)."
        )

    @staticmethod
    def _ids(own: Table) -> Any:
        assert own.ids is not None  # the kit names the column of ids
        return own.ids

    @contextmanager
    def _discreet(self) -> Iterator[None]:
        """Let nothing out that was not made for the host's eyes."""
        try:
            yield
        except (Refused, Failed):
            raise
        except FedOnceError as error:
            raise Failed(f"{self.name} cannot do this with its table; its log says why.") from error
        except Exception as error:
            raise Failed(f"{self.name} failed; its log says why.") from error

    @contextmanager
    def _only_one(self, folder: Path) -> Iterator[None]:
        """Wait while another process of this guest works at the same request: an earlier job that was given up, say."""
        model_folder(folder)
        with (folder / "lock").open("w") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    self.tell("waiting")
                    if self.stopped():
                        raise Failed("an earlier process of this guest is still at work") from None
                    time.sleep(0.5)
            yield


@dataclass
class RoundsDesk:
    """A guest during rounds: answers one word of the host after the other."""

    desk: Desk
    party: Guest
    side: GuestSide
    folder: Path
    request: Request
    began: bool = field(default=False, init=False)
    done: int = field(default=0, init=False)

    def answer(self, request: dict[str, Any]) -> bytes:
        """Return the guest's message, empty where none is due."""
        word, gradient = request.get("word"), request.get("gradient")
        with self.desk._discreet():
            try:
                if isinstance(gradient, bytes) and gradient:
                    self.side.backward(gradient)
                return self._words(str(word), request)
            except MessageError as error:
                raise Refused(str(error)) from None

    def _words(self, word: str, request: dict[str, Any]) -> bytes:
        if word == "open":
            return self.side.opening()
        if word == "begin":
            self.side.begin(_training(request.get("training")), int(str(request.get("order"))))
            self.began = True
            return b""
        if word == "forward" and self.began:
            self.done += 1
            most = (self.request.rounds or {}).get("rounds")
            if most is not None and self.done > most:  # the policy was asked about so many, and no more
                raise Refused(f"{self.desk.name} agreed to {most} rounds.")
            return self.side.forward()
        if word == "close" and self.began:
            message = self.side.close()
            asked = (self.desk.kit / ANSWERS / self.request.model / ASKED).read_bytes()
            write_file(model_folder(self.folder) / ASKED, asked, private=True)
            self.party.save(self.folder)
            return message
        raise Refused(f"{word[:20]!r} is no word of the rounds, or comes too early.")


def _training(content: Any) -> Training:
    """Return how everyone trains, from what the host says."""
    try:
        return Training(**content)
    except (TypeError, InputError) as error:
        raise Refused(f"how to train cannot be read ({error}).") from None


def _digest(path: Path) -> str:
    """Return what tells a file that was changed: its size and the time of its last change."""
    found = path.stat()
    return f"{found.st_size} {found.st_mtime_ns}"
