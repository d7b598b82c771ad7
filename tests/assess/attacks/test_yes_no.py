from __future__ import annotations

import numpy as np
import pytest
import torch

from fedonce.assess import what_leaks
from fedonce.assess.attacks.yes_no import matched, named
from fedonce.data.table import Table
from fedonce.learners import PCA


def customers(n=3000, seed=0):
    """Return a table of mixed types, and its rows as numbers."""
    rng = np.random.default_rng(seed)
    card = rng.random(n) < 0.4
    pays = rng.integers(0, 4, n)
    age = np.where(rng.random(n) < 0.1, np.nan, rng.normal(45, 15, n))
    region = np.where(rng.random(n) < 0.3, 101, 205)
    names = np.array(["cash", "card", "invoice", "instalments"], dtype=object)
    table = Table(("card", "pays", "age", "region"), named=True, columns=(card, names[pays], age, region))
    rows = np.column_stack([card, np.eye(4)[pays], np.nan_to_num(age - 45) / 15, np.isnan(age), region == 205])
    return table, rows.astype(np.float32)


def sent(rows, dim):
    learner = PCA()
    learner.fit(rows, dim, np.random.default_rng(0), torch.device("cpu"))
    return np.round(learner.transform(rows, torch.device("cpu")) * 40) / 40


def test_flags_categories_and_gaps_are_read_without_any_known_row():
    table, rows = customers()
    found = {(each.column, each.kind): each for each in what_leaks(sent(rows, 8), table, ["yes/no columns"]).findings}
    assert set(found) == {("card", "boolean"), ("pays", "category"), ("age", "missing"), ("region", "boolean")}
    for each in found.values():
        assert each.verdict == "readable", each
        assert each.score > 0.999
        assert each.control < each.guess + 0.05
        assert each.knows == 0


def test_a_message_of_other_rows_is_read_by_nobody():
    table, rows = customers()
    values = sent(rows, 8)[np.random.default_rng(1).permutation(len(rows))]
    assert what_leaks(values, table).with_verdict("readable") == []


def test_messages_of_other_tables_are_read_by_nobody():
    readable = [
        each
        for seed in range(6)
        for each in what_leaks(sent(customers(500, seed)[1], 6), customers(500, seed + 100)[0]).with_verdict("readable")
    ]
    assert readable == []


def clinic(n, ill, seed):
    """Return a table with few ill people, and its rows as numbers."""
    rng = np.random.default_rng(seed)
    flag = np.zeros(n, bool)
    flag[rng.permutation(n)[:ill]] = True
    age, income, married = rng.integers(18, 90, n), rng.lognormal(10, 0.5, n), rng.random(n) < 0.5
    columns = {"age": age, "income": income, "married": married, "ill": flag}
    rows = np.column_stack([(each - each.mean()) / each.std() for each in columns.values()])
    return Table(tuple(columns), named=True, columns=tuple(columns.values())), rows.astype(np.float32)


def verdict_on(table, values, column, seed=0):
    found = what_leaks(values, table, ["yes/no columns"], seed=seed)
    return next(each for each in found.columns if each.column == column).verdict


@pytest.mark.parametrize("ill", [2, 4, 8])
def test_a_rare_flag_is_readable_in_every_run_and_not_from_a_message_of_other_rows(ill):
    for seed in range(5):
        table, rows = clinic(2000, ill, seed)
        values = sent(rows, 4)
        assert verdict_on(table, values, "ill", seed) == "readable"
        other = values[np.random.default_rng(seed).permutation(len(values))]
        assert verdict_on(table, other, "ill", seed) == "not by these attacks"


def test_a_category_that_rows_lie_in_groups_by_is_told_without_any_known_row():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 2000)
    places = np.array([[0.0, 0.0], [6.0, 1.0], [1.0, 5.0], [7.0, 6.0]])[codes]
    names = np.array(["cash", "card", "invoice", "instalments"], dtype=object)
    table = Table(("pays",), named=True, columns=(names[codes],))
    bent = np.exp(places / 4 + 0.1 * rng.standard_normal((2000, 2)))  # no yes/no column is in the span
    found = what_leaks(bent, table, ["yes/no columns"]).findings[0]
    assert found.verdict == "readable"
    assert found.way.startswith(("4 groups", "8 groups"))
    assert found.control < found.guess + 0.1
    blind = what_leaks(bent[rng.permutation(2000)], table, ["yes/no columns"]).findings[0]
    assert blind.verdict == "not by these attacks"


def test_a_group_is_named_after_its_most_common_value():
    assert named(np.array([0, 1, 1, 2, 2, 0]), np.array([1, 0, 0, 0, 2, 1])).tolist() == [0, 1, 1, 1, 2, 0]


def test_one_candidate_for_each_category_tells_the_category():
    codes = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    parts = np.eye(3, dtype=bool)[codes]
    assert (matched(codes, parts) == codes).all()
    assert (matched(codes, ~parts) == codes).all()  # which value is 1 is not known, and does not matter
    assert (matched(codes, parts[:, :1]) != codes).any()
    flags = np.array([0, 1, 1, 0])
    assert (matched(flags, np.array([[1], [0], [0], [1]], bool)) == flags).all()
