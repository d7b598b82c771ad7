from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from fedonce import Guest, InputError
from fedonce.data.table import Table
from fedonce.learners import Cells, clusters
from fedonce.learners.patches import Patches
from fedonce.learners.pca import PCA

CPU = torch.device("cpu")


def mixed(n=2000, width=6, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, 3)) @ rng.standard_normal((3, width))).astype(np.float32)


def flags(n=2000, width=6, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.random((n, width)) < [0.5, 0.3, 0.1, 0.02, 0.6, 0.4][:width]).astype(np.float32)


def tailed(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    return np.exp(2 * rng.standard_normal((n, 4))).astype(np.float32)


KINDS = {"mixed": mixed, "flags": flags, "tailed": tailed}


def fitted(learner, rows, dim=8, seed=0):
    learner.fit(rows, dim, np.random.default_rng(seed), CPU)
    return learner


def fewest_alike(values):
    return np.unique(values, axis=0, return_counts=True)[1].min()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("learner", [Cells(), Cells(least=100), Cells(layers=2, together=True), Cells(centres=False)])
def test_every_training_row_shares_its_message_with_others(kind, learner):
    guest = Guest("shop", learner)
    assert fewest_alike(guest.learn(KINDS[kind]()).values) >= learner.least


def corner(rows, many=300):
    """Return places of rows that lie together, and a few from everywhere: what an alignment may leave."""
    near = np.argsort(np.square(rows - rows[0]).sum(axis=1), kind="stable")[:many]
    return np.union1d(near, np.arange(0, len(rows), 40))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "learner", [Cells(), Cells(layers=2, together=True), Cells(centres=False, shuffled=True), Cells(layers=2)]
)
def test_of_rows_that_are_sent_as_many_share_each_value(kind, learner):
    rows = KINDS[kind](4000)
    sent = corner(rows)
    own = copy.deepcopy(learner)
    own.fit(rows, 8, np.random.default_rng(0), CPU, sent)
    layers = np.hsplit(own.transform_in_layers(rows, CPU)[sent], len(own.layers_))
    for layer in layers if not own.shared else [np.hstack(layers)]:
        assert fewest_alike(layer) >= 20
    assert own.shared == (0 if learner.layers == 2 and not learner.together else 20)
    left_out = copy.deepcopy(learner)
    left_out.fit(rows, 8, np.random.default_rng(0), CPU)
    assert fewest_alike(left_out.transform_in_layers(rows, CPU)[sent]) < 20  # learnt without a word on what is sent


def test_fewer_rows_sent_than_a_cell_must_have():
    with pytest.raises(InputError, match="at most the 12 rows that are sent. Got 20"):
        Cells().fit(mixed(), 8, np.random.default_rng(0), CPU, np.arange(12))


def test_rows_share_their_message_whatever_the_bytes():
    guest = Guest("shop", Cells(cells=16, together=True), bytes_per_row=3.0)
    values = guest.learn(mixed(6000)).values
    assert len(guest.learner.layers_) > 1
    assert fewest_alike(values) >= 20


def test_where_layers_are_not_together_each_of_them_is_shared():
    rows = mixed()
    learner = fitted(Cells(layers=2), rows)
    layers = learner.transform_in_layers(rows, CPU)
    assert layers.shape[1] == 2 * learner.dim_
    for layer in np.hsplit(layers, 2):
        assert fewest_alike(layer) >= learner.least
    assert fewest_alike(learner.transform(rows, CPU)) < learner.least


def test_finer_layers_tell_more_and_those_kept_together_less():
    rows = mixed()
    base = PCA()
    base.fit(rows, 6, np.random.default_rng(0), CPU)
    truth = base.transform(rows, CPU)

    def lost(learner):
        values = fitted(learner, rows).transform(rows, CPU)
        return np.square(values - truth[:, : values.shape[1]]).mean()

    one, kept, two = (
        lost(Cells(cells=16)),
        lost(Cells(cells=16, layers=2, together=True)),
        lost(Cells(cells=16, layers=2)),
    )
    assert two < kept < one


def test_the_message_has_the_values_of_the_layers_added_up():
    rows = mixed()
    guest = Guest("shop", Cells(layers=3, bytes_per_row=3.0), bytes_per_row=3.0)
    message = guest.learn(rows)
    assert len(guest.learner.layers_) == 3
    prepared = guest.preparation.transform(Table.of(rows))
    np.testing.assert_allclose(message.values, guest.learner.transform(prepared, CPU), atol=0.05)


def test_the_same_seed_makes_the_same_bytes():
    rows = mixed()
    first, second = (Guest("shop", "cells", bytes_per_row=1.5).learn(rows) for _ in range(2))
    assert first.to_bytes() == second.to_bytes()


def test_no_rows_have_no_values():
    for learner in (Cells(), Cells(layers=2), Cells(centres=False)):
        fitted(learner, mixed())
        assert learner.transform(mixed()[:0], CPU).shape == (0, learner.dim_)


def test_few_distinct_rows_have_a_cell_each():
    rows = np.repeat(np.eye(4, dtype=np.float32), [30, 40, 50, 5], axis=0)
    values = fitted(Cells(), rows).transform(rows, CPU)
    assert len(np.unique(values, axis=0)) == 3  # the five join a neighbour
    assert fewest_alike(values) >= 20


