from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from benchmarks.columns import arrays, select

ROWS = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("positions", [(1, 2), (3, 0), (2,)])
def test_columns_come_in_the_order_asked_for(positions):
    expected = ROWS[:, list(positions)]
    np.testing.assert_array_equal(select(ROWS, positions), expected)
    np.testing.assert_array_equal(select(sparse.csr_array(ROWS), positions).toarray(), expected)
    table = pa.table({f"c{j}": ROWS[:, j] for j in range(4)})
    np.testing.assert_array_equal(np.column_stack(arrays(select(table, positions))), expected)


def test_what_is_missing_is_nan_or_none():
    numbers, words = arrays(pa.table({"n": [1, None], "w": ["a", None]}))
    assert np.isnan(numbers[1])
    assert words.tolist() == ["a", None]
