"""What a host has published of its labels: a private file that is read, added to and written before any hints leave."""

from __future__ import annotations

import hmac
import json
import math
import secrets
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.errors import FedOnceWarning, InputError, parameter_error
from fedonce.jobs.hint_books import MOST_LIMIT, Books, Published, is_limit, time_now
from fedonce.jobs.hint_rows import Tellings
from fedonce.messages.hints import Hints
from fedonce.messages.keys import warn_if_open
from fedonce.party.hint_checks import checked_ids, checked_public
from fedonce.party.hinting import KEY_BYTES, Hinting, forms_of, publish
from fedonce.rows.alignment import AgreedRows
from fedonce.rows.ids import Ids, Naming, normalise
from fedonce.system.disk import cannot_write, read_file, sync_folder, write_file
from fedonce.system.locks import hold

RECORD = "hints.record"
LIMIT = 8.0  # sum of a row's epsilons, where nobody says otherwise
LARGEST = 2**32  # bytes of a record; a million rows take 53 MB


@dataclass(frozen=True)
class Publication:
    """Hints that are written down and may leave.

    `spent` is the largest sum of epsilons over rows, `cost` what it grew by, `limit` the most that it may be. `anew` rows are
    told something that they were not told before; of them, `new` have ids that the record did not know, and `changed` had
    another label when they were told the same way before. `begun`: there was no record.
    """

    hints: tuple[Hints, ...]
    spent: float
    limit: float
    record: Path
    begun: bool
    cost: float
    anew: int
    new: int
    changed: int


