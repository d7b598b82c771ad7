from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from fedonce import Guest, InputError
from fedonce.learners import Quantiles
from fedonce.learners.quantiles import groups, ladder, upward

CPU = torch.device("cpu")


def numbers(n=2000, width=5, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, 3)) @ rng.standard_normal((3, width))).astype(np.float32)


def mixed(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "spent": np.exp(rng.standard_normal(n)),
            "town": rng.choice(["Bern", "Ulm", "Graz", "Linz"], n, p=[0.5, 0.3, 0.15, 0.05]),
            "member": rng.random(n) < 0.2,
            "visits": rng.poisson(2, n),
            "same": 7,
        }
    )


def fitted(learner, rows, dim=8):
    learner.fit(rows, dim, np.random.default_rng(0), CPU)
    return learner


def test_bins_have_about_as_many_rows_each_and_keep_the_order():
    rows = numbers()
    values = fitted(Quantiles(), rows).transform(rows, CPU)
    assert values.shape == rows.shape
    for column, bins in zip(rows.T, values.T, strict=True):
        assert np.bincount(bins.astype(int)).tolist() == [125] * 16
        assert (np.diff(bins[np.argsort(column)]) >= 0).all()


def test_few_values_have_a_bin_each_and_rare_ones_join_a_neighbour():
    column = np.repeat(np.float32([-1, 0, 2, 3]), [500, 300, 5, 200])
    learner = fitted(Quantiles(), column[:, None])
    bins = learner.transform(column[:, None], CPU)[:, 0]
    assert [set(bins[column == value]) for value in (-1, 0, 2, 3)] == [{0}, {1}, {2}, {2}]
    alone = fitted(Quantiles(least=5), column[:, None]).transform(column[:, None], CPU)[:, 0]
    assert sorted(set(alone)) == [0, 1, 2, 3]


@pytest.mark.parametrize("budget", [None, 2.0])
def test_no_bin_has_fewer_rows_than_least(budget):
    rows = np.column_stack([numbers(500), np.random.default_rng(1).poisson(1, 500)]).astype(np.float32)
    values = fitted(Quantiles(bins=64, least=30, bytes_per_row=budget), rows).transform(rows, CPU)
    for bins in values.T:
        assert np.unique(bins, return_counts=True)[1].min() >= 30


def test_neighbouring_numbers_are_told_apart():
    low = np.float32(1.0)
    high = np.nextafter(low, np.float32(2))
    rows = np.repeat(np.array([[low], [high]]), 30, axis=0)
    assert fitted(Quantiles(), rows).transform(rows, CPU)[:, 0].tolist() == [0] * 30 + [1] * 30


def test_the_columns_whose_ranks_vary_most_are_sent():
    rows = numbers()
    rows[:, 0] = 100 * (rows[:, 0] > 2.5 * rows[:, 0].std())  # a rare flag
    rows[:, 2] = 0.01 * (rows[:, 2] > 0)  # one that is as often set as not
    rows[:, 4] = 7
    assert fitted(Quantiles(), rows, dim=2).columns_.tolist() == [1, 3]
    assert fitted(Quantiles(), rows, dim=3).columns_.tolist() == [1, 2, 3]
    assert fitted(Quantiles(least=1), rows).columns_.tolist() == [0, 1, 2, 3]
    assert len(fitted(Quantiles(bytes_per_row=4), rows, dim=2).columns_) == 2


def test_rows_beyond_those_of_the_training_are_in_the_outer_bins():
    learner = fitted(Quantiles(), numbers())
    rows = np.array([[-1e9] * 5, [1e9] * 5], np.float32)
    assert learner.transform(rows, CPU).tolist() == [[0] * 5, [15] * 5]


def test_rows_that_do_not_vary():
    rows = np.ones((50, 3), np.float32)
    for budget in (None, 1.0):
        message = Guest("shop", "quantiles", bytes_per_row=budget).learn(rows)
        assert message.values.tolist() == [[0]] * 50
        assert message.payload_bytes <= 20


@pytest.mark.parametrize("data", [numbers(4000), mixed()], ids=["numbers", "mixed"])
@pytest.mark.parametrize("budget", [0.05, 0.3, 1.0, 4.0])
def test_a_budget_of_bytes_is_kept(data, budget):
    guest = Guest("shop", "quantiles", bytes_per_row=budget)
    message = guest.learn(data)
    assert message.payload_bytes <= budget * len(data)
    np.testing.assert_array_equal(message.values, guest.represent(data).values)


def test_more_bytes_give_more_bins_and_settings_limit_them():
    rows = numbers(4000)
    bins = [fitted(Quantiles(bytes_per_row=b), rows).steps.levels.sum() for b in (0.5, 1, 2, 4)]
    assert bins == sorted(set(bins))
    assert fitted(Quantiles(bytes_per_row=100), rows).steps.levels.max() == 127  # 4,000 rows, and 20 in each
    assert fitted(Quantiles(bytes_per_row=100, bins=16), rows).steps.levels.max() == 15


