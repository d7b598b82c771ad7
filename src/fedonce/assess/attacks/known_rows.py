"""Who knows values and columns of some rows guesses the columns of the others: by a line, by neighbours, by a look-up."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve
from sklearn.neighbors import NearestNeighbors

from fedonce.assess.attacks.base import ALARMING, Attack, Exposed, Finding, Floats, Mask, share_interval, shuffled
from fedonce.assess.attacks.columns import COLUMNS_AT_ONCE, TOO_FEW, Goal, Nothing, blocks, goal_of
from fedonce.assess.attacks.names import ATTACKS, Facts
from fedonce.data.table import Table
from fedonce.training.threads import product_work, threads_for

MOST_ROWS = 20_000
MOST_HELD = 5_000  # rows that are scored on
FEWEST_TOLD = 10
NEIGHBOURS = 10
SEARCHED = (
    4 * NEIGHBOURS
)  # so that ten of them are known where a column has gaps; with more gaps it gets its own search
SHARES = (0.001, 0.01, 0.1, 0.75)  # of the rows that the attacker knows
NEAR = 0.1  # standard deviations: a number that is guessed so closely is right
PENALTY = 0.01  # of the ridge, on standardised values: little, as rows are many
COVERED = 0.05  # of the other rows: as many must have the message of a known row for a look-up
PRIOR = 2.0  # rows with the known rows' shares or mean that a look-up adds to each message

Guesses = dict[str, Floats]


@dataclass(frozen=True)
class KnownRows(Attack):
    """Guess columns of rows from those of known rows: by ridge regression, by the nearest ones, by those with the same message.

    Parameters
    ----------
    shares : tuple of float
        Which parts of the rows the attacker knows, one after the other.
    most_rows : int
        How many rows the attacker knows at most; of the others, 5,000 are scored on.
    """

    name: ClassVar[str] = "known rows"
    facts: ClassVar[Facts] = ATTACKS.built_in["known rows"].facts

    shares: tuple[float, ...] = SHARES
    most_rows: int = MOST_ROWS

    def run(self, exposed: Exposed, rng: np.random.Generator) -> Sequence[Finding]:
        """Attack once for each share of known rows."""
        return [found for share in self.shares for found in self.attack(exposed, share, rng)]

    def attack(self, exposed: Exposed, share: float, rng: np.random.Generator) -> list[Finding]:
        """Guess every column of rows held back, who knows a share of all rows; with few rows, of ten at least."""
        n = exposed.n_rows
        told = min(round(share * n), self.most_rows)
        if told < FEWEST_TOLD and share < 0.5:  # a handful of rows: the next larger share says more
            return []
        rows = rng.permutation(n)
        held = rows[: min(n - told, MOST_HELD)]
        rows = np.concatenate([held, rows[len(rows) - told :]])
        return guess_columns(exposed, rows, len(held), share, self, rng)

    def ways(self, told: NDArray[Any], held: NDArray[Any]) -> Attacker:
        """Return who knows the values of all rows, and the columns of those told."""
        return Attacker(told, held)


def guess_columns(
    exposed: Exposed, rows: NDArray[np.intp], n_held: int, share: float, attack: KnownRows, rng: np.random.Generator
) -> list[Finding]:
    """Rebuild every column of the first `n_held` rows from what is told of the others."""
    values = exposed.values[rows]
    attacker = attack.ways(values[n_held:], values[:n_held])
    other, records = shuffled(n_held, rng), Records(n_held)
    found: list[Finding] = []
    width = values.shape[1]
    with threads_for(product_work(width, len(rows), max(width, COLUMNS_AT_ONCE))):
        for names, columns in blocks(exposed.table, rows):
            goals = [goal_of(name, column, n_held) for name, column in zip(names, columns, strict=True)]
            for goal, guesses in attacker.all_of(goals):
                found.append(_judge(attack.name, goal, guesses, share, other))
                if isinstance(goal, Goal):
                    records.add(goal, guesses[found[-1].way], other)
    return [*found, *records.finding(attack.name, share)]


def _judge(attack: str, goal: Goal | Nothing, guesses: Guesses, share: float, other: NDArray[np.intp]) -> Finding:
    """Return the best way's score; as a control that of the same guesses for other rows than those they were made for."""
    if isinstance(goal, Nothing):
        return Finding(attack, goal.name, goal.kind, None, knows=share, note=goal.why)
    scores = {way: goal.score(guessed) for way, guessed in guesses.items()}
    best = max(scores, key=lambda way: scores[way][0])
    score, low, high = scores[best]
    mixed = guesses[best][_others(goal, other)]
    control, rows = goal.score(mixed)[0], len(goal.truth)
    return Finding(attack, goal.name, goal.kind, score, goal.guess, control, low, high, rows, share, best)


