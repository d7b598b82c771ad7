"""Cells' centres, where many rows are equally near to several."""

from __future__ import annotations

import numpy as np
import pytest

from fedonce.learners.clusters import find_cells, nearest


def grid(seed, n=3000):
    """Rows on a grid of whole numbers, most of them rare: merged cells leave ties."""
    rng = np.random.default_rng(seed)
    return rng.choice([-1, 0, 1], (n, 6), p=[0.55, 0.1, 0.35]).astype(np.float32)


@pytest.mark.parametrize("shuffled", [False, True])
def test_cells_are_counted_as_they_are_found_again(shuffled):
    for seed in range(5):
        rows, sent = grid(seed), np.arange(0, 3000, 3)
        for those in (np.arange(3000), sent):
            centres, which = find_cells(rows, those, 1000, 20, seed, shuffled)
            np.testing.assert_array_equal(which, nearest(rows, centres))
            assert len(centres) > 5
            assert np.bincount(which[those], minlength=len(centres)).min() >= 20


def test_ties_are_there_and_the_order_of_centres_decides_them():
    rows = grid(0)
    centres, which = find_cells(rows, np.arange(3000), 1000, 20, 0)
    turned = nearest(rows, centres[::-1])
    assert (len(centres) - 1 - turned != which).any()


def test_shuffled_centres_are_in_another_order_each_time():
    rows = grid(0)
    orders = [find_cells(rows, np.arange(3000), 1000, 20, 0, True)[0][:, 0] for _ in range(3)]
    assert max(abs(np.corrcoef(np.arange(len(each)), each)[0, 1]) for each in orders) < 0.9
    assert len({each[:8].tobytes() for each in orders}) == 3


def test_cells_that_nobody_can_fill_are_one():
    rows = grid(0, 30)
    centres, which = find_cells(rows, np.arange(30), 256, 30, 0)
    assert (len(centres), which.tolist()) == (1, [0] * 30)
