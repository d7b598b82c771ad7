from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fedonce.assess.attacks.base import Exposed
from fedonce.assess.attacks.known_rows import KnownRows
from fedonce.assess.leakage import reconstruct
from fedonce.data.table import Table
from fedonce.errors import InputError
from fedonce.learners import PCA


def table_of(**columns):
    return Table(tuple(columns), named=True, columns=tuple(columns.values()))


def shop(n=2000, seed=0):
    """Customers: numbers with a heavy tail and gaps, a category, a boolean, a date."""
    rng = np.random.default_rng(seed)
    age = rng.normal(45, 15, n).round()
    income = np.exp(7 + 0.02 * age + 0.5 * rng.standard_normal(n))
    visits = rng.poisson(5, n)
    missing = rng.random(n) < 0.3
    city = np.array(
        [None if gap else f"city {k}" for gap, k in zip(missing, rng.integers(0, 4, n), strict=True)], object
    )
    first = np.datetime64("2020-01-01", "us") + rng.integers(0, 1000, n) * np.timedelta64(86_400_000_000, "us")
    first[:50] = np.datetime64("NaT")
    return table_of(
        age=age,
        income=np.where(missing, np.nan, income),
        visits=visits,
        city=city,
        card=rng.random(n) < 0.4,
        first=first,
    )


def seen(table, column):
    """Return a column as the one value a row that a careless guest would send."""
    values = table.columns[table.names.index(column)]
    if values.dtype == object:
        values = np.array([-1.0 if value is None else float(value.split()[1]) for value in values])
    if values.dtype.kind == "M":
        values = np.where(np.isnat(values), 0, values.astype(np.int64))
    return np.nan_to_num(values.astype(np.float64))[:, None].astype(np.float32)


def test_every_kind_of_column_is_rebuilt_when_it_is_sent_as_it_is_and_not_otherwise():
    table = shop()
    noise = np.random.default_rng(1).standard_normal((table.n_rows, 2)).astype(np.float32)
    for column in table.names:
        found = {
            each.column: each for each in reconstruct(np.hstack([seen(table, column), 0.01 * noise[:, :1]]), table)
        }
        assert found[column].alarming, column
        assert found[column].gain > 0.9
        others = set(table.names) - {column} - ({"age", "income"} if column in ("age", "income") else set())
        assert not any(found[other].alarming or found[other].gain > 0.1 for other in others), column
    assert not any(each.gain > 0.1 for each in reconstruct(noise, table))
    assert [each.kind for each in reconstruct(noise, table)] == [
        "number",
        "number",
        "number",
        "category",
        "boolean",
        "date",
    ]


def test_neighbours_find_what_a_line_does_not():
    hidden = np.random.default_rng(0).uniform(-3, 3, 4000)
    found = reconstruct(hidden[:, None].astype(np.float32), Table.of(np.column_stack([hidden**2, 2 * hidden])))
    assert [each.attack for each in found] == ["neighbours", "linear"]
    assert found[0].score > 0.99
    assert found[1].score > 0.9999


@pytest.mark.parametrize("share", [0.03, 0.5])
def test_numbers_of_cells_in_an_order_by_chance_are_looked_up(share):
    rng = np.random.default_rng(0)
    cell = rng.integers(0, 30, 3000)
    flag, spent = rng.permutation(30) % 3 == 0, rng.standard_normal(30)
    card = flag[cell] ^ (rng.random(3000) < 0.05)
    table = table_of(card=card, spent=spent[cell] + 0.1 * rng.standard_normal(3000))
    exposed = Exposed(cell[:, None].astype(np.float32), table)
    found = {each.column: each for each in KnownRows(shares=(share,)).run(exposed, rng)}
    assert "linear" not in (found["card"].way, found["spent"].way)
    assert share > 0.1 or found["card"].way == found["spent"].way == "look-up"
    assert found["card"].score - found["card"].guess > (0.15 if share < 0.1 else 0.25)
    assert found["spent"].score > (0.5 if share < 0.1 else 0.95)
    assert found["card"].control <= found["card"].guess
    apart = Exposed(rng.standard_normal((3000, 1)), table)  # no two rows have the same message: nothing to look up
    assert all(each.way != "look-up" for each in KnownRows(shares=(share,)).run(apart, rng))


