"""k-means for `cells`: centres, each the nearest one of enough rows."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray

from fedonce.learners.pca import projection
from fedonce.privacy.noise import SecretRandom
from fedonce.training.loop import Rows, apply
from fedonce.training.threads import threads_for

MOST_POINTS = 20_000  # distinct rows that k-means looks at
MOST_ITERATIONS = 50
DISTANCES = 2**24  # at a time

Centres = NDArray[np.float32]


def find_cells(
    rows: Rows, sent: NDArray[np.intp], many: int, least: int, seed: int, shuffled: bool = False
) -> tuple[Centres, NDArray[np.intp]]:
    """Return the centres of at most so many cells, each the nearest of at least `least` rows that are sent, and each row's cell.

    The order of centres decides between equally near ones, so that they are shuffled before rows are counted. Rows are counted by
    the call that `transform` makes, over the same rows.
    """
    points, weight = _distinct(rows[sent])
    centres = points if len(points) <= many else _kmeans(points, weight, many, seed)
    if shuffled:
        centres = centres[np.argsort(SecretRandom().uniforms(len(centres)))]
    which = nearest(rows, centres)
    while True:
        counts = np.bincount(which[sent], minlength=len(centres))
        small = np.flatnonzero(counts < least)
        if not len(small) or len(centres) == 1:
            again = nearest(rows, centres)
            if (again == which).all():
                return centres, which
            which = again
            continue
        # The smaller half of those that are too small: their rows may make the others large enough.
        gone = small[np.argsort(counts[small], kind="stable")][: max(1, len(small) // 2)][: len(centres) - 1]
        kept, lost = np.setdiff1d(np.arange(len(centres)), gone), np.isin(which, gone)
        centres, which = centres[kept], np.searchsorted(kept, which)
        which[lost] = nearest(rows[lost], centres)  # all others stay with the centre that they have


def _kmeans(points: Rows, weight: NDArray[np.intp] | None, many: int, seed: int) -> Centres:
    """Return centres by k-means, of a sample of the rows where there are more than it needs."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    if len(points) > MOST_POINTS:
        some = np.sort(np.random.default_rng(seed).choice(len(points), MOST_POINTS, replace=False))
        points, weight = points[some], None if weight is None else weight[some]
    model = KMeans(many, n_init=1, max_iter=MOST_ITERATIONS, random_state=seed)
    with (
        threads_for(0),
        warnings.catch_warnings(),
    ):  # threads add up in any order: the same rows would not give the same cells
        warnings.simplefilter("ignore", ConvergenceWarning)  # of fewer cells than were asked for
        found = model.fit(points, sample_weight=weight).cluster_centers_.astype(np.float32)
    return np.unique(found, axis=0)


def _distinct(rows: Rows) -> tuple[Rows, NDArray[np.intp] | None]:
    """Return distinct rows and how often each occurs, where many repeat; else the rows."""
    start = rows[:10_000]
    if len(np.unique(start, axis=0)) > len(start) // 2:
        return rows, None
    points, counts = np.unique(rows, axis=0, return_counts=True)
    return points, counts


def nearest(rows: Rows, centres: Centres) -> NDArray[np.intp]:
    """Return the nearest centre of each row, which does not depend on the other rows."""
    half, step = np.square(centres, dtype=np.float64).sum(axis=1) / 2, max(1, DISTANCES // len(centres))
    nearness = projection(np.zeros(centres.shape[1]), centres.astype(np.float64))
    nearness.bias.data = torch.from_numpy(-half)
    cpu, starts = torch.device("cpu"), range(0, max(len(rows), 1), step)
    return np.concatenate([apply(nearness, rows[start : start + step], cpu).argmax(axis=1) for start in starts])
