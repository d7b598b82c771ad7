"""Who holds a message and knows a few rows describes single rows: a few columns that fit one row of the table and no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedonce.assess.attacks.base import Attack, Exposed, Finding, Floats, share_interval, shuffled
from fedonce.assess.attacks.columns import Goal, blocks, goal_of
from fedonce.assess.attacks.known_rows import FEWEST_TOLD, Attacker
from fedonce.assess.attacks.names import ATTACKS, Facts

MOST_ROWS = 20_000
TRIES = 500
MOST_USED = 5  # columns that describe a row
WELL = 0.5  # of what guessing gets wrong: columns that are guessed worse describe nothing
WIDTH = 0.05  # of a column's rows, on either side of a number: it is said to lie within
MOST_COLUMNS = 64


@dataclass(frozen=True)
class SinglingOut(Attack):
    """Describe rows by the columns that are guessed best, and count which descriptions fit the row meant and no other.

    Parameters
    ----------
    knows : float
        Which part of the rows the attacker knows.
    most_rows : int
        How many rows there are to be told apart.
    """

    name: ClassVar[str] = "singling out"
    facts: ClassVar[Facts] = ATTACKS.built_in["singling out"].facts

    knows: float = 0.01
    most_rows: int = MOST_ROWS

    def run(self, exposed: Exposed, rng: np.random.Generator) -> Sequence[Finding]:
        """Describe some hundred rows; for the control by the guesses for other rows, for the guess by values by chance."""
        sample = exposed.sample(self.most_rows)
        told = round(self.knows * sample.n_rows)
        if told < FEWEST_TOLD or sample.n_rows - told < 2 * FEWEST_TOLD:
            return []
        rows = rng.permutation(sample.n_rows)
        n_held = sample.n_rows - told
        values = sample.values[rows]
        attacker = Attacker(values[n_held:], values[:n_held])
        names, columns = next(blocks(sample.table, rows))
        goals = [goal_of(name, column, n_held) for name, column in zip(names, columns, strict=True)][:MOST_COLUMNS]
        whole = [goal for goal in goals if isinstance(goal, Goal) and (goal.held_rows is None or goal.held_rows.all())]
        guesses = [self._guess(attacker, goal) for goal in whole]
        gains = [
            (goal.score(guess)[0] - goal.guess) / max(1 - goal.guess, 1e-9)
            for goal, guess in zip(whole, guesses, strict=True)
        ]
        best = [j for j in np.argsort(gains)[::-1][:MOST_USED] if gains[j] > WELL]
        if not best:
            return []
        tried = rng.permutation(n_held)[: min(TRIES, n_held)]
        places = (tried, shuffled(n_held, rng)[tried], None)
        score, control, guess = (
            self._share([(whole[j], guesses[j]) for j in best], tried, place, rng) for place in places
        )
        low, high = share_interval(score, len(tried))
        note = f"of {n_held:,} rows, by {len(best)} columns"
        return [Finding(self.name, None, "row", score, guess, control, low, high, len(tried), self.knows, note=note)]

    def _guess(self, attacker: Attacker, goal: Goal) -> Floats:
        guesses = attacker.guess(goal.told, goal.told_rows, goal.held_rows)
        return max(guesses.values(), key=lambda guessed: goal.score(guessed)[0])

    def _share(
        self,
        chosen: list[tuple[Goal, Floats]],
        meant: NDArray[np.intp],
        place: NDArray[np.intp] | None,
        rng: np.random.Generator,
    ) -> float:
        """Return how many descriptions fit the row meant alone; `place`: whose guesses they use, None: values by chance."""
        fits = np.ones((len(meant), len(chosen[0][0].truth)), bool)
        for goal, guess in chosen:
            truth = goal.truth
            said: NDArray[np.generic]
            if goal.is_number:
                order = np.sort(truth)
                said = truth[rng.integers(0, len(truth), len(meant))] if place is None else guess[place, 0]
                at = np.searchsorted(order, said) / len(order)
                low, high = (np.quantile(order, np.clip(at + side * WIDTH, 0, 1)) for side in (-1, 1))
                fits &= (truth >= low[:, None]) & (truth <= high[:, None])
            else:
                said = truth[rng.integers(0, len(truth), len(meant))] if place is None else guess[place].argmax(axis=1)
                fits &= truth == said[:, None]
        alone = fits.sum(axis=1) == 1
        return float((alone & fits[np.arange(len(meant)), meant]).mean())