class Records:
    """Counts the rows of which every column was guessed right, one column after the other."""

    def __init__(self, n_rows: int) -> None:
        self.columns = 0
        self.right, self.guessed, self.mixed = (np.ones(n_rows, bool) for _ in range(3))

    def add(self, goal: Goal, guessed: Floats, other: NDArray[np.intp]) -> None:
        """Take one column more; a row without a value in it has nothing to be got wrong."""
        self.columns += 1
        held = np.ones(len(self.right), bool) if goal.held_rows is None else goal.held_rows
        plain = np.broadcast_to(goal.told.mean(axis=0), guessed.shape)
        for kept, guess in ((self.right, guessed), (self.guessed, plain), (self.mixed, guessed[_others(goal, other)])):
            kept[held] &= _is_right(goal, guess)

    def finding(self, attack: str, share: float) -> list[Finding]:
        """Return how many rows were got right as a whole; nothing where there is one column or none."""
        if self.columns < 2 or not len(self.right):
            return []
        score, guess, control = (float(each.mean()) for each in (self.right, self.guessed, self.mixed))
        low, high = share_interval(score, len(self.right))
        note = f"rows with all of {self.columns} columns right, numbers to {NEAR:g} standard deviations"
        return [Finding(attack, None, "record", score, guess, control, low, high, len(self.right), share, note=note)]


def _is_right(goal: Goal, guessed: Floats) -> Mask:
    if goal.is_number:
        return np.asarray(np.abs(guessed[:, 0] - goal.truth) <= NEAR * goal.truth.std())
    return np.asarray(guessed.argmax(axis=1) == goal.truth)


def _others(goal: Goal, other: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return for each row held back that has a value another such row."""
    if goal.held_rows is None:
        return other
    position = np.cumsum(goal.held_rows) - 1
    kept = np.flatnonzero(goal.held_rows)
    return np.roll(position[kept], 1)


class Attacker:
    """Who knows the values of all rows, and the columns of some."""

    def __init__(self, told: NDArray[Any], held: NDArray[Any]) -> None:
        cells = np.unique(np.vstack([told, held]), axis=0, return_inverse=True)[1].ravel()
        self.told_cells, self.held_cells = cells[: len(told)], cells[len(told) :]
        told = told.astype(np.float64)
        mean, spread = (told.mean(axis=0), told.std(axis=0)) if len(told) else (0.0, 1.0)
        spread = np.where(spread > 1e-12 * np.maximum(np.abs(mean), 1e-300), spread, np.inf)
        self.told, self.held = (told - mean) / spread, (held.astype(np.float64) - mean) / spread
        self._near: NDArray[np.intp] | None = None

    def all_of(self, goals: Sequence[Goal | Nothing]) -> list[tuple[Goal | Nothing, Guesses]]:
        """Guess a few columns; those of numbers without gaps together, the others one by one."""
        whole = [goal for goal in goals if isinstance(goal, Goal) and goal.told_rows is None]
        together = self.guess(np.hstack([goal.told for goal in whole])) if whole else {}
        found: list[tuple[Goal | Nothing, Guesses]] = []
        position = 0
        for goal in goals:
            if isinstance(goal, Nothing):
                found.append((goal, {}))
            elif goal.told_rows is None:
                found.append((goal, {way: guess[:, [position]] for way, guess in together.items()}))
                position += 1
            else:
                found.append((goal, self.guess(goal.told, goal.told_rows, goal.held_rows)))
        return found

    def guess(self, targets: Floats, told: Mask | None = None, held: Mask | None = None) -> Guesses:
        """Guess targets of the rows held back from those of the rows told; masks: where the column has a value."""
        told = np.ones(len(self.told), bool) if told is None else told
        held = np.ones(len(self.held), bool) if held is None else held
        found = {"linear": self._linear(targets, told, held), "neighbours": self._nearest(targets, told, held)}
        shared = np.isin(self.held_cells, self.told_cells).mean() if len(self.held_cells) else 0.0
        return found | {"look-up": self._look_up(targets, told, held)} if shared >= COVERED else found

    def _look_up(self, targets: Floats, told: Mask, held: Mask) -> Floats:
        """Guess by the known rows with the same message: their mean or shares, shrunk to those of all known rows."""
        cells, n_cells = self.told_cells[told], 1 + max(self.told_cells.max(), self.held_cells.max())
        sums = sparse.csr_array((np.ones(len(cells)), (cells, np.arange(len(cells)))), (n_cells, len(cells))) @ targets
        sums += PRIOR * targets.mean(axis=0)
        return np.asarray((sums / (PRIOR + np.bincount(cells, minlength=n_cells))[:, None])[self.held_cells[held]])

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


# The attack with known rows alone, by the names that it had before there were others.


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
    """Rebuild each column of a table from the values sent of the same rows, (m, d), by who knows three rows in four.

    At most 20,000 rows are drawn, and a quarter of them is held back to score on. `what_leaks` asks much more.
    """
    exposed = Exposed(values, table)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(exposed.n_rows)[:MOST_ROWS]
    found = guess_columns(exposed, rows, len(rows) // 4, 0.75, KnownRows(), rng)
    return [
        ColumnLeakage(each.column, each.kind, each.score, each.guess, each.way or each.note)
        for each in found
        if each.column is not None
    ]
