"""What a guest has at hand for an answer: its tables, its policy, the answers that it kept; and what the host is told."""

from __future__ import annotations

import hashlib
import json
import logging
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import fedonce
from fedonce.errors import FedOnceError, MessageError, MissingPackageError
from fedonce.federation import allowance
from fedonce.federation.policy import Policy
from fedonce.federation.record import (
    ANSWERS,
    COLUMNS,
    Entry,
    Record,
    Tally,
    described,
    learnt,
    rebuilt_of,
    same_run,
    sent,
)
from fedonce.federation.request import Request
from fedonce.federation.tables import GuestTables

if TYPE_CHECKING:
    pass

logger = logging.getLogger(__name__)


STATE = "state"  # of a learning that was not finished


class Refused(FedOnceError):  # noqa: N818  # what it is: an answer
    """The guest does not do what it is asked; the text is for the host's eyes."""


class Failed(FedOnceError):  # noqa: N818
    """The guest could not do what it is asked; the text is for the host's eyes, the cause for the guest's."""


class Tell(Protocol):
    """Where the guest stands: a word, and which epoch of how many."""

    def __call__(self, state: str, epoch: int | None = None, epochs: int | None = None) -> None:
        """Tell it."""


@dataclass(frozen=True)
class Workplace:
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

    def read(self, data: bytes) -> Request:
        """Read a request, and refuse one that is not for this guest or from another version."""
        try:
            host, version = Request.maker_of(data)
            if version != fedonce.__version__:
                raise Refused(
                    f"{self.name} has fedonce {fedonce.__version__}, {host} has {version}; install the same version at both."
                )
            request = Request.from_bytes(data)
        except MessageError as error:
            raise Refused(str(error)) from None
        own_host = self._host()
        if request.guest != self.name or own_host not in (None, request.host):
            raise Refused(
                f"the request is of {request.host!r} for {request.guest!r}; this is {self.name!r}, whose host is {own_host!r}."
            )
        return request

    def _host(self) -> str | None:
        """Return whose guest this is, by the kit; in a simulation there is none."""
        facts = self.kit / "kit.toml"
        return tomllib.loads(facts.read_text(encoding="utf-8"))["host"] if facts.exists() else None

    def _lock(self, request: Request, folder: Path) -> Path:
        """Return what only one process may hold: all learnings of a run share it, so that none slips past another's count."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if request.what != "learn":
            return folder / "lock"
        return folder.parent / f"run-{hashlib.sha256(same_run(request.run).encode()).hexdigest()[:16]}.lock"

    def _write_down(self, request: Request, folder: Path) -> None:
        """Put an answer into the record before it leaves, unless it is there; refuse a message beyond the allowance."""
        entry = sent(request, folder)
        if self.record.tally().has(entry):
            return
        entry, policy = described(entry, request, folder), self.policy()

        def refusal(tally: Tally) -> str | None:
            return allowance.refuse_answer(policy, tally, request, entry.dim or 0) if request.what == "learn" else None

        self._enter(entry, refusal)

    def _enter(self, entry: Entry, refusal: Callable[[Tally], str | None] = lambda tally: None) -> None:
        reason = self.record.enter(entry, refusal)
        if reason is not None:
            raise Refused(reason)

    def check_allowance(self, request: Request) -> None:
        """Refuse a learning that the policy's counts have no room for, before anything is done."""
        reason = allowance.refuse_learning(self.policy(), self.record.tally(), request)
        if reason is not None:
            raise Refused(reason)

    @contextmanager
    def intended(self, request: Request) -> Iterator[None]:
        """Write down a private learning before it begins: one that is killed counts as spent, as its noise would be drawn afresh.

        One that fails is withdrawn: it is known that nothing left. Without a budget nothing is written: what is learnt again is
        the same.
        """
        if request.plan is None:
            yield
            return
        policy = self.policy()
        intention = learnt(request, "intended")
        self._enter(intention, lambda tally: allowance.refuse_learning(policy, tally, request))
        try:
            yield
        except Exception:
            self._enter(replace(intention, what="withdrawn"))
            raise

    def check_rounds(self, request: Request, dim: int) -> None:
        """Refuse rounds that the policy's counts have no room for, before anything is done."""
        policy, tally, more = self.policy(), self.record.tally(), (request.rounds or {})["rounds"]
        reason = allowance.refuse_rounds(policy, tally, request, more)
        reason = reason or allowance.refuse_values(policy, tally, self.name, dim)
        if reason is not None:
            raise Refused(reason)

    def begin_rounds(self, request: Request, more: int) -> None:
        """Write rounds down before they begin."""
        policy = self.policy()
        entry = Entry("round", request.run, request.fingerprint, host=request.host, rounds=more)
        self._enter(entry, lambda tally: allowance.refuse_rounds(policy, tally, request, more))

    def keep_tuned(self, request: Request, dim: int) -> None:
        """Write down a model that came out of rounds: from now on it can be asked for values."""
        policy = self.policy()
        entry = Entry("tuned", request.run, request.fingerprint, host=request.host, model=request.model, dim=dim)
        self._enter(entry, lambda tally: allowance.refuse_values(policy, tally, self.name, dim))

    def kept(self, fingerprint: str) -> Path:
        """Return the folder in which the answer to a request is kept, and the model that made it."""
        return self.kit / ANSWERS / fingerprint

    @property
    def record(self) -> Record:
        """What the guest has answered."""
        return Record(self.kit / ANSWERS)

    def policy(self) -> Policy:
        """Return what the guest allows, as its file says now."""
        return Policy.read(self.tables().policy or self.kit / "policy.toml")

    def tables(self) -> GuestTables:
        """Return where the guest's tables are."""
        return GuestTables.from_file(self.kit / "guest.toml")

    def check_policy(self, request: Request, columns: Sequence[str]) -> Policy:
        """Refuse what the guest's policy does not allow; `columns` are those of its table."""
        policy = self.policy()
        reason = policy.refusal(request, list(columns))
        if reason is not None:
            raise Refused(reason)
        return policy

    def check_again(self, request: Request, folder: Path) -> None:
        """Refuse what was learnt with what the policy, as it is now, does not allow; its words name columns, and stay here."""
        used = json.loads((folder / COLUMNS).read_text(encoding="utf-8"))
        try:
            policy = self.check_policy(replace(request, columns=tuple(used)), used)
            reason = next(policy.too_few_columns(request, len(used)), None)
            if reason is not None:
                raise Refused(reason)
        except Refused as refused:
            logger.warning("what was learnt for run %s is no longer allowed: %s", request.run, refused)
            self.check_policy(request, request.columns or ())  # where the host's own words tell why
            raise Refused(f"the policy of {self.name} no longer allows what was learnt for this.") from None
        if request.local_epsilon is None:
            self.check_rebuilt(rebuilt_of(folder))

    def check_rebuilt(self, found: Mapping[str, Any] | None) -> None:
        """Refuse a message from which any attack rebuilds a column better than the policy allows, or that nobody attacked."""
        most = self.policy().max_rebuilt
        if most == 1:
            return
        if found is not None and found.get("unknown"):
            raise Refused(
                f"{self.name} has too few rows to tell how well attacks rebuild its columns (max_rebuilt); it must "
                "leave the columns with few values out"
            )
        if found is None or found["best"] > most:
            raise Refused(
                f"from what {self.name} would send, an attack rebuilds a column better than it allows (max_rebuilt); ask "
                "for fewer values (dim), for cells (protect), or for an epsilon per row (local_epsilon)"
            )

    @contextmanager
    def discreet(self) -> Iterator[None]:
        """Let nothing out that was not made for the host's eyes."""
        try:
            yield
        except (Refused, Failed):
            raise
        except MissingPackageError as error:
            raise Failed(f"{self.name} lacks a package for this; its log says which.") from error
        except FedOnceError as error:
            raise Failed(f"{self.name} cannot do this with its table; its log says why.") from error
        except Exception as error:
            raise Failed(f"{self.name} failed; its log says why.") from error
