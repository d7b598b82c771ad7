from __future__ import annotations

import numpy as np
import pytest

from fedonce.assess.attacks.spans import basis, candidates


def hidden(n=2000, width=8, flags=3, seed=0):
    """Return flags, and as many values as a rotation of flags and numbers has."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, width))
    X[:, :flags] = rng.random((n, flags)) < [0.5, 0.3, 0.1][:flags]
    turned = X @ np.linalg.qr(rng.standard_normal((width, width)))[0]
    return X[:, :flags] > 0.5, turned


def matches(found, flag):
    return ((found == flag[:, None]).all(axis=0) | (found != flag[:, None]).all(axis=0)).any()


@pytest.mark.parametrize("step", [1e-6, 0.02, 0.2])
def test_flags_in_a_rotation_are_found_exactly_however_they_are_rounded(step):
    flags, values = hidden()
    found = candidates(np.round(values / step) * step, np.random.default_rng(0))
    assert all(matches(found.found, flag) for flag in flags.T)
    assert found.exact >= 3


def test_more_values_than_patterns_can_be_tried_still_give_way():
    flags, values = hidden(width=24, flags=2)
    found = candidates(values, np.random.default_rng(0))
    assert sum(matches(found.found, flag) for flag in flags.T) >= 1


@pytest.mark.parametrize("ones", [2, 4, 12])
@pytest.mark.parametrize("n", [800, 6000])
def test_a_flag_with_few_ones_beside_columns_with_outliers_is_found_exactly(n, ones):
    rng = np.random.default_rng(ones)
    X = np.column_stack([rng.lognormal(sigma=0.7, size=n), rng.poisson(3, n), rng.random(n) < 0.5, np.zeros(n)])
    X[rng.permutation(n)[:ones], 3] = 1
    values = (X - X.mean(axis=0)) / X.std(axis=0) @ np.linalg.qr(rng.standard_normal((4, 4)))[0]
    steps = np.ptp(values, axis=0) / 255
    found = candidates(np.round(values / steps) * steps, np.random.default_rng(0))
    assert matches(found.found, X[:, 3] > 0.5)
    assert matches(found.found, X[:, 2] > 0.5)


@pytest.mark.parametrize("seed", range(5))
def test_gaussian_values_have_no_candidate(seed):
    rng = np.random.default_rng(seed)
    assert len(candidates(rng.standard_normal((3000, 8)), rng)) == 0


def test_values_that_say_nothing_and_tables_of_a_few_rows_give_none():
    rng = np.random.default_rng(0)
    assert len(candidates(np.ones((100, 3)), rng)) == 0
    assert len(candidates(rng.standard_normal((5, 3)), rng)) == 0
    assert len(candidates(np.zeros((0, 3)), rng)) == 0


def test_a_basis_leaves_out_what_depends_on_others():
    values = np.random.default_rng(0).standard_normal((50, 3))
    span = basis(np.hstack([values, values @ np.ones((3, 2)), np.full((50, 1), 7.0)]))
    assert span.shape == (50, 4)
    np.testing.assert_allclose(span.T @ span, np.eye(4), atol=1e-10)
