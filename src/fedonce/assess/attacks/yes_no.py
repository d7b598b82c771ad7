"""Without any known row, the yes/no columns and categories of a message are found: their values, not their names."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from fedonce.assess.attacks.base import Attack, Exposed, Finding, Floats, Mask, share_right, shuffled
from fedonce.assess.attacks.columns import FEWEST_ROWS, NUMBERS, blocks, codes_of, kind_of, known_of
from fedonce.assess.attacks.names import ATTACKS, Facts
from fedonce.assess.attacks.spans import FEWEST, Candidates, candidates
from fedonce.training.threads import product_work, threads_for

MOST_ROWS = 100_000
MOST_ENTRIES, FEWEST_SAMPLED = 2_000_000, 2_000  # values that are looked at: of many per row, fewer rows
MOST_VALUES = 20  # of a category: its most common values are looked for
MOST_GROUPS, GROUPED_ROWS = 24, 5_000  # that rows are put into, and rows that the groups are learnt from
GAPS = "missing"


@dataclass(frozen=True)
class YesNo(Attack):
    """Find vectors of zeros and ones in the span of the values, and groups of rows; compare them with columns and gaps.

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
        other = shuffled(sample.n_rows, rng)
        with threads_for(product_work(sample.n_rows, width, width)):
            found = candidates(sample.values, rng, self.sets)
            groups = Groups(sample.values, rng)
            return [
                _compare(goal, found, groups, other)
                for names, columns in blocks(sample.table, np.arange(sample.n_rows))
                for name, column in zip(names, columns, strict=True)
                for goal in truths(name, column)
            ]


def _compare(goal: Truth, found: Candidates, groups: Groups, other: NDArray[np.intp]) -> Finding:
    """Score what was found against one column; the control compares it with other rows of the column."""
    codes = goal.codes[goal.known]
    plain = codes == np.bincount(codes).argmax()
    guess, control = float(plain.mean()), None
    ways: dict[str, tuple[Callable[..., NDArray[np.intp]], NDArray[Any]]]
    ways = {"": (matched, found.found)} if len(found) else {}
    ways |= {name: (named, labels) for name, labels in groups.of(int(codes.max()) + 1)}
    best, right = "", plain
    for way, (tell, marks) in ways.items():
        hit = tell(codes, marks[goal.known]) == codes
        if hit.sum() > right.sum():
            best, right = way, hit
    mixed = goal.known & goal.known[other]
    if best in ways and mixed.sum() >= FEWEST_ROWS:
        (tell, marks), codes = ways[best], goal.codes[other][mixed]
        control = float((tell(codes, marks[mixed]) == codes).mean())
    score, low, high = share_right(right, plain)
    note = f"{len(found)} candidates, {found.exact} of them exact"
    return Finding(YesNo.name, goal.name, goal.kind, score, guess, control, low, high, len(right), way=best, note=note)


class Groups:
    """Rows in groups by k-means of the message's values: as many as a column has values, and twice as many."""

    def __init__(self, values: NDArray[Any], rng: np.random.Generator) -> None:
        values = np.asarray(values, np.float64)
        spread = values.std(axis=0)
        self.scales = {"": values}
        if values.shape[1] > 1:
            self.scales[", standardised"] = values / np.where(spread > 0, spread, 1.0)
        self.seed, self.some = int(rng.integers(2**31)), rng.permutation(len(values))[:GROUPED_ROWS]
        self.found: dict[str, NDArray[np.intp]] = {}

    def of(self, k: int) -> list[tuple[str, NDArray[np.intp]]]:
        """Return the group of each row, in several ways by name; none where there are too few rows for so many groups."""
        fit = [size for size in (k, 2 * k) if size <= min(MOST_GROUPS, len(self.some) // FEWEST_ROWS)]
        return [
            (f"{size} groups{name}", self._grouped(size, name, values))
            for size in fit
            for name, values in self.scales.items()
        ]

    def _grouped(self, k: int, scale: str, values: Floats) -> NDArray[np.intp]:
        key = f"{k}{scale}"
        if key not in self.found:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different messages than groups
                search = KMeans(k, n_init=5, max_iter=50, random_state=self.seed).fit(values[self.some])
            self.found[key] = search.predict(values).astype(np.intp)
        return self.found[key]


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


def matched(codes: NDArray[np.intp], found: Mask) -> NDArray[np.intp]:
    """Return each row's value as the best candidates tell it: one candidate for two values, one for each of several."""
    floats = found.astype(np.float32)
    ones = floats.sum(axis=0)
    values = range(int(codes.max(initial=0)) + 1)
    told = np.zeros(len(codes), np.intp)
    claims = np.zeros(len(codes), np.intp)
    for value in values[1:] if len(values) == 2 else values:
        is_value = codes == value
        share = _agreement(is_value, floats, ones)
        best = int(share.argmax())
        marked = found[:, best]
        marked = marked if 2 * (marked == is_value).sum() >= len(codes) else ~marked
        told[marked] = value
        claims += marked
    if len(values) > 2:
        told[claims != 1] = 0  # none or several claim the row: the most common value
    return told


def named(codes: NDArray[np.intp], groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return each row's value as its group tells it, where each group is named after its most common value."""
    values = int(codes.max(initial=0)) + 1
    counts = np.bincount(groups * values + codes, minlength=values * (int(groups.max(initial=0)) + 1))
    return np.asarray(counts.reshape(-1, values).argmax(axis=1)[groups])


def _agreement(truth: Mask, floats: NDArray[np.float32], ones: NDArray[np.float32]) -> Floats:
    """Return in how many rows each candidate agrees with a yes/no vector, zeros and ones exchanged where that is better."""
    both = truth.astype(np.float32) @ floats
    agree = len(truth) - truth.sum() - ones + 2 * both
    return np.asarray(np.maximum(agree, len(truth) - agree), np.float64)
