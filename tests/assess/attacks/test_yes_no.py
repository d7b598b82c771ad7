from __future__ import annotations

import numpy as np
import torch

from fedonce.assess import what_leaks
from fedonce.assess.attacks.yes_no import matched
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


def test_one_candidate_for_each_category_tells_the_category():
    codes = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    parts = np.eye(3, dtype=bool)[codes]
    assert matched(codes, parts) == 1.0
    assert matched(codes, ~parts) == 1.0  # which value is 1 is not known, and does not matter
    assert matched(codes, parts[:, :1]) < 1.0
    assert matched(np.array([0, 1, 1, 0]), np.array([[1], [0], [0], [1]], bool)) == 1.0
