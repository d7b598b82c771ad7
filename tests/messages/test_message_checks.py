"""What can be counted in a message."""

from __future__ import annotations

import numpy as np
import pytest

from fedonce.messages.message_checks import rows_alike


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ([[1, 2], [1, 2], [2, 1], [2, 1], [2, 1]], [2, 3]),
        ([[0, -0.0], [-0.0, 0], [0, 0]], [3]),
        ([[1, 2], [2, 1], [1, 1], [2, 2]], [1, 1, 1, 1]),
        ([[3]], [1]),
        ([], []),
    ],
)
def test_how_many_rows_have_the_same_values(values, counts):
    found = rows_alike(np.array(values, np.float32).reshape(len(values), -1 if values else 2))
    assert sorted(found.tolist()) == counts
