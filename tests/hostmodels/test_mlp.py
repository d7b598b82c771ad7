"""The host model "mlp": a small network for small tables."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedonce import FedOnceClassifier, FedOnceRegressor, Guest, Host, InputError
from fedonce.hostmodels.base import Examples, Inputs
from fedonce.hostmodels.mlp import MlpModel
from tests.conftest import make_table

X, Y = make_table(400)
COLUMNS = {"parties": {"bank": [0, 1, 2, 3], "shop": [4, 5, 6, 7]}, "host": "bank", "random_state": 0, "dim": 3}
SMALL = MlpModel(hidden=(16,), epochs=8)
CPU = torch.device("cpu")


def examples(n=300, seed=0, numbers=False):
    rng = np.random.default_rng(seed)
    own, values = (rng.standard_normal((n, width)).astype(np.float32) for width in (3, 4))
    hidden = own[:, 0] + values[:, 0] + values[:, 2]
    target = hidden.astype(np.float64) if numbers else (hidden > 0).astype(np.int64)
    return Examples(own, values, np.ones((n, 2), np.float32), target)


def fitted(given, n_outputs=2, **settings):
    model = replace(SMALL, **settings)
    model.fit(given, (2, 2), n_outputs, np.random.default_rng(0), CPU)
    return model


def outputs(model, given):
    return model.outputs(given.own, given.values, given.present, CPU)


def test_a_classifier_and_a_regressor():
    model = FedOnceClassifier(model="mlp", **COLUMNS).fit(X[:300], Y[:300])
    assert model.score(X[300:], Y[300:]) > 0.9
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))
    number = 50 + 9 * X[:, 0] * (X[:, 4] > 0)
    found = FedOnceRegressor(model="mlp", **COLUMNS).fit(X[:300], number[:300])
    assert found.score(X[300:], number[300:]) > 0.7


def test_the_same_seed_gives_the_same_network():
    given = examples(60)
    np.testing.assert_array_equal(outputs(fitted(given), given), outputs(fitted(given), given))


def test_an_absent_guest_s_values_do_not_matter_and_its_absence_does():
    given = examples()
    model = fitted(given)
    without = replace(given, present=given.present * np.array([1, 0], np.float32))
    other = replace(without, values=without.values + np.array([0, 0, 5, 5], np.float32))
    np.testing.assert_array_equal(outputs(model, without), outputs(model, other))
    assert not np.allclose(outputs(model, without), outputs(model, given))


def test_an_absent_guest_s_values_are_as_on_average():
    given = replace(examples(), values=examples().values + 7)
    model = fitted(given, guest_dropout=0.0)
    gone = given.present * np.array([1, 0], np.float32)
    mean = given.values.copy()
    mean[:, 2:] = given.values[:, 2:].mean(axis=0)
    network, ones = model.networks_[0], np.ones_like(given.present)
    inputs = [
        model._inputs(np.hstack([given.own, values, ones]), who) for values, who in ((given.values, gone), (mean, ones))
    ]
    np.testing.assert_allclose(inputs[0], inputs[1], atol=1e-5)
    assert torch.isfinite(network(torch.from_numpy(inputs[0]))).all()


def test_a_constant_column_stays_harmless():
    given = examples(500)
    given.own[:, 1] = 7.3
    model = fitted(given)
    assert model.scale_["spread"][1] == 1
    near = replace(given, own=given.own + np.array([0, 0.01, 0], np.float32))
    np.testing.assert_allclose(outputs(model, near), outputs(model, given), atol=0.1)
    flat = replace(given, own=given.own * 0, values=given.values * 0)
    assert np.isfinite(outputs(fitted(flat), flat)).all()


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("numbers", [False, True])
def test_few_rows(n, numbers):
    given = examples(n, numbers=numbers)
    assert np.isfinite(outputs(fitted(given, 1 if numbers else 2), given)).all()


def test_a_host_without_guests_and_one_without_columns_of_its_own():
    given = examples(50)
    alone = Examples(given.own, given.values[:, :0], given.present[:, :0], given.target)
    model = replace(SMALL)
    model.fit(alone, (), 2, np.random.default_rng(0), CPU)
    assert outputs(model, alone).shape == (50, 2)
    bare = replace(given, own=given.own[:, :0])
    assert outputs(fitted(bare), bare).shape == (50, 2)


def test_rows_count_by_their_weight():
    given = examples()
    wrong = np.random.default_rng(2).random(300) < 0.4
    noisy = replace(given, target=np.where(wrong, 1 - given.target, given.target))
    clean = replace(noisy, weight=np.where(wrong, 0.0, 1.0) / (1 - wrong.mean()))
    scores = [
        np.mean(outputs(fitted(each, epochs=20), given).argmax(axis=1) == given.target) for each in (noisy, clean)
    ]
    assert scores[1] > 0.9 > scores[0]
    ones = replace(given, weight=np.ones(300))
    np.testing.assert_allclose(outputs(fitted(ones), given), outputs(fitted(given), given), atol=1e-5)


def test_one_network_is_enough_to_be_judged_by():
    given = examples(100)
    model = replace(SMALL, members=3)
    model.fit_watched(given, given, (2, 2), 2, np.random.default_rng(0), CPU)
    assert len(model.networks_) == 1
    model.fit_all(given, (2, 2), 2, np.random.default_rng(0), CPU)
    assert len(model.networks_) == 3


def trained():
    message = Guest("shop", "pca", dim=3).learn(X[:, 4:])
    host = Host("bank", model=SMALL)
    host.aggregate(X[:, :4], Y, [message])
    return host, message


def test_it_comes_back_from_disk(tmp_path):
    host, message = trained()
    host.save(tmp_path)
    again = Host.load(tmp_path)
    assert (again.model.name, again.model.hidden, again.prototype.epochs) == ("mlp", (16,), 8)
    for messages in ([message], []):
        np.testing.assert_array_equal(again.outputs(X[:, :4], messages), host.outputs(X[:, :4], messages))
    host.model.scale_["spread"][0] = 0
    host.save(tmp_path)
    with pytest.raises(InputError, match=r"cannot be read .its spreads must be above 0"):
        Host.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "forge"),
    [
        ("mean", lambda each: each[1:]),
        ("mean", lambda each: each * np.nan),
        ("spread", lambda each: each * 0),
        ("spread", lambda each: -each),
        ("spread", lambda each: each * np.inf),
        ("0.0.weight", lambda each: each[:, 1:]),
        ("1.0.weight", lambda each: each[1:]),
        ("0.7.weight", lambda each: np.zeros((2, 2), np.float32)),
    ],
)
def test_forged_scales_and_weights_are_refused(name, forge):
    state = trained()[0].model.state()
    replace(SMALL).restore(dict(state), Inputs((4,), (3,), 2))
    state[name] = forge(state.get(name))
    with pytest.raises(ValueError, match="its scales|its spreads|the weights"):
        replace(SMALL).restore(state, Inputs((4,), (3,), 2))


def test_forged_settings_ask_for_no_more_than_there_is():
    state = trained()[0].model.state()
    for forged in ({"hidden": (10**9, 10**9)}, {"members": 10**9}):
        with pytest.raises(ValueError, match="the weights|from 1 to 64"):
            replace(SMALL, **forged).restore(state, Inputs((4,), (3,), 2))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"hidden": ()}, "'hidden' parameter of MlpModel of Host"),
        ({"hidden": (0,)}, "'hidden'"),
        ({"members": 0}, "'members'"),
        ({"epochs": 0}, "'epochs'.*positive integer"),
        ({"rate": -1.0}, "'rate'"),
        ({"weight_decay": np.inf}, "'weight_decay'"),
        ({"guest_dropout": 1.5}, "'guest_dropout'.*from 0 to 1"),
    ],
)
def test_settings_that_cannot_be_meant(settings, said):
    with pytest.raises(InputError, match=said):
        Host("bank", model=MlpModel(**settings))


def test_an_untrained_one_says_so():
    with pytest.raises(InputError, match="has not been trained yet"):
        outputs(MlpModel(), examples(3))
