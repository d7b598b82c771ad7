from __future__ import annotations

import numpy as np

from fedonce.assess.attacks.base import Exposed
from fedonce.assess.attacks.singling_out import SinglingOut
from fedonce.data.table import Table


def found(values, X):
    return list(SinglingOut().run(Exposed(values, Table.of(X)), np.random.default_rng(0)))


def test_rows_are_singled_out_where_columns_can_be_guessed_and_not_otherwise():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 5))
    (whole,) = found(X + 0.01 * rng.standard_normal(X.shape), X)
    assert whole.score > 0.5
    assert whole.guess < 0.05
    assert whole.control < 0.05
    assert found(rng.standard_normal((2000, 3)), X) == []
    assert found(X[:50], X[:50]) == []