@dataclass(frozen=True)
class HintRecord:
    """A host's record of hints, in a file.

    Parameters
    ----------
    path : path
        The file; it is begun where it is missing.
    limit : float, optional
        The most that a row's epsilons may add up to. None: as the record says, 8 where it is begun.
    """

    path: Path
    limit: float | None = None

    def __post_init__(self) -> None:
        # By a link, the lock and the file that is replaced would be another one's than by the name behind it.
        if self.path.is_symlink() and not self.path.exists():
            raise InputError(
                f"The record of hints {self.path} is a link that leads nowhere; mend it.", parameter="record"
            )
        object.__setattr__(self, "path", self.path.resolve())
        if self.limit is not None and not is_limit(self.limit):
            raise parameter_error("HintRecord", "limit", f"a number above 0 and up to {MOST_LIMIT:g}", self.limit)

    def look(self) -> Books | None:
        """Return the content, and change nothing; None: there is no record yet."""
        if not self.path.exists():
            return None
        data = read_file(self.path, "record of hints", LARGEST)
        warn_if_open(self.path, "record of hints")
        try:
            return Books.from_bytes(data)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(
                f"The record of hints {self.path} cannot be read ({str(error)[:100]}), so nobody knows what was published; "
                "put it back from a backup.",
                parameter="record",
            ) from None

    def publish(
        self,
        label: NDArray[Any],
        hinting: Hinting,
        task: str,
        party: str,
        run: str,
        ids: Ids | None,
        naming: Naming | None,
        agreed: Sequence[AgreedRows | None] = (None,),
        column: str = "",
        public: NDArray[Any] | None = None,
        new_rows: bool = False,
    ) -> Publication:
        """Make hints, one file for each of `agreed`, and write them down; beyond the limit raise BudgetError.

        `new_rows` says that ids which the record does not know are new people, however many they are.
        """
        ids = checked_ids(ids, len(label))
        if new_rows and ids is None:
            raise InputError(
                "Ids are said to be new people's (new_rows), and the table has none; say which column has them (id).",
                parameter=("new_rows", "id"),
            )
        with self._alone():
            before = self.look()
            books = before or Books(secrets.token_bytes(KEY_BYTES), LIMIT)
            books = books.with_limit(LIMIT if before is None and self.limit is None else self.limit)
            made = tuple(
                publish(label, hinting, task, party, run, ids, naming, books.key, public, each) for each in agreed
            )
            codes, classes = hinting.codes(label, task, party, checked_public(public, hinting.edges))
            parts = None if ids is None else [_named(ids, naming, each) for each in agreed]
            what, now = _described(codes, classes, hinting, None if parts is None else parts[0][0], books), time_now()
            lines = [
                replace(
                    what,
                    column=column or hinting.label,
                    run=run,
                    rows=each.n_rows,
                    checksum=each.checksum,
                    time=now,
                    forms=None if ids is None else forms_of(naming, rows),
                )
                for each, rows in zip(made, agreed, strict=True)
            ]
            told, way = None, hinting.way(classes)
            if parts is not None and what.epsilon is not None:
                files = (Tellings.of(books.key, way, names[rows], codes[rows]) for names, rows in parts)
                told = Tellings.together(files)
            after, anew = books.adding(lines, told, new_rows, self.path)
            changed = 0
            if told is not None and what in {each.what for each in books.published}:
                changed = books.rows.changed(books.key, way, len(classes), told, anew.known)
            if before is None or after.rows is not before.rows or replace(after, rows=before.rows) != before:
                write_file(self.path, after.to_bytes(), private=True)
                sync_folder(self.path.parent)
        if changed:
            _warn(changed, hinting.label)
        if self.limit is not None and after.spent > after.limit:
            text = (
                f"The limit of {after.limit:g} is below what rows were told already: their epsilons add up to {after.spent:g} at "
                f"most ({self.path}). The same as before can be published, and nothing else about these rows."
            )
            warnings.warn(FedOnceWarning(text, parameter="limit"), stacklevel=2)
        cost = after.spent - (0.0 if before is None else before.spent)
        more = (before is None, cost, len(anew.sums), anew.new, changed)
        return Publication(made, after.spent, after.limit, self.path, *more)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let no other process count between reading and writing."""
        lock = lock_of(self.path)
        try:
            with hold(lock):
                yield
        except OSError as error:
            raise cannot_write(lock, error) from None


def lock_of(record: Path) -> Path:
    """Return the file that whoever counts holds."""
    return record.with_name(f"{record.name}.lock")


def _named(ids: Ids, naming: Naming | None, agreed: AgreedRows | None) -> tuple[Ids, NDArray[np.intp]]:
    """Return ids as noise knows rows by them, and the places of those that a file tells of."""
    names = normalise(ids, forms_of(naming, agreed))
    if agreed is None:
        return names, np.arange(len(names))
    return names, agreed.positions(names, None if naming is None else naming.secret)


def _described(
    codes: NDArray[Any], classes: tuple[str, ...], hinting: Hinting, names: Ids | None, books: Books
) -> Published:
    """Return what of a publication decides whether it is told again."""
    edges = None if hinting.edges is None else tuple(hinting.edges)
    epsilon = hinting.epsilon if math.isfinite(hinting.epsilon) else None
    made = Published(hinting.label, epsilon, classes if edges is None else None, edges, "")
    wholes = [each for each in books.published if each.rows_digest and replace(each.what, rows_digest="") == made]
    if names is not None and not wholes:
        return made
    pairs = zip(range(len(codes)) if names is None else names, codes.tolist(), strict=True)
    rows = sorted(json.dumps([name, code]) for name, code in pairs)
    digest = hmac.digest(books.key, "\n".join(["labels", *rows]).encode("utf-8", "surrogatepass"), "sha256").hex()
    # By ids the digest is of use where a record of format 1 has just this publication, as a whole.
    again = names is None or digest in {each.rows_digest for each in wholes}
    return replace(made, rows_digest=digest) if again else made


def _warn(changed: int, label: str) -> None:
    """Say what a host may not have meant."""
    text = (
        f"The label {label!r} of {changed:,} row{'' if changed == 1 else 's'} has changed since it was told. Whoever has both "
        "files sees that wherever the answers differ, whatever epsilon is: an unchanged label keeps its answer. Leave out rows "
        "whose change is a secret."
    )
    warnings.warn(FedOnceWarning(text), stacklevel=3)
