import math

import numpy as np
import pytest
from scipy import stats

from fedonce.privacy import keyed

ROWS = [f"row {i}" for i in range(20_001)]
SIGMAS = 6


def test_normals_are_standard_and_each_row_s_own():
    nothing = [b""] * len(ROWS)
    values = keyed.normals(b"key", "test", ROWS, nothing, 5)
    assert values.shape == (20_001, 5)
    assert stats.kstest(values.ravel(), "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef(values.T) - np.eye(5)).max() < SIGMAS / math.sqrt(len(ROWS))
    np.testing.assert_array_equal(keyed.normals(b"key", "test", ROWS[7:9][::-1], nothing[:2], 5), values[7:9][::-1])


OTHERS = {
    "secret": (b"other", "test", ["a"], [b"1"]),
    "purpose": (b"key", "other", ["a"], [b"1"]),
    "row": (b"key", "test", ["b"], [b"1"]),
    "disclosed": (b"key", "test", ["a"], [b"2"]),
    "row, longer": (b"key", "test", ["a1"], [b""]),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_every_part_counts(other):
    one = keyed.uniforms(b"key", "test", ["a"], [b"1"], 4)
    np.testing.assert_array_equal(one, keyed.uniforms(b"key", "test", ["a"], [b"1"], 4))
    assert not np.intersect1d(one, keyed.uniforms(*other, 4)).size


def test_no_rows():
    assert keyed.normals(b"key", "test", [], [], 3).shape == (0, 3)
