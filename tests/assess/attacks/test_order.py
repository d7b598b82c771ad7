from __future__ import annotations

import numpy as np

from fedonce import Guest
from fedonce.assess import what_leaks
from fedonce.data.table import Table


def test_a_message_of_quantiles_is_read_as_it_is():
    X = np.random.default_rng(0).lognormal(size=(1500, 3))
    found = what_leaks(
        Guest("shop", "quantiles", dim=3, bits=8).learn(X).values, Table.of(X), ["order"], learner="quantiles"
    )
    assert [each.verdict for each in found.columns] == ["readable"] * 3
    assert all(each.finding.knows == 0 and each.finding.control < 0.05 for each in found.columns)
    assert found.warning.startswith("The learner 'quantiles' sends columns as they are")


def test_order_is_read_up_and_down_and_with_gaps_and_not_where_there_is_none():
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal(1000)
    days = np.datetime64("2020-01-01") + np.rint(hidden * 100).astype("timedelta64[D]")
    gaps = np.where(rng.random(1000) < 0.3, np.nan, -np.exp(hidden))
    columns = {"days": days, "gaps": gaps, "other": rng.standard_normal(1000), "same": np.ones(1000)}
    table = Table(tuple(columns), named=True, columns=tuple(columns.values()))
    found = {each.column: each for each in what_leaks(hidden[:, None], table, ["order"]).findings}
    assert found["days"].score > 0.99
    assert found["gaps"].score > 0.99
    assert found["other"].verdict == "not by these attacks"
    assert found["same"].score is None