def test_as_many_components_as_columns_are_alarming_and_one_of_twenty_is_not():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 20)).astype(np.float32)
    for dim, alarming in ((20, 20), (1, 0)):
        learner = PCA()
        learner.fit(X, dim, rng, torch.device("cpu"))
        values = np.round(learner.transform(X, torch.device("cpu")) * 30) / 30  # about eight bits
        found = reconstruct(values, Table.of(X))
        assert sum(each.alarming for each in found) == alarming


def test_a_column_that_is_mostly_one_value_does_not_cry_wolf():
    rng = np.random.default_rng(0)
    rare = rng.random(4000) < 0.05
    blind = reconstruct(rng.standard_normal((4000, 2)).astype(np.float32), table_of(rare=rare))[0]
    assert 0.93 < blind.score <= blind.guess
    assert not blind.alarming
    told = reconstruct(rare[:, None].astype(np.float32), table_of(rare=rare))[0]
    assert told.score == 1.0
    assert told.alarming


def test_many_categories_count_as_the_hundred_most_common_and_the_others():
    rng = np.random.default_rng(0)
    number = np.minimum(rng.geometric(0.02, 4000), 500)
    column = np.array([f"item {k}" for k in number], dtype=object)
    found = reconstruct(number[:, None].astype(np.float32), table_of(item=column))[0]
    assert found.score > 0.9
    assert found.guess < 0.2
    every = np.array([f"id {k}" for k in range(4000)], dtype=object)
    assert not reconstruct(np.arange(4000, dtype=np.float32)[:, None], table_of(id=every))[0].alarming


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_gaps_are_left_out(share):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3))
    gaps = X[:, 0] ** 2
    gaps[rng.random(4000) > share] = np.nan
    found = reconstruct(X.astype(np.float32), table_of(gaps=gaps))[0]
    assert found.score > 0.8
    assert found.attack == "neighbours"


def test_what_cannot_be_said_has_a_reason():
    n = 200
    few = np.full(n, np.nan)
    few[:19] = np.arange(19)
    table = table_of(
        same=np.ones(n),
        few=few,
        none=np.full(n, np.nan),
        text=np.array(["a"] * n, dtype=object),
        huge=np.full(n, 1e308),
    )
    found = reconstruct(np.random.default_rng(0).standard_normal((n, 2)).astype(np.float32), table)
    assert [each.score for each in found] == [None] * 5
    assert [each.attack for each in found] == [
        "one value only",
        "fewer than 20 known rows",
        "fewer than 20 known rows",
        "one value only",
        "one value only",
    ]
    assert all(each.score is None for each in reconstruct(np.zeros((3, 2)), table.take(slice(3))))
    assert reconstruct(np.zeros((0, 2)), table.take(slice(0)))[0].score is None


def test_numbers_of_any_size_and_values_that_never_change():
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal(1000)
    X = np.column_stack([hidden * 1e305, hidden * 1e-300, 1e15 + hidden * 1e6])
    values = np.column_stack([hidden, np.full(1000, 0.1)]).astype(np.float32)
    assert all(each.score > 0.99 for each in reconstruct(values, Table.of(X)))


def test_sparse_and_dense_tables_give_the_same():
    X = np.random.default_rng(0).standard_normal((500, 70)) * (np.random.default_rng(1).random((500, 70)) < 0.1)
    values = X[:, :5].astype(np.float32)
    assert reconstruct(values, Table.of(sparse.csr_array(X))) == reconstruct(values, Table.of(X))
    assert len(reconstruct(values, Table.of(X))) == 70


def test_values_of_other_rows_are_refused():
    with pytest.raises(InputError, match="the table's 4 rows. Got shape"):
        reconstruct(np.zeros((5, 2), np.float32), Table.of(np.zeros((4, 2))))
    with pytest.raises(InputError, match="finite"):
        reconstruct(np.full((4, 2), np.nan), Table.of(np.zeros((4, 2))))
