"""Where a host's messages come from as files, and with what they are opened, verified and matched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedonce.engine.files import FilesEngine
from fedonce.errors import InputError
from fedonce.jobs.settings import File, agreed_rows, private_key
from fedonce.messages.keys import read_public, read_secret
from fedonce.messages.representation import MAX_DIM
from fedonce.party import Host
from fedonce.rows.matching import Matching
from fedonce.system.sizes import MESSAGE_LIMIT
from fedonce.system.text import Tell


@dataclass(frozen=True)
class Limits:
    """How much is taken of others: values per row, bytes of a file, bytes of memory for all values; None: the default.

    Parameters
    ----------
    max_dim : int, optional
        Values per row.
    max_message : int, optional
        Bytes of a file.
    max_memory : int, optional
        Bytes of memory for all values.
    """

    max_dim: int | None = None
    max_message: int | None = None
    max_memory: int | None = None


@dataclass(frozen=True)
class Kept:
    """Messages that a model was trained with before, and the sizes of their files."""

    messages: Mapping[str, bytes] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Incoming:
    """Messages of guests.

    Parameters
    ----------
    files : sequence of paths
        Messages that are here; one that cannot be used is an error.
    inbox : path, optional
        A folder in which messages arrive.
    expect : sequence of str
        The guests to wait for; at a prediction by default those of the model.
    deadline : float
        Seconds to wait for them.
    min_guests : int
        At training: with fewer, stop.
    verify : dict by guest
        Files of public keys: that guest's message must be signed with the key.
    key : path, optional
        Private key to open sealed files.
    rows : sequence of paths
        Rows agreed in alignments, one file per guest.
    secret : path, optional
        The secret that parties share.
    replace : bool
        Whether a second, different message of a guest takes the place of the first.
    limits : Limits
        How much is taken of others.
    """

    files: Sequence[str | Path] = ()
    inbox: File = None
    expect: Sequence[str] = ()
    deadline: float = 0.0
    min_guests: int = 1
    verify: Mapping[str, str | Path] = field(default_factory=dict)
    key: File = None
    rows: Sequence[str | Path] = ()
    secret: File = None
    replace: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.inbox is None and (self.expect or self.deadline):
            given = "expect" if self.expect else "deadline"
            raise InputError(
                f"Say in which folder messages arrive (inbox), or wait for nobody ({given}).",
                parameter=("inbox", given),
            )

    def shared_secret(self) -> bytes | None:
        """Read the secret, if there is one."""
        return None if self.secret is None else read_secret(self.secret)

    def matching(self, forms: tuple[str, ...]) -> Matching:
        """Return how the rows of messages are found, where ids are made alike by `forms`, and how much memory they may take."""
        key = private_key(self.key)
        agreed = tuple(agreed_rows(path, key) for path in self.rows)
        return Matching(self.shared_secret(), forms, agreed, self.limits.max_memory)

    def engine(
        self, party: Host, tell: Tell, kept: Kept | None = None, members: Mapping[str, int] | None = None
    ) -> FilesEngine:
        """Return the engine that collects messages for a host; `members`: for a prediction, guests and their values per row."""
        kept, limits = kept or Kept(), self.limits
        return FilesEngine(
            party.run,
            [Path(each) for each in self.files],
            None if self.inbox is None else Path(self.inbox),
            self.expect,
            self.deadline,
            self.min_guests if members is None else 0,
            {name: read_public(path) for name, path in self.verify.items()},
            private_key(self.key),
            self.replace,
            kept.messages,
            kept.sizes,
            tuple(members or ()),
            tell,
            max_dim=limits.max_dim or max((MAX_DIM, *(members or {}).values())),
            max_message=limits.max_message or MESSAGE_LIMIT,
            max_memory=limits.max_memory,
            secret=self.shared_secret(),
            host=party.name,
        )
