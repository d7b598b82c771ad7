from __future__ import annotations

import numpy as np

from fedonce import Guest
from fedonce.assess import what_leaks
from fedonce.assess.attacks.components import SCALE
from fedonce.data.table import Table


def test_a_message_of_quantiles_is_read_as_it_is():
    X = np.random.default_rng(0).lognormal(size=(1500, 3))
    found = what_leaks(
        Guest("shop", "quantiles", dim=3, bits=8).learn(X).values,
        Table.of(X),
        ["numbers and dates"],
        learner="quantiles",
    )
    assert [each.verdict for each in found.columns] == ["readable"] * 3
    assert all(each.finding.knows == 0 and each.finding.control < 0.05 for each in found.columns)
    assert found.warning.startswith("The learner 'quantiles' sends columns as they are")


def mixed(n=3000, seed=0):
    """Return a table of numbers and dates of several shapes, and a rotation of it."""
    rng = np.random.default_rng(seed)
    columns = {"visits": rng.poisson(2.0, n), "basket": rng.lognormal(size=n), "since": rng.integers(0, 5000, n)}
    X = np.column_stack([(each - each.mean()) / each.std() for each in columns.values()])
    columns["since"] = np.datetime64("2010-01-01") + columns["since"].astype("timedelta64[D]")
    table = Table(tuple(columns), named=True, columns=tuple(columns.values()))
    return table, X @ np.linalg.qr(rng.standard_normal((3, 3)))[0]


def test_mixed_numbers_and_dates_are_unmixed_without_any_known_row():
    table, values = mixed()
    for each in what_leaks(values, table, ["numbers and dates"]).columns:
        assert each.verdict == "readable"
        assert each.finding.knows == 0
        assert each.finding.score > 0.95
        assert each.finding.control < 0.05


def test_nothing_is_unmixed_from_values_of_other_rows_nor_from_gaussian_ones():
    table, values = mixed()
    rng = np.random.default_rng(1)
    for blind in (values[rng.permutation(len(values))], rng.standard_normal(values.shape)):
        found = what_leaks(blind, table, ["numbers and dates"]).findings
        assert {each.verdict for each in found} == {"not by these attacks"}


def test_few_rows_and_values_that_never_change_are_no_error():
    table, values = mixed()
    some = table.take(np.arange(30))
    assert len(what_leaks(values[:30], some, ["numbers and dates"]).columns) == 3
    assert what_leaks(np.ones((30, 2)), some, ["numbers and dates"]).with_verdict("readable") == []
    assert what_leaks(values[:0], table.take(np.arange(0)), ["numbers and dates"]).columns[0].finding is None


def test_order_is_read_up_and_down_and_with_gaps_and_not_where_there_is_none():
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal(1000)
    days = np.datetime64("2020-01-01") + np.rint(hidden * 100).astype("timedelta64[D]")
    gaps = np.where(rng.random(1000) < 0.3, np.nan, -np.exp(hidden))
    columns = {"days": days, "gaps": gaps, "other": rng.standard_normal(1000), "same": np.ones(1000)}
    table = Table(tuple(columns), named=True, columns=tuple(columns.values()))
    findings = what_leaks(hidden[:, None], table, ["numbers and dates"]).findings
    found = {each.column: each for each in findings if each.way != SCALE}
    assert found["days"].score > 0.99
    assert found["gaps"].score > 0.99
    assert max(each.score for each in findings if each.column == "gaps" and each.way == SCALE) < 0.7
    assert found["other"].verdict == "not by these attacks"
    assert found["same"].score is None
