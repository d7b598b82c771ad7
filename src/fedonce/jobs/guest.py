"""A guest's two jobs: to learn from a table and leave one message, and to represent rows that are to be predicted."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedonce.assess.attacked import Attacked
from fedonce.assess.inspection import describe_message, protected_by
from fedonce.assess.leakage import ColumnLeakage, Leakage, what_leaks
from fedonce.data.preparation import Public
from fedonce.data.schema import Reading
from fedonce.data.table import Table
from fedonce.errors import FedOnceWarning, InputError, parameter_error
from fedonce.jobs.folders import again_without_ids, answer_key, check_folder
from fedonce.jobs.hint import HintsFile, Taken
from fedonce.jobs.pages import guest_page, report_aside, write_report
from fedonce.jobs.sealing import Sealed, Sealing
from fedonce.jobs.settings import GuestBudget, Learning, RowNames, estimator_seed, private_key
from fedonce.jobs.tables import TableSource
from fedonce.learners import Auto
from fedonce.messages import codecs
from fedonce.messages.names import check_name
from fedonce.messages.representation import Representation
from fedonce.party import Guest, storage
from fedonce.party.blurring import check_local
from fedonce.party.hinting import check_beside
from fedonce.privacy.budget import Purse
from fedonce.rows.alignment import AgreedRows
from fedonce.rows.ids import Naming
from fedonce.system.disk import write_file
from fedonce.system.text import Tell, silent
from fedonce.training.checkpoints import Progress

MESSAGE = "representation.fedonce"
ATTACKED = 2_000_000  # values of the table that are attacked before a message leaves: seconds
FEWEST_ATTACKED, MOST_ATTACKED = 1_000, 100_000  # rows of it: many, as a sample of few has no row of a rare flag


@dataclass(frozen=True)
class MessageReport:
    """What leaves your premises: a message, and the file that it is in.

    Attributes
    ----------
    leaving : Sealed
        The message, as it is in the file.
    path : path
        The file.
    attacked : Attacked or None
        What attacks read in it, where they were tried, and when it was made.
    """

    leaving: Sealed[Representation]
    path: Path
    attacked: Attacked | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        sent, known = self.leaving, None if self.attacked is None else self.attacked.lines()
        figures = describe_message(sent.message, len(sent.data), str(self.path), False, sent.signer, known)
        return figures | {"sealed": "no" if sent.receiver is None else f"to {sent.receiver.fingerprint}"}


@dataclass(frozen=True)
class GuestReport:
    """What a guest has learnt: its model, which stays, the message, which leaves, and what attacks read in that.

    Attributes
    ----------
    party : Guest
        The guest, with what it has learned.
    message : MessageReport
        What leaves, and its file.
    leakage : Leakage
        What attacks read in it.
    hinted : Taken or None
        The hints that it learned with.
    page : path or None
        The page in the model's folder.
    """

    party: Guest
    message: MessageReport
    leakage: Leakage = field(default_factory=lambda: Leakage(()))
    hinted: Taken | None = None
    page: Path | None = None  # in the model's folder

    @property
    def out(self) -> Path:
        """The folder of the model."""
        return self.message.path.parent

    @property
    def rebuilt(self) -> tuple[ColumnLeakage, ...]:
        """How well each column was read at best; nothing where nobody looked."""
        return self.leakage.rebuilt

    @property
    def warning(self) -> str | None:
        """Some sentences on what can be read in the message, and what to do; None: nothing can, or nobody looked."""
        return self.leakage.warning

    @property
    def hints(self) -> str | None:
        """A sentence on the hints that it learnt with; None: there were none."""
        return None if self.hinted is None else self.hinted.in_words

    @property
    def chosen(self) -> str | None:
        """What "auto" chose, in a sentence; None: a learner was named."""
        if not isinstance(self.party.learner, Auto):
            return None
        return f"The learner 'auto' chose {self.party.learner.chosen().name!r} for this table."

    def leaving(self) -> dict[str, Any]:
        """Return what leaves your premises, and where the model is, as JSON values."""
        return self.message.as_json() | {"model folder": f"{self.out} (stays here)"}

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        short = [asdict(each) for each in self.rebuilt]
        hinted = None if self.hinted is None else self.hinted.as_json()
        found = {"rebuilt": short, "leakage": self.leakage.as_json(), "warning": self.warning}
        return self.leaving() | {"hinted": hinted} | found | {"report": None if self.page is None else str(self.page)}


@dataclass(frozen=True)
class GuestJob:
    """Learn from a table without labels; write the model, which stays, and the one message, which leaves.

    Parameters
    ----------
    table : TableSource
        The guest's table.
    name : str
        The party's name.
    out : path
        Folder for the model and `representation.fedonce`.
    learning, rows, budget, sealing
        How it learns, how rows are named, what it may spend, and who signs and opens the message.
    attack : bool
        Whether to try the quick attacks on the message.
    refuse_above : float, optional
        Write nothing where one of them rebuilds more than this part of what guessing gets wrong, of a column or of whole records.
    replace : bool
        Whether to learn again where the folder has a model, which is then lost.
    hints : HintsFile, optional
        What the host has published of its labels; opened with the key of `rows` where it is sealed.

    >>> job = GuestJob(TableSource("shop.csv", id="client_no"), "shop", "model", Learning(dim=4))  # job.run() does it
    >>> job.learning.dim, job.attack
    (4, True)
    """

    table: TableSource
    name: str
    out: str | Path
    learning: Learning = field(default_factory=Learning)
    rows: RowNames = field(default_factory=RowNames)
    budget: GuestBudget = field(default_factory=GuestBudget)
    sealing: Sealing = field(default_factory=Sealing)
    attack: bool = True
    replace: bool = False
    refuse_above: float | None = None
    hints: HintsFile | None = None

    def __post_init__(self) -> None:
        check_name("GuestJob", "name", self.name)  # before any error about the table quotes it
        if self.learning.local_epsilon is not None and (
            self.budget.plan is not None or self.budget.epsilon is not None
        ):
            raise InputError(
                "A privacy budget (plan, epsilon) and an epsilon for each row (local_epsilon) cannot go together; leave one out.",
                parameter=("plan", "epsilon", "local_epsilon"),
            )
        how = self.learning
        encoding = codecs.find(how.bits, "Guest")
        check_local("Guest", how.local_epsilon, encoding, noise=how.noise, bytes_per_row=how.bytes_per_row)
        if self.refuse_above is not None and self.learning.local_epsilon is not None:
            wanted = (
                "left out with local_epsilon: to refuse by figures of raw rows would disclose more than the answers"
            )
            raise parameter_error("GuestJob", "refuse_above", wanted, self.refuse_above)
        if self.refuse_above is not None and not (self.attack and 0 <= self.refuse_above <= 1):
            raise parameter_error(
                "GuestJob", "refuse_above", "between 0 and 1, and attacks are tried then (attack)", self.refuse_above
            )
        if self.hints is not None:
            private = self.budget.plan is not None or self.budget.epsilon is not None
            local, protected = self.learning.local_epsilon is not None, self.learning.protect is not None
            check_beside(self.learning.learner, private, local, protected)

    def run(self, tell: Tell = silent, progress: Progress | None = None) -> GuestReport:
        """Do it; `tell` is told each step in a line, `progress` how far the learning is."""
        out = check_folder(self.out)
        with storage.alone(out, tell):
            self._check_before(out)
            warn_of_spent(out)
            keys = self.sealing.keys()
            hints = (
                None
                if self.hints is None
                else self.hints.read(self.learning.run, self.name, private_key(self.rows.key))
            )
            party, own, agreed = self._prepare(tell)
            tell(f"learning from {own.n_rows:,} rows and {len(own.names)} columns")
            key = None if self.learning.local_epsilon is None else answer_key(out)
            if key is not None and own.ids is None:
                raise again_without_ids(party)
            message = party.learn(own, agreed=agreed, progress=progress, noise_key=key, hints=hints)
            taken = None if hints is None else Taken.of(hints, party, own, agreed, message.dim)
            found = Leakage((), learner=as_sent(party))
            if self.attack:
                tell("attacking the message")
                found = attacked(party, own)
            if self.refuse_above is not None:
                found.check(self.refuse_above)
            with report_aside(out):
                seen = Attacked.of(message, found, "quick", just_made=True)
                saved = replace(save(party, keys.close(message), out), attacked=seen)
                report = GuestReport(party, saved, found, taken)
            made = guest_page(party, report.leaving(), found, report.chosen, seen)
            return replace(report, page=write_report(out, made))

    def _check_before(self, out: Path) -> None:
        """Refuse to overwrite a model whose message may have been sent."""
        storage.settle(out)
        if storage.exists(out) and (out / MESSAGE).exists() and not self.replace:
            raise InputError(
                f"The folder {out} has a model and its message already. Name another folder, or learn again (replace): messages "
                "that were sent before then no longer fit.",
                parameter=("out", "replace"),
            )

    def _prepare(self, tell: Tell) -> tuple[Guest, Table, AgreedRows | None]:
        """Read all files, and make the guest."""
        agreed, known = self.rows.agreed(), self.budget.known(self.learning)
        tell(f"reading {self.table.path}")
        own, reading = self.table.read(self.name, public=known)
        self.rows.check_ids(own.ids is not None, f"The message of party {self.name!r}")
        purse = self.budget.purse(self.name, own.n_rows, self.learning)
        party = new_guest(self.name, self.learning, reading, self.rows.naming(), purse, known)
        return party, own, agreed


@dataclass(frozen=True)
class RepresentJob:
    """Make the message for rows that the host is to predict, with the model that stayed here.

    Parameters
    ----------
    table : path
        The rows; read as the table of the training was.
    model : path
        The guest's folder.
    out : path
        The message's file.
    rows, sealing
        As for `GuestJob`. Without a word on how rows are named: as in the training.
    """

    table: str | Path
    model: str | Path
    out: str | Path
    rows: RowNames = field(default_factory=RowNames)
    sealing: Sealing = field(default_factory=Sealing)

    def run(self, tell: Tell = silent) -> MessageReport:
        """Do it; `tell` is told each step in a line."""
        keys = self.sealing.keys()
        party = Guest.load(self.model)
        if party.reading is None:
            raise InputError(
                f"The model in {self.model} does not say how tables are read; use Guest.represent, as it was made."
            )
        naming, agreed = self._naming(party), self.rows.agreed()
        tell(f"reading {self.table}")
        own = party.reading.read(self.table, party.name)
        if own.ids is None and party.local_epsilon is not None:
            raise again_without_ids(party)
        tell(f"representing {own.n_rows:,} rows")
        leaving = keys.close(party.represent(own, agreed=agreed, naming=naming))
        return MessageReport(leaving, write_file(Path(self.out), leaving.data))

    def _naming(self, party: Guest) -> Naming | None:
        """Return how the message names rows: as is said, ids made alike as in the training where nothing is said of that."""
        learnt = party.learnt_naming[1] if party.learnt_naming else ()
        said = replace(self.rows, forms=self.rows.forms or learnt)
        return said.naming() or (None if party.naming is None else replace(party.naming, forms=said.forms))


# The steps of these jobs, which a guest in a federation takes, too.


def new_guest(
    name: str, learning: Learning, reading: Reading, naming: Naming | None, purse: Purse | None, public: Public | None
) -> Guest:
    """Return a guest that has not learnt yet."""
    return Guest(
        name,
        learning.learner,
        learning.dim,
        learning.bits,
        learning.epochs,
        run=learning.run,
        noise=learning.noise,
        random_state=estimator_seed(learning.seed),
        naming=naming,
        purse=purse,
        public=public,
        reading=reading,
        bytes_per_row=learning.bytes_per_row,
        local_epsilon=learning.local_epsilon,
        protect=learning.protect,
    )


def attacked(party: Guest, own: Table) -> Leakage:
    """Try the quick attacks on what the host would receive of a sample of rows; of a wide table fewer rows, so many at least."""
    most_rows = min(max(ATTACKED // max(len(own.names), 1), FEWEST_ATTACKED), MOST_ATTACKED)
    sample = np.random.default_rng(0).permutation(own.n_rows)[:most_rows]
    rows = own.take(np.sort(sample))
    sent = party.message(party.outgoing(rows), None)  # in the order of the table, and with the answers that leave
    return what_leaks(sent.values, rows, learner=as_sent(party), **protected_by(sent))


def as_sent(party: Guest) -> str:
    """Return the learner whose values leave as they are; none where they leave with noise."""
    return party.learner_name if party.noise is None else ""


def save(party: Guest, leaving: Sealed[Representation], out: Path, name: str = MESSAGE) -> MessageReport:
    """Write model and message, both or none: the message in the folder is always the one of the model in it."""
    party.save(out, {name: leaving.data})
    return MessageReport(leaving, out / name)


def warn_of_spent(out: Path) -> None:
    """Say so where a guest's model with a privacy budget is about to be replaced: what it spent stays spent."""
    if storage.exists(out) and storage.load(out, "guest").settings.get("ledger") is not None:
        warnings.warn(
            f"The model in {out} was learnt with a privacy budget. What it spent stays spent: if it was sent, both count.",
            FedOnceWarning,
            stacklevel=3,
        )
