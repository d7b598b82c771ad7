"""What each row has been told, as a record of hints keeps it: keyed digests of ids and of what was told, and a sum for each row.

A row is known by HMAC-SHA-256 of its id, and a telling by that of its id, its label and the way it is told, both with keys that
follow from the record's own secret. As the secret stands beside them, digests hide nothing from whoever has the record and can
list the ids: a record is as confidential as the labels. They keep it small, and free of ids and labels that could be read off.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.rows.ids import Ids, Keys, locate

WIDTH = 16  # bytes of a digest
MOST_TRIED = 1_000_000  # digests that are tried to tell whether labels have changed
KNOWN = 0.5  # of the ids in a file, that a record must know for the others to be new people
_EMPTY: Keys = np.zeros((0, WIDTH), np.uint8)


@dataclass(frozen=True, eq=False)
class Tellings:
    """What one publication tells: of each row the digest of its id, and that of its id, its label and the way."""

    rows: Keys
    told: Keys
    ids: Ids
    codes: NDArray[Any]

    @classmethod
    def of(cls, key: bytes, way: str, ids: Ids, codes: NDArray[Any]) -> Tellings:
        """Return them of rows, by the record's secret; `way` is all that tells one way of telling from another."""
        by_row, by_way = (
            hmac.digest(key, f"fedonce hints record, {what}".encode(), "sha256") for what in ("rows", way)
        )
        names = [name.encode("utf-8", "surrogatepass") for name in ids]
        told = (b"%d\n%b" % (code, name) for code, name in zip(codes.tolist(), names, strict=True))
        return cls(_digests(by_row, names), _digests(by_way, told), ids, codes)

    @classmethod
    def together(cls, parts: Iterable[Tellings]) -> Tellings:
        """Return those of several files, each once."""
        each = zip(*((part.rows, part.told, part.ids, part.codes) for part in parts), strict=True)
        rows, told, ids, codes = (np.concatenate(arrays) for arrays in each)
        _, first = np.unique(_sortable(told), return_index=True)
        return cls(rows[first], told[first], ids[first], codes[first])


@dataclass(frozen=True, eq=False)
class Anew:
    """What a publication adds: the sums of rows that it tells anew, and how many of its ids are new.

    `strange`: so many are new that they may be other ids of the same people. `known` are the places in the publication of those
    rows told anew that were known before.
    """

    sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    new: int = 0
    strange: bool = False
    known: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))


@dataclass(frozen=True, eq=False)
class RowSums:
    """What the epsilons of each row add up to, and what has been told; digests in ascending order, each once."""

    rows: Keys = field(default_factory=_EMPTY.copy)
    sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    told: Keys = field(default_factory=_EMPTY.copy)

    @property
    def largest(self) -> float:
        """The largest sum over rows; 0 where there are none."""
        return float(self.sums.max(initial=0.0))

    def raised(self, epsilon: float) -> RowSums:
        """Return them with an epsilon added for every row: it is not known which of them were told."""
        return RowSums(self.rows, self.sums + epsilon, self.told)

    def adding(self, now: Tellings, epsilon: float, start: float) -> tuple[RowSums, Anew]:
        """Return them after a publication, and what it adds; `start` is the sum of a row that is not known."""
        place = locate(now.rows, self.rows)
        known, fresh = place >= 0, locate(now.told, self.told) < 0
        if not fresh.any():
            return self, Anew()
        strange = len(self.rows) > 0 and known.mean() < KNOWN
        before = np.full(len(place), start)
        before[known] = self.sums[place[known]]
        after = before + np.where(fresh, epsilon, 0.0)
        sums = self.sums.copy()
        sums[place[known]] = after[known]
        rows, sums = np.concatenate([self.rows, now.rows[~known]]), np.concatenate([sums, after[~known]])
        told = np.concatenate([self.told, now.told[fresh]])
        order = np.argsort(_sortable(rows))
        made = RowSums(rows[order], sums[order], told[np.argsort(_sortable(told))])
        return made, Anew(after[fresh], int((~known).sum()), strange, np.flatnonzero(known & fresh))

    def changed(self, key: bytes, way: str, classes: int, now: Tellings, rows: NDArray[np.intp]) -> int:
        """Return how many of some rows of a publication were told another label the same way before.

        A row takes a digest for each other class: of very many rows the first are looked at.
        """
        rows = rows[: max(1, MOST_TRIED // (classes - 1))]
        found = np.zeros(len(rows), bool)
        for further in range(1, classes):
            others = Tellings.of(key, way, now.ids[rows], (now.codes[rows] + further) % classes)
            found |= locate(others.told, self.told) >= 0
        return int(found.sum())

    def to_json(self) -> dict[str, Any]:
        """Return them as JSON values."""
        raw = self.rows.tobytes(), self.sums.astype("<f8").tobytes(), self.told.tobytes()
        texts = {
            name: base64.b64encode(each).decode() for name, each in zip(("rows", "sums", "told"), raw, strict=True)
        }
        return {"n": len(self.rows), **texts, "sha256": hashlib.sha256(b"".join(raw)).hexdigest()}

    @classmethod
    def from_json(cls, content: Any) -> RowSums:
        """Read them; raise ValueError, TypeError or KeyError where they are none."""
        raw = tuple(base64.b64decode(content[name], validate=True) for name in ("rows", "sums", "told"))
        n = content["n"]
        if set(content) != {"n", "rows", "sums", "told", "sha256"} or type(n) is not int or n < 0:
            raise ValueError("what rows were told cannot be read")
        if hashlib.sha256(b"".join(raw)).hexdigest() != content["sha256"]:
            raise ValueError("what rows were told is damaged")
        if len(raw[0]) != WIDTH * n or len(raw[1]) != 8 * n or len(raw[2]) % WIDTH:
            raise ValueError("what rows were told does not fit together")
        rows, told = (np.frombuffer(each, np.uint8).reshape(-1, WIDTH) for each in (raw[0], raw[2]))
        sums = np.frombuffer(raw[1], "<f8").astype(np.float64)
        if not (_ascending(rows) and _ascending(told) and np.isfinite(sums).all() and (sums >= 0).all()):
            raise ValueError("what rows were told does not fit together")
        return cls(rows, sums, told)


def _digests(key: bytes, names: Iterable[bytes]) -> Keys:
    data = b"".join(hmac.digest(key, name, "sha256")[:WIDTH] for name in names)
    return np.frombuffer(data, np.uint8).reshape(-1, WIDTH)


def _sortable(digests: Keys) -> NDArray[np.bytes_]:
    return np.ascontiguousarray(digests).view(f"S{WIDTH}").ravel()


def _ascending(digests: Keys) -> bool:
    texts = _sortable(digests)
    return bool((texts[1:] > texts[:-1]).all())
