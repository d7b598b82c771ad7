from __future__ import annotations

import numpy as np
from joblib.externals.loky import get_reusable_executor

from benchmarks.speed import nat


def test_nat_compares_like_with_like(monkeypatch):
    monkeypatch.setattr(nat, "ROWS", 600)
    names = ["guest0", "guest1"]
    rows = {name: nat.table(seed) for seed, name in enumerate(names)}
    _, expected = nat.plain(names, rows, 3)
    try:
        _, found = nat.ours(names, rows, 3, 2)
    finally:
        get_reusable_executor().shutdown(wait=True)
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], rtol=0.01)
