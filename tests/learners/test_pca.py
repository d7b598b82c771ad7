from __future__ import annotations

import numpy as np
import torch
from sklearn.decomposition import PCA as Reference

from fedonce.learners import PCA

CPU = torch.device("cpu")


def test_equals_scikit_learn(rng):
    rows = (rng.standard_normal((300, 10)) @ rng.standard_normal((10, 10)) + 5).astype(np.float32)
    pca = PCA()
    pca.fit(rows, 4, rng, CPU)
    expected = Reference(4, svd_solver="full").fit_transform(rows.astype(np.float64))
    np.testing.assert_allclose(np.abs(pca.transform(rows, CPU)), np.abs(expected), atol=1e-3)


def test_more_columns_than_rows(rng):
    rows = (rng.standard_normal((20, 5)) @ rng.standard_normal((5, 90))).astype(np.float32)
    pca = PCA()
    pca.fit(rows, 8, rng, CPU)
    values = pca.transform(rows, CPU)
    expected = Reference(5, svd_solver="full").fit_transform(rows.astype(np.float64))
    assert values.shape == (20, 5)
    np.testing.assert_allclose(np.abs(values), np.abs(expected), atol=1e-3)


def test_gives_no_more_values_than_columns_that_vary(rng):
    rows = np.column_stack([rng.standard_normal((50, 2)), np.zeros(50)]).astype(np.float32)
    pca = PCA()
    pca.fit(rows, 8, rng, CPU)
    assert pca.transform(rows, CPU).shape == (50, 2)


def test_rows_that_do_not_vary_at_all(rng):
    pca = PCA()
    pca.fit(np.ones((5, 3), np.float32), 2, rng, CPU)
    np.testing.assert_allclose(pca.transform(np.ones((5, 3), np.float32), CPU), 0, atol=1e-6)


def test_blocks_give_the_same_moments(rng, monkeypatch):
    from fedonce.learners import pca as module

    rows = rng.standard_normal((100, 4)).astype(np.float32)
    whole = module.second_moments(rows)
    monkeypatch.setattr(module, "BLOCK", 28)
    np.testing.assert_allclose(module.second_moments(rows)[1], whole[1], atol=1e-12)
