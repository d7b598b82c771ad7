"""Messages as files: one each, named one by one or arriving in a folder, by mail, object store or memory stick."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fedonce.errors import AbsentPartyError, FedOnceWarning, InputError, MessageError
from fedonce.messages import envelope
from fedonce.messages.keys import PrivateKey, PublicKey, unseal
from fedonce.messages.names import MUST_BE, is_party_name, why_not
from fedonce.messages.received import Received
from fedonce.messages.representation import DIM_LIMIT, MAX_DIM, Representation, check_start
from fedonce.rows.matching import check_naming
from fedonce.system.sizes import MESSAGE_LIMIT

ENDING = ".fedonce"
PAUSE = 1.0  # seconds between two looks into the folder


@dataclass(frozen=True)
class Arrived:
    """A message that was accepted: its bytes, opened where it was sealed, and the size of its file."""

    data: bytes
    message: Representation
    source: str
    file_bytes: int


@dataclass
class FilesEngine:
    """What has arrived in files, checked before it is used.

    Parameters
    ----------
    run : str
        The training that messages must belong to.
    files : sequence of paths
        Messages by name; one that cannot be used is an error.
    inbox : path, optional
        A folder in which messages arrive; a file there that cannot be used is told, and waited for to become whole.
    expect : sequence of str
        The guests to wait for.
    deadline : float
        Seconds to wait for them. Then whoever is missing is late.
    least : int
        As many guests must have answered; fewer are an error.
    verify : dict by guest
        Public keys: a message of that guest must be signed with the key. With any key, messages of guests without one are
        refused, but for those in `kept`.
    key : PrivateKey, optional
        To open sealed messages.
    replace : bool
        Whether a second, different message of a guest takes the place of the first.
    kept : dict by guest
        Messages accepted before, as bytes.
    kept_sizes : dict by guest
        Sizes of the files that they came in, where those were sealed.
    members : sequence of str
        At prediction: the guests of the model, who may have keys to verify without having answered.
    tell : callable
        Is told in a line what arrives and what is refused.
    max_dim : int
        Messages with more values per row are refused, before they are read.
    max_message : int
        Files with more bytes are refused, before they are read.
    max_memory : int, optional
        Messages that would take more bytes of memory are refused, before they are read. Default: a quarter of the machine's.
    secret : bytes, optional
        What parties share: messages whose ids were made without it are refused.
    host : str, optional
        The host's name: messages from a party of that name are refused.
    """

    run: str
    files: Sequence[Path] = ()
    inbox: Path | None = None
    expect: Sequence[str] = ()
    deadline: float = 0.0
    least: int = 1
    verify: Mapping[str, PublicKey] = field(default_factory=dict)
    key: PrivateKey | None = None
    replace: bool = False
    kept: Mapping[str, bytes] = field(default_factory=dict)
    kept_sizes: Mapping[str, int] = field(default_factory=dict)
    members: Sequence[str] = ()
    tell: Callable[[str], None] = lambda line: None
    max_dim: int = MAX_DIM
    max_message: int = MESSAGE_LIMIT
    max_memory: int | None = None
    secret: bytes | None = field(default=None, repr=False)
    host: str | None = None
    arrived: dict[str, Arrived] = field(default_factory=dict, init=False)
    refused: dict[str, str] = field(default_factory=dict, init=False)

    @property
    def guests(self) -> tuple[str, ...]:
        """Who is expected, and whoever else came."""
        return tuple(dict.fromkeys([*self.expect, *self.arrived]))

    @property
    def late(self) -> tuple[str, ...]:
        """Who was expected and has not come."""
        return tuple(name for name in self.expect if name not in self.arrived)

    @property
    def moved(self) -> dict[str, int]:
        """Sizes of the files."""
        return {party: arrived.file_bytes for party, arrived in self.arrived.items()}

    def received(self) -> dict[str, bytes]:
        """Return the messages that were taken, by guest."""
        return {party: arrived.data for party, arrived in self.arrived.items()}

    def learn(self) -> dict[str, Received]:
        """Wait for the messages, and return those that came; a key to verify somebody else is an error."""
        messages = self._collect(self._refuse_unused_keys)
        self._refuse_unused_keys()
        return messages

    def represent(self) -> dict[str, Received]:
        """Wait for the messages, and return those that came; a key to verify nobody of the model is warned of."""
        messages = self._collect(lambda: None)
        for name in self._unused_keys():
            known = ", ".join(map(repr, dict.fromkeys([*self.members, *self.guests]))) or "nobody"
            text = f"There is a key to verify {name!r} (verify), who is no guest here ({known}): nothing was verified with it."
            warnings.warn(FedOnceWarning(text, parameter="verify"), stacklevel=3)
        return messages

    def _unused_keys(self) -> list[str]:
        return [name for name in self.verify if name not in self.guests and name not in self.members]

    def _refuse_unused_keys(self) -> None:
        for name in self._unused_keys():
            known = ", ".join(map(repr, self.guests)) or "nobody"
            raise InputError(
                f"There is a key to verify {name!r} (verify), and messages are from {known}; write its name alike, or leave the "
                "key out.",
                parameter="verify",
            )

    def _refuse_foreign_names(self) -> None:
        """Refuse keys to verify a name that no party can have, unless the model has it from an earlier version."""
        for name in self.verify:
            if not is_party_name(name) and name not in self.members and name not in self.kept:
                text = f"The name of a key to verify (verify) must be {MUST_BE}. Got {why_not(name)}."
                raise InputError(text, parameter="verify")

    def _collect(self, check_keys: Callable[[], None]) -> dict[str, Received]:
        self._refuse_foreign_names()
        if self.inbox is not None and not self.inbox.is_dir():
            raise InputError(
                f"The inbox {self.inbox} is no folder; make it, or name the folder in which messages arrive."
            )
        for party, data in self.kept.items():
            message = Representation.from_bytes(data, party, DIM_LIMIT, self.max_memory)  # it was taken before
            self._check_run(message, "the model's folder")
            if party in self.verify:
                self._check_signature(message, "the model's folder")
            size = self.kept_sizes.get(party, len(data))
            self.arrived[party] = Arrived(data, message, f"the model's folder ({party})", size)
        for path in self.files:
            self._accept(path)
        if self.inbox is not None:
            if (
                self.expect
            ):  # nobody else is taken from the inbox: a wrong name is told before the waiting, not after it
                check_keys()
            self._wait(self.inbox)
        for name, why in self.refused.items():
            self.tell(f"refused {name}: {why}")
        if len(self.arrived) < self.least:
            raise AbsentPartyError(self._too_few(), parameter=("deadline", "min_guests"))
        return {party: Received(came.message, came.file_bytes) for party, came in self.arrived.items()}

    def _wait(self, inbox: Path) -> None:
        """Look into the folder until all are there, or time is up."""
        end, told = time.monotonic() + self.deadline, False
        seen: dict[Path, tuple[int, int]] = {}
        while True:
            self._look(inbox, seen)
            left = end - time.monotonic()
            if left <= 0 or (self.expect and not self.late):
                return
            if not told:
                self.tell(f"waiting for {', '.join(self.late) or 'messages'}")
                told = True
            time.sleep(min(PAUSE, left))

    def _too_few(self) -> str:
        who = f" Still missing: {', '.join(self.late)}." if self.late else ""
        why = "".join(f" {path} was refused: {reason}" for path, reason in self.refused.items())
        came = f"only {', '.join(self.arrived)}" if self.arrived else "nobody"
        return (
            f"At least {self.least} guest{'' if self.least == 1 else 's'} must answer, and {came} did.{who}{why} Ask for the "
            "missing messages, wait longer (deadline), or train with fewer guests (min_guests)."
        )

    def _look(self, inbox: Path, seen: dict[Path, tuple[int, int]]) -> None:
        """Take what is new in the folder. A file that cannot be used may still be being copied: it is looked at again."""
        for path in sorted(inbox.glob(f"*{ENDING}"), key=_age):
            try:
                state = (path.stat().st_size, path.stat().st_mtime_ns)
                if seen.get(path) == state:
                    continue
                seen[path] = state
                self._accept(path, expected_only=True)
                self.refused.pop(path.name, None)
            except (MessageError, OSError) as error:
                self.refused[path.name] = str(error)

    def _accept(self, path: Path, expected_only: bool = False) -> None:
        raw = envelope.read_bytes(path, "message", self.max_message, partial(self._judge, path))
        try:
            data = raw if self.key is None or not raw.startswith(envelope.SEALED) else unseal(raw, self.key)
            message = Representation.from_bytes(data, max_dim=self.max_dim, max_memory=self.max_memory)
        except MessageError as error:
            raise error.found_in(path) from None
        if expected_only and self.expect and message.party not in self.expect:
            raise MessageError(f"it is from party {message.party!r}, who is not expected (expect)")
        self._check(message, path)
        before = self.arrived.get(message.party)
        if before is not None and before.data == data:
            return
        if before is not None and not self.replace:
            raise MessageError(
                f"The message of party {message.party!r} in {path} is refused: another, different one is in {before.source}. "
                "Keep one of them, or take the later one (replace).",
                parameter="replace",
            )
        self.arrived[message.party] = Arrived(data, message, str(path), len(raw))
        self.tell(f"received {message.party}: {message.n_rows:,} rows, {len(raw):,} bytes ({path})")

    def _judge(self, path: Path, start: bytes, size: int) -> None:
        """Refuse a file by its first bytes and its size, before it is read."""
        if start.startswith(envelope.SEALED):
            if self.key is None:
                text = f"The message {path} is sealed; give the private key that it was sealed to (key)."
                raise MessageError(text, parameter="key")
            return
        try:
            check_start(start, size, max_dim=self.max_dim, max_memory=self.max_memory)
        except MessageError as error:
            raise error.found_in(path) from None

    def _check(self, message: Representation, path: Path) -> None:
        """Refuse what belongs to another run, is not signed by whom it should be, or could be of somebody else."""
        if message.party == self.host:
            raise MessageError(
                f"The message of party {message.party!r} in {path} is refused: that is the host's own name. Let the guest choose "
                "another name, or the host.",
                parameter="name",
            )
        known = (
            message.party in self.members or message.party in self.kept
        )  # also by names that nobody could choose today
        if not known and not is_party_name(message.party):
            raise MessageError(
                f"The message in {path} is refused: its party's name must be {MUST_BE}. Got {why_not(message.party)}."
            )
        self._check_run(message, path)
        if self.verify:
            self._check_signature(message, path)
        if self.secret is not None:
            check_naming(message, self.secret)

    def _check_run(self, message: Representation, path: Path | str) -> None:
        if message.run != self.run:
            raise MessageError(
                f"The message of party {message.party!r} in {path} is refused: it belongs to run {message.run!r}, this is run "
                f"{self.run!r}.",
                parameter="run",
            )

    def _check_signature(self, message: Representation, path: Path | str) -> None:
        refused = f"The message of party {message.party!r} in {path} is refused: "
        key = self.verify.get(message.party)
        if key is None:
            raise MessageError(
                f"{refused}there are keys to verify {', '.join(map(repr, self.verify))} and none for it, and with any key every "
                f"message must be verified. Give its key, too (verify), or leave the message out.",
                parameter="verify",
            )
        if not message.signature:
            text = f"{refused}it is not signed, and must be, with the key {key.fingerprint} (verify)."
            raise MessageError(text, parameter="verify")
        if not key.verify(message.checksum, message.signature):
            raise MessageError(
                f"{refused}its signature is not by the key {key.fingerprint}. Ask the guest, by another way, for its public key, "
                "and whether it sent this file."
            )


def _age(path: Path) -> tuple[int, str]:
    """Return what sorts files by when they came: of two messages of a guest, the later one replaces."""
    try:
        return path.stat().st_mtime_ns, path.name
    except OSError:  # removed meanwhile
        return 0, path.name
