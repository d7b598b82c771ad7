"""Who holds two messages of one guest finds the rows of one in the other: of two runs or seeds, of training and prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from fedonce.assess.attacks.base import Attack, Exposed, Finding, Floats, share_interval, shuffled
from fedonce.assess.attacks.known_rows import FEWEST_TOLD, Attacker
from fedonce.assess.attacks.names import ATTACKS, Facts

MOST_ROWS = 2_000


@dataclass(frozen=True)
class Linking(Attack):
    """Take for each row of the first message the nearest one of the second, brought to one form.

    Three ways: as they are, where both have as many values; by their moments, which needs no known row: directions by variance,
    their signs by skewness; by a line that is learnt from known pairs.

    Parameters
    ----------
    knows : float
        Which part of the pairs the attacker knows, for the third way.
    most_rows : int
        Among how many rows each is to be found.
    """

    name: ClassVar[str] = "linking"
    facts: ClassVar[Facts] = ATTACKS.built_in["linking"].facts

    knows: float = 0.01
    most_rows: int = MOST_ROWS

    def run(self, exposed: Exposed, rng: np.random.Generator) -> Sequence[Finding]:
        """Link by each way; the control asks for the rows' neighbours in an order by chance."""
        assert exposed.second is not None
        first, second = np.asarray(exposed.values, np.float64), np.asarray(exposed.second, np.float64)
        rows = rng.permutation(len(first))
        told = round(self.knows * len(first))
        asked = rows[: min(self.most_rows, len(first) - told)]
        a, b = first[asked], second[asked]
        forms: list[tuple[str, float, Floats, Floats]] = []
        if first.shape[1] == second.shape[1]:
            forms.append(("as they are", 0.0, a, b))
        forms.append(("by moments", 0.0, *_in_one_form(a, b)))
        if told >= FEWEST_TOLD:
            known = rows[len(rows) - told :]
            guessed = Attacker(first[known], a).guess(second[known])["linear"]
            forms.append(("by known pairs", self.knows, guessed, b))
        return [self._link(*form, rng) for form in forms] if len(asked) > 1 else []

    def _link(self, way: str, knows: float, a: Floats, b: Floats, rng: np.random.Generator) -> Finding:
        scale = np.maximum(b.std(axis=0), 1e-12)
        search = NearestNeighbors(n_neighbors=1).fit(b / scale)
        near = search.kneighbors(a / scale, return_distance=False)[:, 0]
        # Rows with the same values cannot be told apart: a link to one of k of them is right once in k times.
        _, groups, counts = np.unique(b, axis=0, return_inverse=True, return_counts=True)
        groups = groups.ravel()
        right = (groups[near] == groups) / counts[groups]
        mixed = shuffled(len(b), rng)
        control = float(((groups[near] == groups[mixed]) / counts[groups[mixed]]).mean())
        n, score = len(b), float(right.mean())
        note = f"each among {n:,} rows"
        return Finding(self.name, None, "link", score, 1 / n, control, *share_interval(score, n), n, knows, way, note)


def _in_one_form(a: NDArray[Any], b: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return both in directions of falling variance, spread 1, each turned so that its skewness is positive."""
    width = min(a.shape[1], b.shape[1])
    found = []
    for values in (a, b):
        centred = values - values.mean(axis=0)
        turned = centred @ np.linalg.svd(centred, full_matrices=False)[2].T
        turned = turned[:, :width] / np.maximum(turned[:, :width].std(axis=0), 1e-12)
        found.append(turned * np.where((turned**3).mean(axis=0) < 0, -1.0, 1.0))
    return found[0], found[1]
