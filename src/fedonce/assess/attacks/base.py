"""What an attack is: told what it is given, it says how well it did, beside a guess and a control."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isclose, sqrt
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedonce.assess.attacks.names import Facts
from fedonce.data.table import Table
from fedonce.errors import InputError

READABLE, PARTLY, NOT_FOUND = "readable", "partly", "not by these attacks"
VERDICTS = (READABLE, PARTLY, NOT_FOUND)
ALARMING = 0.9  # a score above which a column is as good as sent, if guessing does not get near it
SOME = 0.1  # of what guessing gets wrong: less of it got right is not worth a word
CONFIDENT = 1.96  # standard errors of a 95 % interval

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Exposed:
    """What is attacked, and the truth by which the attack is scored.

    An attacker is given `values`, and what its facts say that it knows; the rest of `table` serves to score it, and nothing else.

    Parameters
    ----------
    values : array of shape (m, d)
        The message's values.
    table : Table
        The columns of the same rows, in the same order.
    learner : str
        How the values were made, as the message says; empty: not told.
    protect : str
        The protection that they were made with, as in "cells:20"; empty: none.
    blurred : str
        What hides single values: "noise" or "local_epsilon"; empty: nothing.
    second : array of shape (m, e), optional
        The values of the same rows in another message of the guest: of another run or seed, or for a prediction.
    ids : array of shape (m, width) of bytes, optional
        The rows' ids as the message names them.
    naming : str
        What these are: "plain", "hashed" or "keyed" and a fingerprint; empty without ids.
    own_ids : sequence, optional
        The rows' ids as the guest knows them.
    gradients : array of shape (m, d), optional
        What a guest received for these rows in rounds.
    hints : array of shape (m,), optional
        The class that a guest was told of each of these rows, -1 where none; classes are numbered in the labels' order.
    labels : array of shape (m,), optional
        The host's labels of these rows.
    train : callable, optional
        Trains the model that is released on some of the rows: see `fedonce.assess.audit.membership`.
    shared : dict
        What one attack has worked out and others may use; see `once`.
    """

    values: NDArray[Any]
    table: Table
    learner: str = ""
    protect: str = ""
    blurred: str = ""
    second: NDArray[Any] | None = None
    ids: NDArray[np.uint8] | None = None
    naming: str = ""
    own_ids: Sequence[Any] | None = None
    gradients: NDArray[Any] | None = None
    hints: NDArray[Any] | None = None
    labels: NDArray[Any] | None = None
    train: Callable[..., Any] | None = None
    shared: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        values, n = np.asarray(self.values), self.table.n_rows
        if values.ndim != 2 or len(values) != n or not np.isfinite(values).all():
            raise InputError(
                f"The values must be finite numbers, one row for each of the table's {n} rows. Got shape {values.shape}."
            )
        object.__setattr__(self, "values", values)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.values)

    def once(self, key: Hashable, work: Callable[[], T]) -> T:
        """Return what `work` gives, done once for all attacks."""
        if key not in self.shared:
            self.shared[key] = work()
        found: T = self.shared[key]
        return found

    def lacks(self, facts: Facts) -> list[str]:
        """Return what an attack needs and is not there."""
        return [name for name in facts.needs if getattr(self, name) is None]

    def take(self, rows: NDArray[np.intp]) -> Exposed:
        """Return some of the rows."""
        each: dict[str, Any] = {
            name: None if (value := getattr(self, name)) is None else np.asarray(value)[rows]
            for name in ("values", "second", "ids", "gradients", "hints", "labels")
        }
        own = None if self.own_ids is None else [self.own_ids[int(row)] for row in rows]
        return replace(self, table=self.table.take(rows), own_ids=own, shared={}, **each)

    def sample(self, most_rows: int, seed: int = 0) -> Exposed:
        """Return at most so many of the rows, drawn once for all attacks; all of them where there are no more."""
        if self.n_rows <= most_rows:
            return self
        rows = np.sort(np.random.default_rng(seed).permutation(self.n_rows)[:most_rows])
        return self.once(("sample", most_rows, seed), lambda: self.take(rows))


@dataclass(frozen=True)
class Finding:
    """How well one attack did, on one column or on the rows as such.

    Parameters
    ----------
    attack : str
        Its name.
    column : str or int, optional
        What was rebuilt; None: it is about rows, not about a column.
    kind : str
        "number", "date", "category", "boolean" of a column; "missing" where it is a column's gaps that were rebuilt; "record",
        "row", "link", "id", "label" or "member" of rows.
    score : float, optional
        Between 0 and 1: R² of numbers and dates; of all else the share that was got right. None: it cannot be said, and `note`
        says why.
    guess : float
        The score of who sees no message: the mean, the most common value, chance.
    control : float, optional
        The score of the same attack where it cannot work: on values of other rows than those that it is scored on.
    low, high : float, optional
        A 95 % interval of the score.
    rows : int
        How many rows it is scored on.
    knows : float
        The share of rows that the attacker knows beforehand.
    way : str
        How it was done best, where an attack has several ways.
    note : str
        What else is to be said.
    """

    attack: str
    column: Hashable | None
    kind: str
    score: float | None
    guess: float = 0.0
    control: float | None = None
    low: float | None = None
    high: float | None = None
    rows: int = 0
    knows: float = 0.0
    way: str = ""
    note: str = ""

    @property
    def base(self) -> float:
        """What the attack has to beat: the guess, and the control where that is better."""
        return max(self.guess, self.control or 0.0)

    @property
    def gain(self) -> float:
        """The part of what guessing gets wrong that the attack gets right; -1 where there is no score."""
        if self.score is None:
            return -1.0
        return max(0.0, (self.score - self.base) / (1 - self.base)) if self.base < 1 else 0.0

    @property
    def verdict(self) -> str:
        """The result in words: "readable", "partly" or "not by these attacks"; the last never means safe.

        Readable: a score above 0.9, and more than half of what guessing gets wrong is got right. Partly: a tenth of it. Either
        counts only where the interval of the score lies above guess and control.
        """
        low = self.score if self.low is None else self.low
        if self.score is None or low is None or low <= self.base:
            return NOT_FOUND
        if self.score > max(ALARMING, (1 + self.base) / 2):
            return READABLE
        return PARTLY if self.gain > SOME else NOT_FOUND

    @property
    def told_by(self) -> str:
        """The attack and what it knew, in words."""
        way = f" ({self.way})" if self.way else ""
        return f"{self.attack}{way}, {f'{100 * self.knows:g} %' if self.knows else 'none'} of the rows known"

    @property
    def figure(self) -> str:
        """The score in words."""
        return _figure(self.kind, self.score)

    @property
    def guessed(self) -> str:
        """The guess in words."""
        return _figure(self.kind, None if self.score is None else self.guess)

    def as_json(self) -> dict[str, Any]:
        """Return the finding as JSON values, its verdict among them."""
        return {
            "attack": self.attack,
            "column": self.column,
            "kind": self.kind,
            "score": self.score,
            "guess": self.guess,
            "control": self.control,
            "interval": None if self.low is None else [self.low, self.high],
            "rows": self.rows,
            "knows": self.knows,
            "way": self.way,
            "verdict": self.verdict,
            "note": self.note,
        }


def _figure(kind: str, score: float | None) -> str:
    if score is None:
        return "-"
    return f"R² {score:.2f}" if kind in ("number", "date") else f"{100 * score:.1f} %"


class Attack(ABC):
    """One way to find out what was not meant to be told. Settings are dataclass fields.

    To add one, write `run`, say in `facts` what the attacker knows and tries, and call
    `fedonce.assess.attacks.register(YourAttack)`; or name it in a package's entry points, group `fedonce.attacks`; or hand an
    instance of it to `what_leaks`. `docs/leakage.md` has a whole example.
    """

    name: ClassVar[str]
    facts: ClassVar[Facts] = Facts()

    @abstractmethod
    def run(self, exposed: Exposed, rng: np.random.Generator) -> Sequence[Finding]:
        """Attack, and say for each column, or for the rows as such, how well it went; nothing where it does not apply.

        All randomness comes from `rng`. Work and memory must have a bound, whatever the size of the table.
        """


def share_interval(score: float, rows: int) -> tuple[float, float]:
    """Return a 95 % interval of a share that was counted on so many rows (Wilson's)."""
    if not rows:
        return 0.0, 1.0
    z = CONFIDENT**2 / rows
    middle, half = (score + z / 2) / (1 + z), sqrt(max(score * (1 - score) * z + z * z / 4, 0.0)) / (1 + z)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return (low, 1.0) if isclose(score, 1.0) else (low, high)


def share_right(right: Mask, plain: Mask) -> tuple[float, float, float]:
    """Return the share of rows that an attack got right, and its 95 % interval, by where it differs from guessing (`plain`).

    Both are scored on the same rows. What can be by chance is how many of the rows that guessing gets wrong are got right, and
    how many of the others are spoilt; not how many rows have the most common value. So four rare rows of thousands count where
    they are found, and none of the others is spoilt.
    """
    rows = max(len(right), 1)
    score, missed, spoilt = float(right.sum()) / rows, int((~plain).sum()), int((plain & ~right).sum())
    found = int((right & ~plain).sum())
    low, high = (share * missed for share in share_interval(found / max(missed, 1), missed))
    less, more = (np.hypot(each - found, CONFIDENT * sqrt(spoilt)) / rows for each in (low, high))
    return score, max(0.0, score - float(less)), min(1.0, score + float(more))


def explained(truth: Floats, guessed: Floats) -> tuple[float, float, float]:
    """Return R² and its 95 % interval, by the spread of the rows' errors; none is below 0."""
    wrong, spread = np.square(truth - guessed), np.square(truth - truth.mean())
    scale = max(float(spread.mean()), 1e-300)
    ratio = float(wrong.mean()) / scale
    half = CONFIDENT * float((wrong - ratio * spread).std()) / scale / sqrt(max(len(truth), 1))
    return max(0.0, 1 - ratio), max(0.0, 1 - ratio - half), min(1.0, max(0.0, 1 - ratio + half))


def shuffled(n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return another row for every row, for a control: a shift by chance of rows in an order by chance."""
    order = rng.permutation(n)
    other = np.empty(n, np.intp)
    other[order] = np.roll(order, 1 if n > 1 else 0)
    return other


def pieces(n: int, size: int) -> Iterator[slice]:
    """Cut n things into runs of at most `size`, so that memory has a bound."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