def test_a_message_has_the_bins_to_the_bit():
    data = mixed()
    guest = Guest("shop", "quantiles", dim=20)
    values = guest.learn(data).values
    visits = list(guest.learner.columns_).index(guest.preparation.row_shape[0] - 2)
    order = data["visits"].to_numpy()
    assert (np.diff(values[np.argsort(order), visits]) >= 0).all()
    assert values.max() <= 15
    np.testing.assert_array_equal(values, np.rint(values))


def test_columns_of_a_category_are_written_together():
    rng = np.random.default_rng(0)
    one_of_four = np.eye(4, dtype=np.uint16)[rng.integers(0, 4, 3000)]
    codes = np.column_stack([rng.integers(0, 16, 3000), one_of_four, rng.integers(0, 16, 3000)]).astype(np.uint16)
    found, size = groups(codes, np.array([15, 1, 1, 1, 1, 15]), 3000)
    assert len(set(found[1:5])) == 1
    assert size / 3000 == pytest.approx((4 + 2 + 4) / 8, rel=0.05)


def test_a_ladder_rises():
    rungs = ladder(numbers()[:, 0], 20, [2, 4, 8, 16])
    assert [len(rung.edges) for rung in rungs] == [0, 1, 3, 7, 15]
    assert [rung.size / 2000 * 8 for rung in rungs] == pytest.approx([0, 1, 2, 3, 4])
    kept = [rung.kept for rung in rungs]
    assert kept == sorted(kept)
    assert kept == pytest.approx([(1 - 1 / many**2) / 12 for many in (1, 2, 4, 8, 16)])  # of numbers from 0 to 1
    np.testing.assert_allclose(ladder(np.exp(numbers()[:, 0]), 20, [16])[-1].kept, kept[-1])  # what counts is the order
    assert len(ladder(np.float32([0, 1] * 50), 20, [2, 4, 8])) == 2  # no finer than two values


def test_steps_upward_take_what_gains_most_per_byte():
    rows = numbers(width=3)
    rows[:, 0] = rows[:, 0] > 2 * rows[:, 0].std()  # cheap, and tells little
    steps = upward([ladder(column, 20, [2, 4]) for column in rows.T], 2)
    assert steps == [(1, 1), (2, 1), (1, 2), (2, 2)]


def test_the_network_is_the_same():
    rows, new = numbers(), numbers(seed=1)
    learner = fitted(Quantiles(), rows, dim=3)
    for own in (rows, new):
        np.testing.assert_array_equal(learner.module()(torch.from_numpy(own)).numpy(), learner.transform(own, CPU))


def test_images_are_refused_with_what_takes_them():
    with pytest.raises(InputError, match="'quantiles' learner needs a table.*for images take 'patches' or 'pca'"):
        fitted(Quantiles(), np.zeros((50, 1, 8, 8), np.float32))


@pytest.mark.parametrize(
    "learner",
    [
        Quantiles(bins=1),
        Quantiles(bins=257),
        Quantiles(bins=2.5),
        Quantiles(least=0),
        Quantiles(least=101),
        Quantiles(bytes_per_row=0),
        Quantiles(bytes_per_row=float("nan")),
    ],
)
def test_settings_out_of_range(learner):
    with pytest.raises(InputError, match="parameter of Quantiles must be"):
        fitted(learner, numbers(100))


FORGERIES = {
    "columns below": lambda state: state["columns"].__setitem__(0, -1),
    "columns of halves": lambda state: state.update(columns=state["columns"] + 0.5),
    "no columns": lambda state: state.update({name: value[:0] for name, value in state.items()}),
    "edges of fewer columns": lambda state: state.update(edges=state["edges"][1:]),
    "a vector": lambda state: state.update(edges=state["edges"][:, 0]),
    "edges that fall": lambda state: state.update(edges=state["edges"][:, ::-1].copy()),
    "no numbers": lambda state: state["edges"].__setitem__((0, 3), np.nan),
    "one edge that is no number": lambda state: state.update(edges=np.full((5, 1), np.nan, np.float32)),
    "edges at minus infinity": lambda state: state["edges"].__setitem__((0, 0), -np.inf),
    "too many edges": lambda state: state.update(edges=np.zeros((5, 256), np.float32)),
    "groups beyond": lambda state: state["groups"].__setitem__(0, 5),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_states_are_refused(forgery):
    state = {name: value.copy() for name, value in fitted(Quantiles(), numbers(500)).state().items()}
    FORGERIES[forgery](state)
    with pytest.raises(ValueError, match=r"bins"):
        Quantiles().restore(state)
