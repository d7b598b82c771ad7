"""Numbers and dates in a message, found without any known row: as one of its values, or as an independent component of all.

Values that a linear encoder mixes are unmixed by independent component analysis wherever the columns are not Gaussian and hang
together little: up to scale, sign and name. Scored are the best component's R² with each column, and its squared rank
correlation, which tells the order of the rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from fedonce.assess.attacks.base import CONFIDENT, Attack, Exposed, Finding, Floats, shuffled
from fedonce.assess.attacks.columns import (
    FEWEST_ROWS,
    NUMBERS,
    ONE_VALUE,
    TOO_FEW,
    as_numbers,
    blocks,
    kind_of,
    known_of,
)
from fedonce.assess.attacks.names import ATTACKS, Facts
from fedonce.assess.attacks.spans import basis
from fedonce.training.threads import product_work, threads_for

MOST_ROWS = 8_000
MOST_WIDTH = 32  # directions of a message that are unmixed, those of the largest variance
CONTRASTS = ("logcosh", "cube")  # the second finds flat columns, such as dates
STEPS = (60, 200)  # of each unmixing at most: fewer where there are many directions
SCALE, ORDER = "up to scale and sign", "order of the rows"


@dataclass(frozen=True)
class Components(Attack):
    """Compare every column of numbers or dates with the message's values and with their independent components.

    Parameters
    ----------
    most_rows : int
        How many rows are looked at.
    """

    name: ClassVar[str] = "numbers and dates"
    facts: ClassVar[Facts] = ATTACKS.built_in["numbers and dates"].facts

    most_rows: int = MOST_ROWS

    def run(self, exposed: Exposed, rng: np.random.Generator) -> Sequence[Finding]:
        """Unmix once, and take for each column the component that is most like it; as a control, for other rows' values."""
        sample = exposed.sample(self.most_rows)
        values = np.asarray(sample.values, np.float64)
        with threads_for(product_work(len(values), MOST_WIDTH, MOST_WIDTH)):
            parts = np.hstack([values, *unmixed(values, rng)])
        ways = {SCALE: _length_one(parts), ORDER: _length_one(rankdata(parts, axis=0))}
        other = shuffled(sample.n_rows, rng)
        return [
            found
            for names, columns in blocks(sample.table, np.arange(sample.n_rows))
            for name, column in zip(names, columns, strict=True)
            if kind_of(column) in NUMBERS
            for found in self._compare(name, column, ways, other)
        ]

    def _compare(
        self, name: object, column: NDArray[np.generic], ways: dict[str, Floats], other: NDArray[np.intp]
    ) -> Iterator[Finding]:
        known, kind = known_of(column), kind_of(column)
        if known.sum() < FEWEST_ROWS:
            yield Finding(self.name, name, kind, None, note=TOO_FEW)
            return
        plain = as_numbers(column, known)
        if not np.ptp(plain):
            yield Finding(self.name, name, kind, None, note=ONE_VALUE)
            return
        for way, parts in ways.items():
            own = _length_one((plain if way == SCALE else rankdata(plain))[:, None])[:, 0]
            score, control = _best(own, parts[known]), _best(own, parts[other][known])
            # Of a correlation of r, the standard error is about (1 - r²) / sqrt(n); that of its square 2r times it.
            half = CONFIDENT * 2 * np.sqrt(score) * (1 - score) / np.sqrt(len(own))
            low, high = max(0.0, score - half), min(1.0, score + half)
            yield Finding(self.name, name, kind, score, 0.0, control, low, high, len(own), way=way)


def unmixed(values: Floats, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield the independent components of values, as each contrast finds them; none where there are too few rows or values."""
    n = len(values)
    white = basis(values)[:, 1 : MOST_WIDTH + 1] * np.sqrt(n) if n else np.zeros((0, 0))
    if white.shape[1] < 2 or n < FEWEST_ROWS * white.shape[1]:
        return
    steps = int(np.clip(2_400 // white.shape[1], *STEPS))
    for contrast in CONTRASTS:
        search = FastICA(fun=contrast, whiten=False, max_iter=steps, random_state=int(rng.integers(2**31)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the number of steps is the bound
            found = search.fit_transform(white)
        yield found[:, np.isfinite(found).all(axis=0)]


def _length_one(columns: Floats) -> Floats:
    """Return columns centred and of length 1; zeros where one never changes."""
    centred = columns - columns.mean(axis=0) if len(columns) else columns
    size = np.linalg.norm(centred, axis=0)
    return np.asarray(centred / np.where(size > 1e-9 * np.abs(columns).max(axis=0, initial=0.0), size, np.inf))


def _best(own: Floats, parts: Floats) -> float:
    """Return the best squared correlation with any component; those of fewer rows are centred again."""
    return float(np.square(own @ _length_one(parts)).max(initial=0.0))
