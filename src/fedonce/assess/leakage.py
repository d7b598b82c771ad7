"""What a message gives away: how well a plain attack rebuilds each raw column of a guest from the values that it sends.

The attacker is assumed to know values and columns of some rows, and guesses the columns of the others: by ridge regression and by
the nearest known rows, whichever does better. A cleverer attack may do better still; what these find, anybody finds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve
from sklearn.neighbors import NearestNeighbors

from fedonce.data.table import Table, as_text
from fedonce.errors import InputError
from fedonce.training.threads import product_work, threads_for

ALARMING = 0.9
MOST_ROWS = 20_000
FEWEST_ROWS = 20  # known rows of a column, below which nothing is said
TOO_FEW = f"fewer than {FEWEST_ROWS} known rows"
NEIGHBOURS = 10
SEARCHED = (
    4 * NEIGHBOURS
)  # so that ten of them are known where a column has gaps; with more gaps it gets its own search
MOST_CATEGORIES = 100
COLUMNS_AT_ONCE = 64
REMEDIES = ("dim", "bits", "bytes_per_row", "noise", "drop")  # the parameters that `warning` is about
PENALTY = 0.01  # of the ridge, on standardised values: little, as rows are many

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class ColumnLeakage:
    """How well one column was rebuilt on rows held back.

    Parameters
    ----------
    column : str or int
        Its name.
    kind : str
        "number", "date", "category" or "boolean".
    score : float, optional
        R² of numbers and dates, at least 0; accuracy of the others. None: it cannot be said, and `attack` says why.
    guess : float
        The score of who sees no message and names the mean, or the most common value.
    attack : str
        Which attack did best.
    """

    column: Hashable
    kind: str
    score: float | None
    guess: float
    attack: str

    @property
    def unknown(self) -> bool:
        """Whether nothing could be said of the column, as too few of its values are known."""
        return self.score is None and self.attack == TOO_FEW

    @property
    def alarming(self) -> bool:
        """Whether the column is as good as sent: above 0.9, and more than half of what guessing gets wrong is got right."""
        return self.score is not None and self.score > max(ALARMING, (1 + self.guess) / 2)

    @property
    def gain(self) -> float:
        """The part of what guessing gets wrong that the attack gets right; -1 where there is no score."""
        if self.score is None:
            return -1.0
        return max(0.0, (self.score - self.guess) / (1 - self.guess)) if self.guess < 1 else 0.0


def reconstruct(values: NDArray[Any], table: Table, seed: int = 0) -> list[ColumnLeakage]:
    """Attack a message: rebuild each column of a table from the values sent of the same rows, (m, d).

    At most 20,000 rows are drawn, and a quarter of them is held back to score the attacks on.
    """
    values = np.asarray(values)
    if values.ndim != 2 or len(values) != table.n_rows or not np.isfinite(values).all():
        raise InputError(
            f"The values must be finite numbers, one row for each of the table's {table.n_rows} rows. Got shape {values.shape}."
        )
    rows = np.random.default_rng(seed).permutation(len(values))[:MOST_ROWS]
    n_held = len(rows) // 4
    attacker = _Attacker(values[rows[n_held:]], values[rows[:n_held]])
    found: list[ColumnLeakage] = []
    with threads_for(product_work(values.shape[1], len(rows), max(values.shape[1], COLUMNS_AT_ONCE))):
        for names, columns in _blocks(table, rows):
            found += _rebuild(attacker, names, columns, n_held)
    return found


def _blocks(table: Table, rows: NDArray[np.intp]) -> Iterator[tuple[Sequence[Hashable], list[NDArray[Any]]]]:
    """Yield the drawn rows of the table, a few columns at a time: names and columns."""
    sample = None if table.matrix is None else table.matrix[rows]
    if sparse.issparse(sample):
        sample = sparse.csc_array(sample)
    for start in range(0, len(table.names), COLUMNS_AT_ONCE):
        chosen = slice(start, start + COLUMNS_AT_ONCE)
        if sample is None:
            columns = [np.asarray(column[rows]) for column in table.columns[chosen]]
        else:
            part = sample[:, chosen]
            columns = list((part.toarray() if sparse.issparse(part) else np.asarray(part)).T)
        yield table.names[chosen], columns


def _rebuild(
    attacker: _Attacker, names: Sequence[Hashable], columns: Sequence[NDArray[Any]], n_held: int
) -> list[ColumnLeakage]:
    """Attack a few columns; those of numbers without gaps together, the others one by one."""
    goals = [_goal(name, column, n_held) for name, column in zip(names, columns, strict=True)]
    whole = [goal for goal in goals if isinstance(goal, _Goal) and goal.told_rows is None]
    together = attacker.guess(np.hstack([goal.told for goal in whole])) if whole else {}
    found, position = [], 0
    for goal in goals:
        if isinstance(goal, ColumnLeakage):
            found.append(goal)
        elif goal.told_rows is None:
            found.append(goal.judge({attack: guess[:, [position]] for attack, guess in together.items()}))
            position += 1
        else:
            found.append(goal.judge(attacker.guess(goal.told, goal.told_rows, goal.held_rows)))
    return found


def _goal(name: Hashable, column: NDArray[Any], n_held: int) -> _Goal | ColumnLeakage:
    """Take the drawn rows of a column, those held back first; where nothing can be said of it, say why."""
    kind, known = _kind(column), _known(column)
    held, told = column[:n_held][known[:n_held]], column[n_held:][known[n_held:]]
    if known.sum() < FEWEST_ROWS or min(len(held), len(told)) < FEWEST_ROWS // 5:
        return ColumnLeakage(name, kind, None, 0.0, TOO_FEW)
    if kind in ("category", "boolean"):
        codes, truth, classes = _codes(told, held)
        if classes == 1:
            return ColumnLeakage(name, kind, None, 0.0, "one value only")
        return _Goal(name, kind, np.eye(classes)[codes], truth, known[n_held:], known[:n_held])
    told, held = _scaled(told, held)
    if not np.ptp(told) or not np.ptp(held):
        return ColumnLeakage(name, kind, None, 0.0, "one value only")
    gaps = (None, None) if known.all() else (known[n_held:], known[:n_held])
    return _Goal(name, kind, told[:, None], held, *gaps)


@dataclass(frozen=True)
class _Goal:
    """A column that is attacked: what the attacker is told (for categories, one column each), and what is to be rebuilt."""

    name: Hashable
    kind: str
    told: Floats
    truth: NDArray[Any]
    told_rows: Mask | None  # which have a value; None: all, and the column is one of numbers
    held_rows: Mask | None

    def judge(self, guesses: dict[str, Floats]) -> ColumnLeakage:
        """Return the better attack's score."""
        guess = 0.0 if self._is_number else float((self.truth == self.told.sum(axis=0).argmax()).mean())
        scores = {attack: self._score(guessed) for attack, guessed in guesses.items()}
        best = max(scores, key=lambda attack: scores[attack])
        return ColumnLeakage(self.name, self.kind, max(0.0, scores[best]), guess, best)

    @property
    def _is_number(self) -> bool:
        return self.kind in ("number", "date")

    def _score(self, guessed: Floats) -> float:
        if not self._is_number:
            return float((guessed.argmax(axis=1) == self.truth).mean())
        wrong = np.square(guessed[:, 0] - self.truth).sum()
        return float(1 - wrong / np.square(self.truth - self.truth.mean()).sum())


