from __future__ import annotations

import numpy as np
import torch

from fedonce.training.piecewise import Bins, edges_of, find_edges


def test_few_values_have_an_edge_each_and_many_quantiles():
    np.testing.assert_array_equal(edges_of(np.array([3.0, 1.0, 3.0, 2.0]), 8), [1, 2, 3])
    np.testing.assert_array_equal(edges_of(np.arange(101.0), 4), [0, 25, 50, 75, 100])
    assert len(edges_of(np.full(9, 2.0), 4)) == 1
    assert len(edges_of(np.array([]), 4)) == 1
    skewed = np.concatenate([np.zeros(90), np.arange(1.0, 11)])
    np.testing.assert_array_equal(edges_of(skewed, 4), [0, 10])


def test_edges_that_float32_cannot_tell_apart_are_one():
    assert len(edges_of(np.array([1.0, 1.0 + 1e-12, 2.0]), 4)) == 2


def bins_of(columns, has, bins):
    return Bins.of(columns, has, find_edges(columns, has, bins))


def test_a_value_fills_the_bins_below_it():
    columns = np.array([[0.0, 5.0, 1.0], [1.0, 5.0, 2.0], [3.0, 5.0, 2.0]], np.float32)
    made = bins_of(columns, np.ones((3, 3), bool), 4)
    assert made.column.tolist() == [0, 2]  # the second column is constant
    assert made.counts.tolist() == [2, 1]
    given = made(torch.tensor([[0.5, 5.0, 1.0], [2.0, 5.0, 2.0], [9.0, 0.0, 1e30], [-9.0, 0.0, -1e30]]))
    assert given[:, 0].tolist() == [[0.5, 0.0], [1.0, 0.5], [1.0, 1.0], [0.0, 0.0]]
    assert given[:, 1].tolist() == [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]  # it has one bin alone


def test_means_are_of_the_rows_that_have_a_value():
    rng = np.random.default_rng(0)
    columns, has = rng.standard_normal((200, 3)).astype(np.float32), rng.random((200, 3)) < 0.7
    made = bins_of(columns, has, 8)
    given = made(torch.from_numpy(columns)).numpy()
    for j in range(3):
        np.testing.assert_allclose(given[has[:, j], j].mean(axis=0), made.mean[j], atol=1e-6)