def test_one_distinct_row_and_constant_columns():
    rows = np.ones((50, 3), np.float32)
    values = fitted(Cells(), rows).transform(rows, CPU)
    assert len(np.unique(values, axis=0)) == 1
    for budget in (None, 0.5):
        message = Guest("shop", Cells(), bytes_per_row=budget).learn(rows)
        assert message.payload_bytes <= 20
    constant = np.column_stack([mixed(500, 2), np.full(500, 7.0)]).astype(np.float32)
    assert len(np.unique(fitted(Cells(), constant).transform(constant, CPU), axis=0)) > 2


def test_fewer_rows_than_a_cell_must_have():
    with pytest.raises(
        InputError, match="'least' parameter of Cells must be at most the 19 rows that are sent. Got 20"
    ):
        fitted(Cells(), mixed(19))


@pytest.mark.parametrize(("side", "base"), [(12, Patches), (6, PCA)])
def test_images(side, base):
    images = np.random.default_rng(0).random((40, 1, side, side)).astype(np.float32)
    learner = fitted(Cells(cells=4, least=5), images)
    assert isinstance(learner.base_, base)
    values = learner.transform(images, CPU)
    assert fewest_alike(values) >= 5
    again = Cells(cells=4, least=5)
    again.restore(learner.state())
    np.testing.assert_array_equal(again.transform(images, CPU), values)


def test_numbers_alone_are_whole_and_in_order():
    rows = mixed()
    learner = fitted(Cells(centres=False, cells=16), rows)
    values = learner.transform(rows, CPU)[:, 0]
    assert sorted(set(values)) == list(range(len(learner.layers_[0].centres)))
    first = learner.base_.transform(rows, CPU)[:, 0]
    middles = [first[values == number].mean() for number in range(int(values.max()) + 1)]
    assert np.corrcoef(middles, range(len(middles)))[0, 1] > 0.9
    message = Guest("shop", Cells(centres=False)).learn(rows)
    assert message.payload_bytes < len(rows)  # nothing says where cells are


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", [0.05, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("centres", [True, False])
def test_a_budget_of_bytes_is_kept(kind, budget, centres):
    rows = KINDS[kind](4000)
    message = Guest("shop", Cells(centres=centres), bytes_per_row=budget).learn(rows)
    assert message.payload_bytes <= budget * len(rows)


def test_more_bytes_tell_more():
    rows = mixed(4000)
    kept = []
    for budget in (0.1, 0.5, 1.0, 2.0):
        values = Guest("shop", "cells", bytes_per_row=budget).learn(rows).values
        kept.append(values.var(axis=0).sum())
    assert kept == sorted(kept)
    assert kept[-1] > 2 * kept[0]


def test_of_many_rows_k_means_looks_at_a_sample(monkeypatch):
    monkeypatch.setattr(clusters, "MOST_POINTS", 1000)
    rows = mixed(3000)
    values = fitted(Cells(cells=32), rows).transform(rows, CPU)
    assert 8 < len(np.unique(values, axis=0)) <= 32
    assert fewest_alike(values) >= 20


@pytest.mark.parametrize(
    "learner",
    [
        Cells(cells=1),
        Cells(cells=5000),
        Cells(cells=True),
        Cells(least=0),
        Cells(layers=5),
        Cells(layers=0),
        Cells(layers=2, centres=False),
        Cells(bytes_per_row=0),
        Cells(bytes_per_row=float("nan")),
    ],
)
def test_settings_out_of_range(learner):
    with pytest.raises(InputError, match="of Cells must be"):
        fitted(learner, mixed(100))


def test_a_state_with_layers_comes_back():
    rows = mixed()
    learner = fitted(Cells(layers=2, together=True), rows)
    again = Cells(layers=2, together=True)
    again.restore({name: value.copy() for name, value in learner.state().items()})
    np.testing.assert_array_equal(again.transform_in_layers(rows, CPU), learner.transform_in_layers(rows, CPU))


FORGERIES = {
    "no layer": lambda state: [state.pop("centres.0"), state.pop("centres.1")],
    "the first layer is gone": lambda state: state.update({"centres.7": state.pop("centres.0")}),
    "too many layers": lambda state: state.update({f"centres.{i}": state["centres.0"] for i in range(6)}),
    "other coordinates": lambda state: state.update({"centres.1": state["centres.1"][:, :2]}),
    "fewer than the base": lambda state: state.update({f"centres.{i}": state[f"centres.{i}"][:, :2] for i in (0, 1)}),
    "no cells": lambda state: state.update({"centres.0": state["centres.0"][:0]}),
    "a vector": lambda state: state.update({"centres.0": state["centres.0"][0]}),
    "other numbers": lambda state: state.update({"centres.0": state["centres.0"].astype(np.float64)}),
    "no numbers": lambda state: state["centres.0"].__setitem__((0, 0), np.nan),
    "too many cells": lambda state: state.update(
        {"centres.0": np.zeros((5000, state["centres.0"].shape[1]), np.float32)}
    ),
    "paths below": lambda state: state["paths.1"].__setitem__(0, -1),
    "paths beyond": lambda state: state["paths.1"].__setitem__(0, 10**9),
    "paths of halves": lambda state: state.update({"paths.1": state["paths.1"] + 0.5}),
    "paths in a table": lambda state: state.update({"paths.1": state["paths.1"][:, None]}),
    "sends nothing": lambda state: state.update({"dim": np.array(0)}),
    "sends too much": lambda state: state.update({"dim": np.array(99)}),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_states_are_refused(forgery):
    learner = Cells(cells=4, layers=2, together=True)
    state = {name: value.copy() for name, value in fitted(learner, mixed(1000)).state().items()}
    FORGERIES[forgery](state)
    with pytest.raises((ValueError, KeyError)):
        Cells(cells=4, layers=2, together=True).restore(state)
