"""Cells by random directions: nothing of them depends on rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedonce.errors import InputError
from fedonce.learners import Signs

CPU = torch.device("cpu")


def fitted(rows: np.ndarray, dim: int = 8, seed: int = 0) -> Signs:
    made = Signs()
    made.fit(rows, dim, np.random.default_rng(seed), CPU)
    return made


@pytest.mark.parametrize(("dim", "width", "cells"), [(2, 1, 2), (8, 6, 8), (15, 6, 8), (16, 3, 8), (8, 1, 2)])
def test_cells_are_a_power_of_two_within_what_is_asked_for(dim, width, cells):
    rows = np.random.default_rng(1).normal(size=(500, width)).astype(np.float32)
    made = fitted(rows, dim)
    numbers = made.transform(rows, CPU)
    assert numbers.shape == (500, 1)
    assert set(np.unique(numbers).tolist()) <= set(range(cells))
    assert int(made.steps.levels[0]) + 1 == cells
    if width >= 3:
        assert len(np.unique(numbers)) == cells


def test_what_is_learnt_depends_on_no_row():
    one, other = (np.random.default_rng(seed).normal(size=(50, 6)).astype(np.float32) for seed in range(2))
    np.testing.assert_array_equal(fitted(one).directions_, fitted(7 * other[:20] + 3).directions_)
    assert np.abs(fitted(one).directions_ - fitted(one, seed=1).directions_).max() > 0.01


def test_what_all_columns_share_does_not_decide():
    rows = np.random.default_rng(1).normal(size=(200, 10)).astype(np.float32)
    made = fitted(rows)
    np.testing.assert_array_equal(made.transform(rows, CPU), made.transform(rows + np.float32(50), CPU))


def test_images_go_through_features_of_edges():
    images = np.random.default_rng(1).random((40, 1, 14, 14)).astype(np.float32)
    made = fitted(images)
    assert made.directions_.shape == (3, 72)
    assert len(np.unique(made.transform(images, CPU))) > 2


def test_a_row_alone_is_in_the_cell_that_it_is_in_among_others():
    rows = np.random.default_rng(1).normal(size=(300, 12)).astype(np.float32)
    made = fitted(rows)
    alone = np.concatenate([made.transform(row[None], CPU) for row in rows])
    np.testing.assert_array_equal(alone, made.transform(rows, CPU))


def test_one_cell_is_refused():
    with pytest.raises(InputError, match="'dim' parameter of Signs"):
        fitted(np.ones((5, 2), np.float32), 1)


@pytest.mark.parametrize(
    "directions", [np.ones((20, 3)), np.ones((2, 3), np.float32), np.full((2, 3), np.nan), np.ones(3)]
)
def test_forged_directions_are_refused(directions):
    with pytest.raises(ValueError, match="directions"):
        Signs().restore({"directions": directions, "oriented": np.array(False)})
