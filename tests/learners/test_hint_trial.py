"""A trial of hints: hints are taken where they are better beyond doubt, and then no more of them than it takes."""

from __future__ import annotations

import numpy as np
import pytest

from fedonce.learners.hint_trial import SHARES, share_of, shares_for
from fedonce.learners.told import Told


def losses(gains, noise=0.5, rows=2000):
    """Losses without hints, and with each share; the noise of rows is largely common to all."""
    rng = np.random.default_rng(0)
    common = rng.normal(2, 1, rows)
    return np.stack([common, *(common - gain + noise * rng.normal(0, 1, rows) for gain in gains)])


def test_no_hints_where_they_are_better_by_chance_alone():
    error = 0.5 / np.sqrt(2000)
    assert share_of(losses((0, 0, 2.5 * error))) == 0
    assert share_of(losses((0, 0, 6 * error))) == SHARES[2]


def test_hints_that_are_seldom_true_get_few_of_the_values():
    keep = {epsilon: Told(np.zeros(1, np.int64), 10, epsilon).keep for epsilon in (0.5, 1.0, 2.0, 4.0)}
    assert keep[1.0] == pytest.approx(np.e / (np.e + 9))
    assert [len(shares_for(each)) for each in keep.values()] == [1, 1, 2, 3]


def test_no_hints_where_they_are_worse():
    assert share_of(losses((-0.1, -0.2, -0.3))) == 0


@pytest.mark.parametrize(
    ("gains", "share"), [((0.2, 0.2, 0.2), SHARES[0]), ((0.1, 0.3, 0.3), SHARES[1]), ((0.1, 0.2, 0.3), SHARES[2])]
)
def test_of_shares_as_good_the_smallest(gains, share):
    made = losses(gains, noise=0.01)
    made[3] -= 1e-5  # better, and not beyond a standard error
    assert share_of(made) == share
