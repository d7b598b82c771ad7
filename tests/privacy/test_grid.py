from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fedonce.privacy import grid


def squares(whole):
    """Return the squared lengths of rows by Python's whole numbers, which do not round."""
    return [sum(int(value) ** 2 for value in row) for row in whole]


@pytest.mark.parametrize("width", [1, 3, 54, 784])
def test_no_row_is_longer_than_its_norm_exactly(width, rng):
    for norm in (1.0, np.sqrt(width), 0.3):
        rows = rng.standard_normal((200, width)) * rng.uniform(0.01, 100, (200, 1))
        rows[:50] *= norm / np.linalg.norm(rows[:50], axis=1, keepdims=True)  # of the very norm, up to rounding
        whole = grid.whole_rows(rows, norm)
        np.testing.assert_array_equal(whole, np.trunc(whole))
        assert max(squares(whole)) <= grid.STEPS**2
        clipped = rows * np.minimum(1, norm / np.linalg.norm(rows, axis=1, keepdims=True))
        np.testing.assert_allclose(whole * norm / grid.STEPS, clipped, atol=1.01 * norm / grid.STEPS)


def test_what_is_not_a_number_adds_nothing():
    rows = np.array([[np.nan, 1.0], [np.inf, 0.0], [1e308, 1e308], [0.5, 0.0]])
    with np.errstate(all="ignore"):
        whole = grid.whole_rows(rows, 1.0)
    assert max(squares(whole)) <= grid.STEPS**2
    assert not whole[0].any()
    assert not whole[1].any()
    np.testing.assert_array_equal(whole[3], [grid.STEPS / 2, 0])


def test_sums_and_products_are_exact_in_any_order(rng):
    """As large as they may get: rows all alike, in the fullest block that there may be."""
    whole = grid.whole_rows(np.repeat(rng.standard_normal((1, 3)), grid.ROWS_AT_ONCE, axis=0), 0.1)
    whole[1::7] = grid.whole_rows(rng.standard_normal((len(whole[1::7]), 3)), 0.1)
    order = rng.permutation(len(whole))
    exact = [[sum(int(a) * int(b) for a, b in zip(x, y, strict=True)) for y in whole.T] for x in whole.T]
    for made in (whole.T @ whole, whole[order].T @ whole[order], np.einsum("ni,nj->ij", whole, whole)):
        assert [[int(value) for value in row] for row in made] == exact


def test_noise_is_much_finer_than_what_a_row_adds_and_the_most_rows_fit():
    for sensitivity in (1, 2, 1000, grid.STEPS, grid.STEPS**2):
        parts = grid.parts(sensitivity)
        assert parts == 1 or 2**36 <= sensitivity * parts < 2**37
        assert Fraction(parts).denominator == 1
        assert parts.bit_count() == 1
        assert grid.MOST_ROWS * sensitivity * parts < 2**62
    assert grid.ROWS_AT_ONCE * grid.STEPS**2 < 2**53
