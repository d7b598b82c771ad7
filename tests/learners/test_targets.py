from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedonce.learners.targets import assign, draw_targets


def distance(outputs, targets):
    return np.square(outputs - targets).sum()


def test_targets_lie_on_the_unit_sphere_in_all_directions(rng):
    targets = draw_targets(5000, 4, rng)
    np.testing.assert_allclose(np.linalg.norm(targets, axis=1), 1)
    assert np.abs(targets.mean(axis=0)).max() < 0.05


@given(n=st.integers(1, 30), d=st.integers(1, 5), seed=st.integers(0, 1000), offset=st.floats(-10, 10))
@settings(max_examples=50, deadline=None)
def test_assignment_permutes_and_never_raises_the_cost(n, d, seed, offset):
    rng = np.random.default_rng(seed)
    outputs, targets = rng.standard_normal((n, d)) + offset, draw_targets(n, d, rng)
    order = assign(outputs, targets)
    assert sorted(order) == list(range(n))
    assert distance(outputs, targets[order]) <= distance(outputs, targets) + 1e-9


@pytest.mark.parametrize("collapsed", [1.0, 1e-3])
def test_assignment_is_the_best_of_all_permutations(rng, collapsed):
    outputs, targets = collapsed * rng.standard_normal((6, 2)) + 0.3, draw_targets(6, 2, rng)
    best = min(distance(outputs, targets[list(order)]) for order in permutations(range(6)))
    np.testing.assert_allclose(distance(outputs, targets[assign(outputs, targets)]), best, rtol=1e-9)
