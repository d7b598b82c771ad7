"""Who holds a message and knows no row at all finds the yes/no columns in it: their values, not their names."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedonce.assess.attacks.base import Attack, Exposed, Finding, Floats, Mask, share_interval, shuffled
from fedonce.assess.attacks.columns import FEWEST_ROWS, NUMBERS, blocks, codes_of, kind_of, known_of
from fedonce.assess.attacks.names import ATTACKS, Facts
from fedonce.assess.attacks.spans import FEWEST, Candidates, candidates

MOST_ROWS = 20_000
MOST_ENTRIES, FEWEST_SAMPLED = 2_000_000, 2_000  # values that are looked at: of many per row, fewer rows
MOST_VALUES = 20  # of a category: its most common values are looked for
GAPS = "missing"


@dataclass(frozen=True)
class YesNo(Attack):
    """Find vectors of zeros and ones in the span of the values, and compare them with yes/no columns, categories and gaps.

    Parameters
    ----------
    sets : int
        How many sets of rows decide, one after the other: more find more where values are rounded or noisy.
    most_rows : int
        How many rows are looked at.
    """

    name: ClassVar[str] = "yes/no columns"
    facts: ClassVar[Facts] = ATTACKS.built_in["yes/no columns"].facts

    sets: int = 4
    most_rows: int = MOST_ROWS

    def run(self, exposed: Exposed, rng: np.random.Generator) -> Sequence[Finding]:
        """Search once, and compare with each column that has two values, few categories or gaps."""
        width = max(exposed.values.shape[1], 1)
        sample = exposed.sample(min(self.most_rows, max(MOST_ENTRIES // width, FEWEST_SAMPLED)))
        found = sample.once((self.name, self.sets), lambda: candidates(sample.values, rng, self.sets))
        other = shuffled(sample.n_rows, rng)
        rows = np.arange(sample.n_rows)
        goals = (
            goal
            for names, columns in blocks(sample.table, rows)
            for name, column in zip(names, columns, strict=True)
            for goal in truths(name, column)
        )
        return [self._compare(goal, found, other) for goal in goals]

    def _compare(self, goal: Truth, found: Candidates, other: NDArray[np.intp]) -> Finding:
        """Score what was found against one column; the control compares it with other rows of the column."""
        codes, known = goal.codes, goal.known
        rows = int(known.sum())
        counts = np.bincount(codes[known])
        guess = float(counts.max()) / rows
        note = f"{len(found)} candidates, {found.exact} of them sure"
        if not len(found):
            return Finding(
                self.name, goal.name, goal.kind, guess, guess, guess, *share_interval(guess, rows), rows, note=note
            )
        score = max(guess, matched(codes[known], found.found[known]))
        mixed = known & known[other]
        control = matched(codes[other][mixed], found.found[mixed]) if mixed.sum() >= FEWEST_ROWS else None
        return Finding(
            self.name, goal.name, goal.kind, score, guess, control, *share_interval(score, rows), rows, note=note
        )


@dataclass(frozen=True)
class Truth:
    """A column as numbers 0, 1, ... for its values, the most common first, and where it has one."""

    name: Hashable
    kind: str
    codes: NDArray[np.intp]
    known: Mask


def truths(name: Hashable, column: NDArray[Any]) -> Iterator[Truth]:
    """Yield what of a column this attack can find: its two values or its categories, and its gaps."""
    kind, known = kind_of(column), known_of(column)
    n = len(column)
    gaps = n - int(known.sum())
    if FEWEST <= gaps <= n - FEWEST and n >= FEWEST_ROWS:
        yield Truth(name, GAPS, (~known).astype(np.intp), np.ones(n, bool))
    if known.sum() < FEWEST_ROWS:
        return
    values = column[known]
    if kind in NUMBERS:
        if len(np.unique(values[:1000])) > 2 or len(different := np.unique(values)) != 2:
            return
        kind, told = "boolean", (values == different[1]).astype(np.intp)
    else:
        told, classes = codes_of(values)
        if classes < 2:
            return
        told = np.minimum(told, MOST_VALUES)
    codes = np.zeros(n, np.intp)
    codes[known] = told
    yield Truth(name, kind, codes, known)


def matched(codes: NDArray[np.intp], found: Mask) -> float:
    """Return the share of rows whose value the best candidates tell: one candidate for two values, one for each of several."""
    n = max(len(codes), 1)
    floats = found.astype(np.float32)
    ones = floats.sum(axis=0)
    values = range(int(codes.max(initial=0)) + 1)
    if len(values) == 2:
        return float(_agreement(codes == 1, floats, ones).max(initial=0.0)) / n
    told = np.zeros(n, np.intp)
    claims = np.zeros(n, np.intp)
    for value in values:
        is_value = codes == value
        share = _agreement(is_value, floats, ones)
        best = int(share.argmax())
        marked = found[:, best] if is_value @ floats[:, best] * 2 >= is_value.sum() else ~found[:, best]
        told[marked] = value
        claims += marked
    told[claims != 1] = 0  # none or several claim the row: the most common value
    return float((told == codes).mean())


def _agreement(truth: Mask, floats: NDArray[np.float32], ones: NDArray[np.float32]) -> Floats:
    """Return in how many rows each candidate agrees with a yes/no vector, zeros and ones exchanged where that is better."""
    both = truth.astype(np.float32) @ floats
    agree = len(truth) - truth.sum() - ones + 2 * both
    return np.asarray(np.maximum(agree, len(truth) - agree), np.float64)
