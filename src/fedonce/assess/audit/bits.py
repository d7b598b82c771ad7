"""The bits of a released number: whether every sum can have made it, or its last digits tell which one did (Mironov, 2012)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.assess.audit.measures import Train
from fedonce.privacy.budget import Purse
from fedonce.privacy.events import Noisy
from fedonce.training.loop import Rows

PAIRS = 64  # of an array's numbers are looked at
NEAR = 12  # steps of a uniform number to either side of what the noise seems to come from


@dataclass(frozen=True)
class Bits:
    """What the bits of released numbers tell about the sums behind them.

    Attributes
    ----------
    what : str
        What was released.
    numbers : int
        How many numbers were looked at.
    off_grid : int
        Numbers that are no sum plus whole steps of the public grid.
    told : int
        Pairs of numbers that one sum can have made and its neighbour cannot.
    """

    what: str
    numbers: int
    off_grid: int
    told: int

    @property
    def disclosed(self) -> int:
        """Numbers off the grid and pairs that tell, together."""
        return self.off_grid + self.told

    @property
    def passed(self) -> bool:
        """Whether the bits tell nothing that these tests see."""
        return not self.disclosed


def told_by_bits(
    what: str, released: NDArray[Any], sums: tuple[NDArray[Any], NDArray[Any]], scale: float, step: float = 1.0
) -> Bits:
    """Look at one released array, given two sums that may be behind it.

    Two tests: on a public grid, both sums lie a whole number of steps from every released number. And where noise is made by Box
    and Muller's method from uniform numbers of 52 bits, those near what each sum would need are tried: an attacker who finds some
    that give the very bits for one sum, and none for the other, knows which it was.

    Parameters
    ----------
    what : str
        What was released, in words.
    released : array
        What came out.
    sums : two arrays
        The exact sums of two neighbouring data sets, in the same unit.
    scale : float
        The noise's standard deviation in that unit.
    step : float
        The public grid's step in that unit.
    """
    flat, first, second = (np.ravel(part) for part in (released, *sums))
    off_grid = [np.remainder((flat - each) / step, 1.0) != 0 for each in (first, second)]
    half = (len(flat) + 1) // 2  # pairs lie half an array apart
    told = 0
    for k in range(min(PAIRS, len(flat) - half)):
        pair = [k, k + half]
        told += _possible(flat[pair], first[pair], scale) != _possible(flat[pair], second[pair], scale)
    return Bits(what, len(flat), int(np.logical_or(*off_grid).sum()), told)


def _possible(pair: NDArray[Any], total: NDArray[Any], scale: float) -> bool:
    """Tell whether uniform numbers of 52 bits give a pair of released numbers, to the bit, from a sum."""
    if not scale:
        return bool((pair == total).all())
    across, along = (float(each) for each in (pair - total) / scale)
    square = across**2 + along**2
    if square > 72:  # less than one such number in 2^52
        return False
    lengths = _near(math.exp(-square / 2))
    angles = 2 * math.pi * _near(math.atan2(along, across) / (2 * math.pi) % 1.0)
    radius = np.sqrt(-2 * np.log(lengths))
    made = [np.multiply.outer(radius, turn(angles)) * scale for turn in (np.cos, np.sin)]
    if np.issubdtype(pair.dtype, np.integer):
        made = [np.rint(each).astype(np.int64) for each in made]
    hits = [total[side] + made[side] == pair[side] for side in (0, 1)]
    return bool((hits[0] & hits[1]).any())


def _near(value: float) -> NDArray[np.float64]:
    """Return numbers of 52 bits from (0, 1) near a value."""
    middle = int(value * 2**52)
    around = np.arange(max(middle - NEAR, 0), min(middle + NEAR, 2**52 - 1) + 1, dtype=np.float64)
    return (around + 0.5) * 2.0**-52


def check_bits(what: str, train: Train, rows: Rows, purse: Purse, seed: int = 0) -> Bits:
    """Train once; look at every noisy array that leaves the purse, beside a sum that differs by what one row may add.

    Parameters
    ----------
    what : str
        What is trained, in words.
    train : callable
        Trains on rows with a purse.
    rows : array
        Prepared rows.
    purse : Purse
        What the training may spend; it is copied. Its noise must come from the operating system, as users' does.
    seed : int
        Of the neighbouring sums.
    """
    rng, found = np.random.default_rng(seed), [Bits(what, 0, 0, 0)]
    noises = {entry.what: entry.event.noise for entry in purse.planned if isinstance(entry.event, Noisy)}

    def look(name: str, total: NDArray[Any], released: NDArray[Any], scale: float) -> None:
        most = max(1, int(scale / noises[name] / math.sqrt(total.size)))  # a row's part, spread over all numbers
        other = total + rng.integers(-most, most, total.shape, endpoint=True)
        seen, so_far = told_by_bits(name, released, (total, other), scale), found[-1]
        found.append(
            Bits(what, so_far.numbers + seen.numbers, so_far.off_grid + seen.off_grid, so_far.told + seen.told)
        )

    train(rows, replace(purse, witness=look, used=set()))
    return found[-1]
