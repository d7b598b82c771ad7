"""What has been disclosed of each row with a local epsilon: counted per row, over all runs, for the guest's policy.

`answers/disclosed.npy` of the guest's kit has a line for each answer that ever left: keyed hashes of the row's id and of the
answer, its epsilon and its day. An answer that is given again is no new line: it is the same bytes, and costs nothing more.
"""

from __future__ import annotations

import hmac
import io
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedonce.data.table import Table
from fedonce.errors import InputError
from fedonce.federation.workplace import Refused, Workplace
from fedonce.party import Guest
from fedonce.privacy import LocalEpsilon
from fedonce.rows.alignment import AgreedRows
from fedonce.rows.ids import normalise
from fedonce.system.disk import read_file, write_file
from fedonce.system.locks import hold

BOOK, LOCK = "disclosed.npy", "disclosed.lock"
LINE = np.dtype([("row", "<u8"), ("answer", "<u8"), ("epsilon", "<f8"), ("day", "<i4")])
LARGEST = 2**33  # bytes of a book
YEAR = 365  # days
SLACK = 1e-9

Tokens = NDArray[np.uint64]

logger = logging.getLogger(__name__)


def tokens(key: bytes, rows: Sequence[str], disclosed: Sequence[bytes], purpose: str) -> tuple[Tokens, Tokens]:
    """Return what stands in the book for rows and for their answers: hashes that say nothing without the guest's key."""
    own = hmac.digest(key, b"fedonce book of answers", "sha256")
    about = hmac.digest(own, purpose.encode("utf-8", "surrogatepass"), "sha256")
    texts = [row.encode("utf-8", "surrogatepass") for row in rows]
    named = [hmac.digest(own, text, "sha256") for text in texts]
    answered = (hmac.digest(about, name + what, "sha256") for name, what in zip(named, disclosed, strict=True))
    return _numbers(named), _numbers(list(answered))


def _numbers(digests: Sequence[bytes]) -> Tokens:
    return np.frombuffer(b"".join(each[:8] for each in digests), "<u8")


@dataclass(frozen=True)
class Book:
    """The answers that have left a guest, in the folder where it keeps its answers."""

    folder: Path

    def enter(self, rows: Tokens, answers: Tokens, epsilon: float, most: float | None) -> NDArray[np.bool_]:
        """Write down answers that are about to leave, and return which of them may.

        Parameters
        ----------
        rows, answers : arrays
            What `tokens` gave.
        epsilon : float
            Of each answer.
        most : float, optional
            How much epsilon the new answers of 365 days may add up to, for one row; an answer beyond it stays. None: any.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with hold(self.folder / LOCK):
            book, today = self._read(), (datetime.now(UTC) - datetime(1970, 1, 1, tzinfo=UTC)).days
            new = ~np.isin(answers, book["answer"])
            allowed = np.ones(len(rows), np.bool_)
            if most is not None:
                spent = _spent(book[book["day"] > today - YEAR], rows)
                allowed = ~new | (spent + epsilon <= most * (1 + SLACK))
            added = np.zeros(int((new & allowed).sum()), LINE)
            added["row"], added["answer"] = rows[new & allowed], answers[new & allowed]
            added["epsilon"], added["day"] = epsilon, today
            if len(added):
                self._write(np.concatenate([book, added]))
        return allowed

    def worst(self) -> float:
        """Return the most epsilon that the answers of 365 days add up to, for one row."""
        book, today = self._read(), (datetime.now(UTC) - datetime(1970, 1, 1, tzinfo=UTC)).days
        recent = book[book["day"] > today - YEAR]
        return float(_spent(recent, np.unique(recent["row"])).max(initial=0.0))

    def _read(self) -> NDArray[np.void]:
        path = self.folder / BOOK
        if not path.exists():
            return np.zeros(0, LINE)
        try:
            found = np.load(io.BytesIO(read_file(path, "book of answers", LARGEST)), allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise _damaged(path, str(error)) from None
        if found.dtype != LINE or found.ndim != 1 or not (found["epsilon"] > 0).all():
            raise _damaged(path, "it is no list of answers")
        return np.asarray(found)

    def _write(self, book: NDArray[np.void]) -> None:
        file = io.BytesIO()
        np.save(file, book, allow_pickle=False)
        write_file(self.folder / BOOK, file.getvalue(), private=True)


def _spent(book: NDArray[np.void], rows: Tokens) -> NDArray[np.float64]:
    """Return what the answers in a book add up to, for each row."""
    known, where = np.unique(book["row"], return_inverse=True)
    sums = np.append(np.bincount(where, book["epsilon"], len(known)), 0.0)
    place = np.minimum(np.searchsorted(known, rows), max(len(known) - 1, 0))
    return np.asarray(sums[np.where(np.isin(rows, known), place, len(known))])


def _damaged(path: Path, why: str) -> InputError:
    return InputError(
        f"{path} cannot be read ({why}), so what was disclosed of each row is not known; put it back from a backup."
    )


def within(workplace: Workplace, party: Guest, own: Table, agreed: AgreedRows | None, key: bytes | None) -> Table:
    """Write down what a message will disclose with a local epsilon; leave rows out of which the policy allows no more."""
    if not isinstance(party.noise, LocalEpsilon) or key is None:
        return own
    assert own.ids is not None  # the kit names the column of ids
    if agreed is not None:
        held = agreed.positions(normalise(own.ids, agreed.forms), None if party.naming is None else party.naming.secret)
        own = own.take(held[held >= 0])
    rows, answers = tokens(key, *party.answered(own))
    most, book = workplace.policy().max_local_epsilon, Book(workplace.record.folder)
    allowed = book.enter(rows, answers, party.noise.epsilon, most)
    if allowed.all():
        return own
    logger.warning(
        "run %s: %d of %d rows are left out: another answer would cost them more than epsilon %g in 365 days "
        "(max_local_epsilon)",
        party.run,
        int((~allowed).sum()),
        len(allowed),
        most,
    )
    if not allowed.any():
        raise Refused(
            f"{workplace.name} has disclosed as much of these rows as it allows in 365 days (max_local_epsilon)."
        )
    return own.take(allowed)
