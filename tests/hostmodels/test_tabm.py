"""The host model "tabm": through an estimator, on disk, with absent guests, weights and few rows."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedonce import FedOnceClassifier, FedOnceRegressor, Guest, Host, InputError
from fedonce.hostmodels.base import Examples, Inputs
from fedonce.hostmodels.tabm import TabMModel
from fedonce.hostmodels.tabm_network import HeadsLoss
from tests.conftest import make_table

X, Y = make_table(400)
COLUMNS = {"parties": {"bank": [0, 1, 2, 3], "shop": [4, 5, 6, 7]}, "host": "bank", "random_state": 0, "dim": 3}
SMALL = TabMModel(heads=4, width=32, bins=8, epochs=12, batch=32)
CPU = torch.device("cpu")


def examples(n=300, seed=0, numbers=False):
    rng = np.random.default_rng(seed)
    own, values = (rng.standard_normal((n, width)).astype(np.float32) for width in (3, 4))
    hidden = own[:, 0] + values[:, 0] + values[:, 2]
    target = hidden.astype(np.float32) if numbers else (hidden > 0).astype(np.int64)
    return Examples(own, values, np.ones((n, 2), np.float32), target)


def fitted(given, n_outputs=2, **settings):
    model = replace(SMALL, **settings)
    history = model.fit(given, (2, 2), n_outputs, np.random.default_rng(0), CPU)
    return model, history


def outputs(model, given):
    return model.outputs(given.own, given.values, given.present, CPU)


def test_a_classifier():
    model = FedOnceClassifier(model=SMALL, **COLUMNS).fit(X[:300], Y[:300])
    assert model.score(X[300:], Y[300:]) > 0.9
    alone = model.predict(X[300:], present={"shop": False})
    assert model.score(X[300:], Y[300:]) > np.mean(alone == Y[300:])
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    again = FedOnceClassifier(model=SMALL, **COLUMNS).fit(X[:300], Y[:300])
    for same in (again, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))


def test_a_regressor():
    number = 50 + 9 * X[:, 0] * (X[:, 4] > 0)
    model = FedOnceRegressor(model=replace(SMALL, epochs=40), **COLUMNS).fit(X[:300], number[:300])
    assert model.score(X[300:], number[300:]) > 0.7


def test_its_defaults_have_a_name():
    model = FedOnceClassifier(model="tabm", host_epochs=2, **COLUMNS).fit(X, Y)
    assert [line["epoch"] for line in model.history_] == [1, 2]


def test_probabilities_of_heads_are_averaged():
    given = examples(60)
    model, _ = fitted(given, epochs=2)
    network, tensors = model.module(), [torch.from_numpy(a) for a in (given.own, given.values, given.present)]
    each = network.each(network.inputs(*tensors))
    assert each.shape == (4, 60, 2)
    mean = each.softmax(dim=2).mean(dim=0).detach().numpy()
    np.testing.assert_allclose(np.exp(outputs(model, given)), mean, rtol=1e-4)
    assert each.std(dim=0).max() > 0.01  # they do not give the same


def test_the_loss_is_the_mean_of_the_heads_losses():
    each, target = torch.tensor([[[1.0, 3.0], [2.0, 2.0]]]), torch.tensor([1])  # a row, two heads, two classes
    wanted = (np.log(1 + np.exp(-2)) + np.log(2)) / 2
    assert HeadsLoss().rows(each, target).tolist() == pytest.approx([wanted])
    numbers = torch.tensor([[[1.0], [4.0]], [[0.0], [0.0]]])
    assert HeadsLoss().rows(numbers, torch.tensor([2.0, 3.0])).tolist() == pytest.approx([(1 + 4) / 2, 9])


def test_an_absent_guest_s_values_do_not_matter_and_its_absence_does():
    given = examples()
    model, _ = fitted(given)
    without = replace(given, present=given.present * np.array([1, 0], np.float32))
    other = replace(without, values=without.values + np.array([0, 0, 5, 5], np.float32))
    np.testing.assert_array_equal(outputs(model, without), outputs(model, other))
    assert not np.allclose(outputs(model, without), outputs(model, given))


def test_absent_guests_are_trained_for():
    given = examples(600)
    held = examples(600, seed=1)
    gone = replace(held, present=held.present * np.array([1, 0], np.float32))

    def loss(model):
        return float(np.mean([-row[code] for row, code in zip(outputs(model, gone), gone.target, strict=True)]))

    assert loss(fitted(given, guest_dropout=0.5)[0]) < loss(fitted(given, guest_dropout=0.0)[0])


def test_bins_are_those_of_the_rows_that_a_guest_has():
    given = examples()
    given.present[:150, 1] = 0
    given.values[:150, 2:] = 0
    model, _ = fitted(given, epochs=1)
    bins = model.module().many
    low = bins.low[bins.column == 5].numpy()[0]
    present = given.values[150:, 2]
    assert low[0] == present.min()
    assert np.mean(present < low[4]) == pytest.approx(0.5, abs=0.05)  # of 8 bins


def test_rows_count_by_their_weight():
    given = examples(300)
    rng = np.random.default_rng(2)
    wrong = rng.random(300) < 0.4
    target = np.where(wrong, 1 - given.target, given.target)
    weight = np.where(wrong, 0.0, 1.0)
    noisy = replace(given, target=target)
    clean = replace(given, target=target, weight=weight / weight.mean())
    scores = [np.mean(outputs(fitted(each)[0], given).argmax(axis=1) == given.target) for each in (noisy, clean)]
    assert scores[1] > 0.9 > scores[0]


def test_weights_of_one_change_nothing():
    given = examples(200)
    weighted = replace(given, weight=np.ones(200))
    np.testing.assert_array_equal(*(outputs(fitted(each, epochs=2)[0], given) for each in (given, weighted)))


def test_no_rows_are_held_back_and_no_epoch_is_left_out():
    given = examples(200)
    model, history = fitted(given, epochs=7)
    assert len(history) == 7
    watched = replace(SMALL, epochs=7)
    watched.fit_watched(given, examples(50, seed=1), (2, 2), 2, np.random.default_rng(0), CPU)
    np.testing.assert_array_equal(outputs(watched, given), outputs(model, given))


@pytest.mark.parametrize("n", [2, 5, 30])
@pytest.mark.parametrize("numbers", [False, True])
def test_few_rows(n, numbers):
    given = examples(n, numbers=numbers)
    if not numbers:
        given.target[:] = np.arange(n) % 2
    model = TabMModel(epochs=2)
    model.fit(given, (2, 2), 1 if numbers else 2, np.random.default_rng(0), CPU)
    assert np.isfinite(outputs(model, given)).all()


def test_an_estimator_of_five_rows():
    model = FedOnceClassifier(model=SMALL, **COLUMNS).fit(X[:5], [0, 1, 0, 1, 0])
    assert np.isfinite(model.predict_proba(X)).all()


def test_constant_and_binary_columns():
    given = examples(100)
    given.own[:, 0] = 7
    given.own[:, 1] = np.arange(100) % 2 - 0.5
    given.values[:, 0] = np.arange(100) % 3
    model, _ = fitted(given, epochs=1)
    many, two = model.module().many, model.module().two
    assert two.column.tolist() == [1]
    assert dict(zip(many.column.tolist(), many.counts.tolist(), strict=True)) == {2: 8, 3: 2, 4: 8, 5: 8, 6: 8}
    constant = replace(given, own=np.zeros_like(given.own), values=np.zeros_like(given.values))
    model, _ = fitted(constant, epochs=1)
    assert np.isfinite(outputs(model, constant)).all()


def test_a_host_without_columns_of_its_own_and_one_without_guests():
    given = examples(50)
    bare = replace(given, own=given.own[:, :0])
    assert outputs(fitted(bare, epochs=1)[0], bare).shape == (50, 2)
    alone = Examples(given.own, given.values[:, :0], given.present[:, :0], given.target)
    model = replace(SMALL, epochs=1)
    model.fit(alone, (), 2, np.random.default_rng(0), CPU)
    assert outputs(model, alone).shape == (50, 2)


def test_far_values_are_those_at_the_edge():
    given = examples(100)
    model, _ = fitted(given, epochs=1)
    far = replace(given, own=np.full_like(given.own, 1e6))
    edge = replace(given, own=np.broadcast_to(given.own.max(axis=0), given.own.shape).copy())
    kept = outputs(model, far)
    np.testing.assert_allclose(kept, outputs(model, edge), rtol=1e-5)


def trained():
    guest = Guest("shop", "pca", dim=3)
    message = guest.learn(X[:, 4:])
    host = Host("bank", model=replace(SMALL, epochs=1, layers=3))
    host.aggregate(X[:, :4], Y, [message])
    return host, message


def test_it_comes_back_from_disk(tmp_path):
    host, message = trained()
    host.save(tmp_path)
    again = Host.load(tmp_path)
    assert (again.model.name, again.model.heads, again.model.bins) == ("tabm", 4, 8)
    np.testing.assert_array_equal(again.outputs(X[:, :4], [message]), host.outputs(X[:, :4], [message]))


@pytest.mark.parametrize(
    ("name", "forge"),
    [
        ("first", lambda each: each[1:]),
        ("many.column", lambda each: each + 10**6),
        ("many.column", lambda each: each - 1),
        ("many.column", lambda each: each.astype(np.float32)),
        ("holder", lambda each: each * 0),
        ("many.width", lambda each: each * 0),
        ("many.width", lambda each: each * np.nan),
        ("last", lambda each: each[:, :, :1]),
        ("last", lambda each: each[0]),
        ("hidden.7.weight", lambda each: np.zeros((32, 32), np.float32)),
    ],
)
def test_forged_arrays_are_refused(name, forge):
    host, _ = trained()
    state = host.model.state()
    state[name] = forge(state.get(name))
    with pytest.raises(ValueError, match=r"weights|columns|width|unpack"):
        TabMModel().restore(state, Inputs((4,), (3,), 2))


def test_forged_settings_ask_for_no_more_than_there_is():
    host, _ = trained()
    again = TabMModel(layers=10**9, heads=10**9, width=10**9)
    again.restore(host.model.state(), Inputs((4,), (3,), 2))
    assert again.module().size == host.model.module().size


def test_a_file_for_other_systems(tmp_path):
    for needed in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(needed)
    from fedonce.export.onnx import export_host

    host, _ = trained()
    exported = export_host(host, tmp_path / "host.onnx")
    assert exported.difference < 1e-5
    assert set(exported.inputs) == {"own", "values", "present"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"heads": 0}, "'heads' parameter of TabMModel"), ({"dropout": 1.0}, "'dropout'"), ({"rate": -1.0}, "'rate'")],
)
def test_settings_that_cannot_be_meant(settings, said):
    with pytest.raises(InputError, match=said):
        Host("bank", model=TabMModel(**settings))


def test_an_untrained_one_says_so():
    with pytest.raises(InputError, match="has not been trained yet"):
        TabMModel().state()
