"""Training and prediction over a federation of real processes, without faults."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.federation


def test_fit_and_predict(running):
    told = running.outcome(running.fit(running.write_run()))
    assert told["took part"] == ["shop", "telco"]
    assert told["messages"] == 2
    told = running.outcome(running.predict())
    assert told["guests"] == {"shop": 1.0, "telco": 1.0}