def _kind(column: NDArray[Any]) -> str:
    kinds = {"O": "category", "U": "category", "S": "category", "b": "boolean", "M": "date"}
    return kinds.get(column.dtype.kind, "number")


def _known(column: NDArray[Any]) -> Mask:
    """Tell which values are there; infinity is none."""
    if column.dtype.kind == "M":
        return np.asarray(~np.isnat(column))
    if column.dtype.kind == "O":
        return np.array([value is not None for value in column], dtype=bool)
    return np.asarray(np.isfinite(column)) if column.dtype.kind == "f" else np.ones(len(column), bool)


def _codes(told: NDArray[Any], held: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
    """Give categories numbers by how common they are among the rows that the attacker knows; the rare ones share a number.

    A value that only rows held back have gets a number that no guess can be.
    """
    texts = [as_text(value) for value in told.tolist()]
    names, counts = np.unique(texts, return_counts=True)
    order = names[np.argsort(-counts, kind="stable")].tolist()
    code = {name: min(position, MOST_CATEGORIES) for position, name in enumerate(order)}
    classes = min(len(order), MOST_CATEGORIES + 1)
    unseen = min(len(order), MOST_CATEGORIES)
    held_codes = [code.get(as_text(value), unseen) for value in held.tolist()]
    return np.array([code[text] for text in texts], dtype=np.intp), np.array(held_codes, dtype=np.intp), classes


def _scaled(told: NDArray[Any], held: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return numbers or dates centred and between -1 and 1 or so, as R² does not mind and sums of squares do."""
    if told.dtype.kind == "M":
        told, held = (part.astype("datetime64[us]").astype(np.int64) for part in (told, held))
    told, held = told.astype(np.float64), held.astype(np.float64)
    largest = max(np.abs(told).max(), np.abs(held).max()) or 1.0
    told, held = told / largest, held / largest
    middle = told.mean()
    told, held = told - middle, held - middle
    spread = max(np.abs(told).max(), np.abs(held).max()) or 1.0
    return told / spread, held / spread


class _Attacker:
    """Who knows the values of all rows, and the columns of some."""

    def __init__(self, told: NDArray[Any], held: NDArray[Any]) -> None:
        told = told.astype(np.float64)
        mean, spread = (told.mean(axis=0), told.std(axis=0)) if len(told) else (0.0, 1.0)
        spread = np.where(spread > 1e-12 * np.maximum(np.abs(mean), 1e-300), spread, np.inf)
        self.told, self.held = (told - mean) / spread, (held.astype(np.float64) - mean) / spread
        self._near: NDArray[np.intp] | None = None

    def guess(self, targets: Floats, told: Mask | None = None, held: Mask | None = None) -> dict[str, Floats]:
        """Guess targets of the rows held back from those of the rows told; masks: where the column has a value."""
        told = np.ones(len(self.told), bool) if told is None else told
        held = np.ones(len(self.held), bool) if held is None else held
        return {"linear": self._linear(targets, told, held), "neighbours": self._nearest(targets, told, held)}

    def _linear(self, targets: Floats, told: Mask, held: Mask) -> Floats:
        known = self.told[told]
        middle = known.mean(axis=0)
        centred = known - middle
        mean = targets.mean(axis=0)
        gram = centred.T @ centred + PENALTY * np.eye(centred.shape[1])
        guessed: Floats = (self.held[held] - middle) @ solve(gram, centred.T @ (targets - mean), assume_a="pos") + mean
        return guessed

    def _nearest(self, targets: Floats, told: Mask, held: Mask) -> Floats:
        if told.mean() * SEARCHED < 2 * NEIGHBOURS:  # too many gaps: look among the rows without
            near = _search(self.told[told], self.held[held], NEIGHBOURS)
            return np.asarray(_weights(near, np.arange(len(targets)), len(targets)) @ targets)
        position = np.where(told, np.cumsum(told) - 1, -1)
        return np.asarray(_weights(self._neighbours()[held], position, len(targets)) @ targets)

    def _neighbours(self) -> NDArray[np.intp]:
        if self._near is None:
            self._near = _search(self.told, self.held, SEARCHED)
        return self._near


def _search(told: Floats, held: Floats, k: int) -> NDArray[np.intp]:
    """Return the nearest rows, nearest first."""
    search = NearestNeighbors(n_neighbors=min(k, len(told))).fit(told.astype(np.float32))
    near: NDArray[np.intp] = search.kneighbors(held.astype(np.float32), return_distance=False)
    return near


def _weights(near: NDArray[np.intp], position: NDArray[np.intp], n_told: int) -> Any:
    """Return the matrix that averages the ten nearest known rows; `position` is -1 where a row is not known."""
    columns = position[near]
    known = columns >= 0
    chosen = known & (np.cumsum(known, axis=1) <= NEIGHBOURS)
    counts = np.maximum(chosen.sum(axis=1), 1)
    rows = np.repeat(np.arange(len(near)), chosen.sum(axis=1))
    return sparse.csr_array((1 / counts[rows], (rows, columns[chosen])), shape=(len(near), n_told))


def lines(found: Sequence[ColumnLeakage], limit: int = 12) -> list[str]:
    """Return a table for a terminal, the columns that are rebuilt best first."""
    order = sorted(found, key=lambda each: (each.alarming, each.gain), reverse=True)
    shown = [_cells(each) for each in order[:limit]]
    table = [("column", "kind", "rebuilt", "guessed", "by"), *shown]
    widths = [max(len(row[j]) for row in table) for j in range(4)]
    text = [
        f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:>{widths[3]}}  {row[4]}"
        for row in table
    ]
    more = len(order) - len(shown)
    return [*text, f"and {more} more, rebuilt no better"] if more > 0 else text


def _cells(each: ColumnLeakage) -> tuple[str, str, str, str, str]:
    name = "".join(letter if letter.isprintable() else "?" for letter in str(each.column))
    name = name if len(name) <= 32 else f"{name[:29]}..."
    if each.score is None:
        return name, each.kind, "-", "-", each.attack
    if each.kind in ("number", "date"):
        return name, each.kind, f"R² {each.score:.2f}", f"R² {each.guess:.2f}", each.attack
    return name, each.kind, f"{100 * each.score:.1f} %", f"{100 * each.guess:.1f} %", each.attack


def by_design(learner: str) -> str:
    """Return one sentence on a message that needs no attack, as its learner sends columns themselves."""
    return f"The learner {learner!r} sends columns as they are, in bins: whoever holds the message can read them."


def warning(found: Sequence[ColumnLeakage]) -> str | None:
    """Return one sentence on the columns that are as good as sent, and what to do; None where there are none."""
    bad = sorted((each for each in found if each.alarming), key=lambda each: each.gain, reverse=True)
    if not bad:
        return None
    names = ", ".join(repr(each.column) for each in bad[:5]) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")
    one = len(bad) == 1
    return (
        f"A plain attack rebuilds column{'' if one else 's'} {names} from the message with a score above {ALARMING:g}: send "
        f"fewer values (dim), bits (bits) or bytes (bytes_per_row), add noise (noise), or leave the column{'' if one else 's'} "
        "out (drop)."
    )
