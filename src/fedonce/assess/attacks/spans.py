"""Vectors of zeros and ones in the span of a message's values: what a linear message cannot hide, found without any known row.

With A = [values, 1] of r independent columns, a yes/no column that the message carries is A w for some w, and r rows decide
w. Rows of high leverage are picked (pivoted QR), all patterns of zeros and ones on them are solved at once, and those are kept
that come out as zeros and ones on the other rows, too (arXiv 2210.06771). Where rounding, noise or a curved encoder hurt, what
was found is rounded and projected back onto the span until it stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve

from fedonce.assess.attacks.base import Floats, Mask, pieces

SEARCHED_ROWS = 1_500  # on which patterns are tried; what comes of them is judged on all rows
MOST_PATTERNS = 2**12  # that are all tried
DRAWN = 2**12  # patterns by chance, where there are more than can all be tried
MOST_WIDTH = 64  # directions of a message that are searched, those of the largest variance
KEPT = 512  # of the patterns, those that come nearest to zeros and ones: they are refined
REFINED = 8  # times rounded and projected back
FEWEST = 2  # rows with the rarer value: a single row is an outlier and no column
RARE_ROWS, RARE_STARTS = 4_000, 400  # rows of high leverage that are searched for columns with few ones, and begun with
EXACT = 0.05  # of a vector's spread outside of the span: rounding, and no more
MOST_EXACT, MOST_OTHERS = 200, 24  # candidates that are kept
MARGIN = 0.9  # of what is found in values without any structure


@dataclass(frozen=True)
class Candidates:
    """Vectors of zeros and ones that were found in a message, a column each; the best first. Which value is 1 nobody knows.

    `missed` is the part of a vector's spread that lies outside of the span: 0 for a column that the message carries whole.
    """

    found: Mask
    missed: Floats

    def __len__(self) -> int:
        return len(self.missed)

    @property
    def exact(self) -> int:
        """How many the attacker can be sure of."""
        return int((self.missed < EXACT).sum())


def basis(values: NDArray[np.floating]) -> Floats:
    """Return orthonormal columns that span the values and a constant, (n, r); what does not change is left out."""
    values = np.asarray(values, np.float64)
    values = values - values.mean(axis=0)
    spread = np.abs(values).max(axis=0)
    values = values[:, spread > 1e-9 * max(float(spread.max(initial=0.0)), 1e-300)]
    values = values / np.abs(values).max(axis=0, initial=1e-300)
    left, sizes, _ = np.linalg.svd(values, full_matrices=False)
    kept = left[:, sizes > 1e-6 * max(float(sizes.max(initial=0.0)), 1e-300)][:, :MOST_WIDTH]
    constant = np.full((len(values), 1), 1 / np.sqrt(max(len(values), 1)))
    return np.hstack([constant, kept])


def candidates(values: NDArray[np.floating], rng: np.random.Generator, sets: int = 4) -> Candidates:
    """Find the vectors of zeros and ones in the span; none where Gaussian values of the same shape have as good ones."""
    n = len(values)
    span = basis(values) if n else np.zeros((0, 1))
    r = span.shape[1]
    if r < 2 or n < 4 * r:
        return Candidates(np.zeros((n, 0), bool), np.zeros(0))
    found = _search(span, rng, sets)
    chance = _search(basis(rng.standard_normal((min(n, SEARCHED_ROWS), r - 1))), rng, sets)
    limit = MARGIN * float(chance.missed.min(initial=1.0))
    kept = _first(found.missed, MOST_OTHERS)
    kept = kept[found.missed[kept] < limit]
    return Candidates(found.found[:, kept], found.missed[kept])


def _search(span: Floats, rng: np.random.Generator, sets: int) -> Candidates:
    """Try patterns on some rows, refine the best ones, and judge them on all rows; the best first."""
    n, r = span.shape
    some = np.sort(rng.permutation(n)[:SEARCHED_ROWS])
    small = np.linalg.qr(span[some])[0]
    best: list[Mask] = [_splits(small)]
    for turn in range(sets):
        among = np.arange(len(small)) if turn == 0 else rng.permutation(len(small))[: max(4 * r, len(small) // 2)]
        best.append(_nearest(small, _pivots(small[among], among), rng))
    vectors, missed = _refine(small, np.hstack(best))
    vectors = vectors[:, _first(missed, 2 * MOST_OTHERS)]
    weights = np.linalg.lstsq(span[some], vectors.astype(np.float64), rcond=None)[0]
    vectors, missed = _refine(span, np.hstack([span @ weights > 0.5, _rare(span)]), times=2)
    order = np.argsort(missed, kind="stable")
    return Candidates(vectors[:, order], missed[order])


def _pivots(span: Floats, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return as many rows as the span has columns: those of high leverage."""
    order = qr(span.T, mode="r", pivoting=True)[1]
    return np.asarray(rows[order[: span.shape[1]]])


