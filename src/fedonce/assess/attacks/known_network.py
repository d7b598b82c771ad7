"""Who knows some rows guesses the columns of the others by a small network, which finds what a line and neighbours do not."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

from fedonce.assess.attacks.columns import Goal, Nothing
from fedonce.assess.attacks.known_rows import Attacker, Guesses, KnownRows
from fedonce.assess.attacks.names import ATTACKS, Facts

HIDDEN = (64, 64)
STEPS, BATCH = 3_000, 200  # of the training, whatever the number of rows


@dataclass(frozen=True)
class KnownRowsByNetwork(KnownRows):
    """Guess columns of rows from those of known rows, all columns by one network."""

    name: ClassVar[str] = "known rows by network"
    facts: ClassVar[Facts] = ATTACKS.built_in["known rows by network"].facts

    def ways(self, told: NDArray[Any], held: NDArray[Any]) -> NetworkAttacker:
        """Return who knows the values of all rows, and the columns of those told."""
        return NetworkAttacker(told, held)


class NetworkAttacker(Attacker):
    """Who trains one network for a few columns at a time."""

    def all_of(self, goals: Sequence[Goal | Nothing]) -> list[tuple[Goal | Nothing, Guesses]]:
        """Guess columns together; where a known row has no value, the mean stands for it."""
        wanted = [goal for goal in goals if isinstance(goal, Goal)]
        if not wanted:
            return [(goal, {}) for goal in goals]
        targets = np.hstack([self._filled(goal) for goal in wanted])
        spread = np.maximum(targets.std(axis=0), 1e-9)
        mean = targets.mean(axis=0)
        guessed = self._trained((targets - mean) / spread) * spread + mean
        found: list[tuple[Goal | Nothing, Guesses]] = []
        start = 0
        for goal in goals:
            if isinstance(goal, Nothing):
                found.append((goal, {}))
                continue
            width = goal.told.shape[1]
            part = guessed[:, start : start + width]
            found.append((goal, {"network": part if goal.held_rows is None else part[goal.held_rows]}))
            start += width
        return found

    def _filled(self, goal: Goal) -> NDArray[np.float64]:
        if goal.told_rows is None:
            return goal.told
        filled = np.tile(goal.told.mean(axis=0), (len(self.told), 1))
        filled[goal.told_rows] = goal.told
        return filled

    def _trained(self, targets: NDArray[np.float64]) -> NDArray[np.float64]:
        n = len(self.told)
        batch = min(BATCH, n)
        epochs = int(np.clip(STEPS * batch // max(n, 1), 5, 500))
        network = MLPRegressor(hidden_layer_sizes=HIDDEN, alpha=1e-3, batch_size=batch, max_iter=epochs, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the number of steps is the bound
            network.fit(self.told, targets if targets.shape[1] > 1 else targets[:, 0])
        return np.asarray(network.predict(self.held)).reshape(len(self.held), targets.shape[1])
