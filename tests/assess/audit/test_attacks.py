from __future__ import annotations

import numpy as np

from fedonce.assess import audit


def test_membership_tells_who_was_learnt_by_heart():
    rng = np.random.default_rng(0)
    base = rng.uniform(0.3, 0.7, 200)

    def by_heart(members):
        chances = base.copy()
        chances[members] += 0.25
        return chances

    heart = audit.membership("by heart", by_heart, 200, models=8)
    assert heart.area("likelihood ratio") > 0.95
    assert heart.area("RMIA") > 0.95
    assert heart.area("loss") > 0.8
    blind = audit.membership("blind", lambda members: base + rng.normal(scale=0.01, size=200), 200, models=8)
    assert 0.4 < blind.area("likelihood ratio") < 0.6
    assert 0.4 < blind.area("RMIA") < 0.6
    assert blind.caught("loss") < 0.1