def _patterns(r: int, rng: np.random.Generator) -> Floats:
    """Return patterns of zeros and ones on r rows, a column each, the first row 0 as which value is 1 is not known."""
    if 2 ** (r - 1) <= MOST_PATTERNS:
        numbers = np.arange(1, 2 ** (r - 1))
        return np.vstack([np.zeros(len(numbers)), (numbers >> np.arange(r - 1)[:, None]) & 1]).astype(np.float64)
    drawn = rng.integers(0, 2, (r, DRAWN)).astype(np.float64)
    drawn[0] = 0
    return drawn


def _nearest(span: Floats, pivots: NDArray[np.intp], rng: np.random.Generator) -> Mask:
    """Solve all patterns on the pivots, and return those that come nearest to zeros and ones everywhere, rounded."""
    try:
        weights = solve(span[pivots], _patterns(span.shape[1], rng))
    except np.linalg.LinAlgError:  # rows that are the same: others decide
        return np.zeros((len(span), 0), bool)
    far = np.empty(weights.shape[1])
    for part in pieces(weights.shape[1], 2048):
        solved = span @ weights[:, part]
        ones = solved > 0.5
        share = ones.mean(axis=0)
        off = np.minimum(np.square(solved - ones), 1.0).mean(axis=0)
        far[part] = off / np.maximum(share * (1 - share), 1e-9)
    chosen = np.argsort(far, kind="stable")[:KEPT]
    return np.asarray(span @ weights[:, chosen] > 0.5)


def _rare(span: Floats) -> Mask:
    """Return vectors with few ones, begun at the rows of the highest leverage and cut at half of their largest entry."""
    leverage = np.square(span).sum(axis=1)
    high = span[np.argsort(-leverage, kind="stable")[:RARE_ROWS]]
    weights = high[:RARE_STARTS].T
    for _ in range(REFINED):
        solved = high @ weights
        weights = high.T @ _once(solved > solved.max(axis=0, initial=0.0) / 2).astype(np.float64)
    ones = high @ weights > 0.5
    inside, total = np.square(high.T @ ones).sum(axis=0), ones.sum(axis=0)
    best = _first(1 - inside / np.maximum(total, 1), 2 * MOST_OTHERS)
    return np.asarray(span @ weights[:, best] > 0.5)


def _splits(span: Floats) -> Mask:
    """Return each direction of the span cut at its quartiles: where to begin where patterns are too many to try them all."""
    cuts = np.quantile(span[:, 1:], [0.25, 0.5, 0.75], axis=0)
    return np.hstack([span[:, 1:] > cut for cut in cuts])


def _refine(span: Floats, vectors: Mask, times: int = REFINED) -> tuple[Mask, Floats]:
    """Project onto the span and round, again and again; return what is left, each once, and what is missed of it."""
    for _ in range(times):
        vectors = _distinct(vectors)
        solved = span @ (span.T @ vectors.astype(np.float64))
        vectors = solved > 0.5
    vectors = _distinct(vectors)
    floats = vectors.astype(np.float64)
    inside = np.square(span.T @ floats).sum(axis=0)
    total, mean = floats.sum(axis=0), floats.mean(axis=0)
    spread = np.maximum(total * (1 - mean), 1e-300)
    return vectors, np.maximum(total - inside, 0.0) / spread


def _first(missed: Floats, others: int) -> NDArray[np.intp]:
    """Return the places of exact vectors, and of so many others, the best first."""
    order = np.argsort(missed, kind="stable")
    return order[: min(int((missed < EXACT).sum()), MOST_EXACT) + others]


def _distinct(vectors: Mask) -> Mask:
    """Return each vector once, the same with zeros and ones exchanged counted as one; without those that are all but constant."""
    vectors = vectors ^ vectors[:1]
    ones = vectors.sum(axis=0)
    return _once(vectors[:, (ones >= FEWEST) & (len(vectors) - ones >= FEWEST)])


def _once(vectors: Mask) -> Mask:
    """Return each vector once."""
    packed = np.packbits(vectors, axis=0)
    _, first = np.unique(packed, axis=1, return_index=True)
    return vectors[:, np.sort(first)]
