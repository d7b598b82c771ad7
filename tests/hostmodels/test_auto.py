"""The host's model where nobody names one."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedonce import FedOnceClassifier, FedOnceRegressor, Guest, Host, InputError, Recipe, Rounds
from fedonce.hostmodels import NetworkModel, make
from fedonce.hostmodels.auto import AutoModel
from fedonce.hostmodels.base import Examples
from fedonce.hostmodels.trees import TreesModel
from tests.conftest import make_table

X, Y = make_table(120)
COLUMNS = {"parties": {"bank": [0, 1, 2, 3], "shop": [4, 5, 6, 7]}, "host": "bank", "random_state": 0, "dim": 3}
CPU, GPU = torch.device("cpu"), torch.device("cuda")


def examples(n, classes=2):
    rng = np.random.default_rng(0)
    own, values = (rng.standard_normal((n, width)).astype(np.float32) for width in (3, 4))
    target = rng.integers(0, classes, n) if classes else rng.standard_normal(n)
    return Examples(own, values, np.ones((n, 2), np.float32), target)


def candidates(n, classes=2, device=CPU, model=None, trees_work=1.0):
    """Give what it would weigh, with trees that take so many times as long as they would."""
    given = examples(n, classes)

    class Trees(TreesModel):
        def work(self, examples):
            return trees_work

    return list((model or AutoModel()).candidates(given, max(1, classes), device, {"trees": Trees()}))


def test_few_rows_are_for_a_linear_model_and_a_small_network():
    assert candidates(300) == ["linear", "mlp"]
    assert candidates(300, classes=3) == ["linear", "mlp"]
    assert candidates(1000) == ["linear", "mlp", "trees"]
    assert candidates(300, classes=0) == ["linear", "mlp", "trees"]
    assert candidates(1999, classes=3) == ["linear", "mlp"]


def test_many_rows_are_for_trees_and_for_a_network_where_trees_take_long_themselves():
    assert candidates(2000) == ["trees", "mlp"]
    assert candidates(2000, trees_work=1e15) == ["trees", "mlp", "tabm"]
    assert candidates(2000, classes=0) == ["trees"]
    assert candidates(2000, classes=0, trees_work=1e15) == ["trees", "network"]
    assert candidates(2000, device=GPU) == ["trees", "tabm", "network"]
    assert candidates(2000, classes=50) == ["network"]


def test_models_that_are_named_are_weighed():
    assert candidates(50, model=AutoModel(("tabm", "linear"))) == ["tabm", "linear"]
    for wrong in (("blend",), ("auto",), ("none",)):
        with pytest.raises(InputError, match="'models' parameter of Host"):
            Host("bank", model=AutoModel(wrong))


def test_few_rows_through_an_estimator():
    model = FedOnceClassifier(**COLUMNS).fit(X, Y)
    found = model._host.model
    assert found.name == "auto"
    assert set(found.losses_) == {"linear", "mlp", "blend"}
    assert {each.name for each in found.members_} <= {"linear", "mlp"}
    assert "loss on rows held back: linear" in found.chosen
    again = FedOnceClassifier(**COLUMNS).fit(X, Y)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.validation_ == model.validation_
    other = FedOnceClassifier(**{**COLUMNS, "random_state": 1}).fit(X, Y)
    assert not np.array_equal(other.predict_proba(X), model.predict_proba(X))


def test_many_rows_through_a_host():
    table, label = make_table(2000)
    host = Host("bank", model=AutoModel(), validate=False)
    host.aggregate(table[:, :2], label, [])
    assert next(iter(host.model.losses_)) == "trees"
    assert "trees" in host.model.chosen


@pytest.mark.parametrize(
    ("settings", "asked", "why"),
    [
        ({}, {"images": True}, "images"),
        ({}, {"private": True}, "a privacy budget"),
        ({}, {"rounds": True}, "rounds"),
        ({"recipe": "paper"}, {}, "settings of the network"),
        ({"recipe": Recipe(epochs=3)}, {}, "settings of the network"),
        ({"epochs": 3}, {}, "settings of the network"),
    ],
)
def test_the_network_where_only_it_will_do(settings, asked, why, caplog):
    model = AutoModel(**settings)
    with caplog.at_level(logging.INFO):
        settled = model.settled(**asked)
    assert isinstance(settled, NetworkModel)
    assert (settled.recipe, settled.epochs) == (model.recipe, model.epochs)
    assert f"the host's model is the network, as there are {why}" in caplog.text


def test_itself_where_nothing_is_asked():
    model = AutoModel()
    assert model.settled() is model
    assert make("auto", epochs=2).settled().name == "network"
    assert make("auto").settled().name == "auto"


PUBLIC = {"bounds": (-9, 9), "target_bounds": [0, 1], "accountant": "rdp", "learner": "pca"}


@pytest.mark.parametrize(
    "settings",
    [{"host_epochs": 1}, {"recipe": Recipe(epochs=1)}, {"epsilon": 4.0, **PUBLIC}, {"rounds": Rounds(1)}],
    ids=["epochs", "recipe", "budget", "rounds"],
)
def test_the_network_through_an_estimator(settings):
    model = FedOnceClassifier(**COLUMNS, **settings).fit(X, Y)
    assert model._host.model.name == "network"
    if "epsilon" in settings or "rounds" in settings:
        assert model.validation_ is None
    else:
        assert model.validation_.chosen == "network"


def test_images_are_for_the_network():
    host = Host("bank", shape=(1, 2, 2), validate=False)
    assert host.new_model(images=True).name == "network"
    assert host.new_model().name == "auto"


@pytest.mark.parametrize("numbers", [False, True])
def test_an_estimator_says_whether_it_was_worth_it(numbers):
    made = (FedOnceRegressor if numbers else FedOnceClassifier)(**COLUMNS)
    found = made.fit(X, X[:, 0] + 3 * X[:, 5] if numbers else Y).validation_
    assert found.metric == ("rmse" if numbers else "accuracy")
    assert found.rows == 120
    for score in (found.joint, found.alone, found.gain):
        assert np.isfinite([score.value, score.error]).all()
        assert score.error > 0
    sign = -1 if numbers else 1
    assert found.gain.value == pytest.approx(sign * (found.joint.value - found.alone.value))
    assert found.gain.value > 0
    assert ("calibration error" in found.more) == (not numbers)
    assert found.chosen == made._host.model.chosen


def test_there_is_no_validation_where_nobody_asks_or_rows_are_few():
    assert FedOnceClassifier(**COLUMNS, validate=False).fit(X, Y).validation_ is None
    assert FedOnceClassifier(**COLUMNS).fit(X[:19], np.arange(19) % 2).validation_ is None
    assert FedOnceClassifier(**COLUMNS).fit(X[:20], np.arange(20) % 2).validation_ is not None
    alone = Host("bank")
    alone.aggregate(X, Y, [])
    assert alone.validation.alone is None
    assert alone.validation.gain is None


def test_it_comes_back_from_disk_to_the_bit(tmp_path):
    message = Guest("shop", "pca", dim=3).learn(X[:, 4:])
    host = Host("bank")
    host.aggregate(X[:, :4], Y, [message])
    host.save(tmp_path)
    again = Host.load(tmp_path)
    assert (again.model.name, again.model.chosen) == ("auto", host.model.chosen)
    assert again.validation == host.validation
    assert again.prototype.models == ()
    for messages in ([message], []):
        np.testing.assert_array_equal(again.outputs(X[:, :4], messages), host.outputs(X[:, :4], messages))


def test_a_host_read_from_disk_can_be_trained_again(tmp_path):
    message = Guest("shop", "pca", dim=3).learn(X[:, 4:])
    host = Host("bank")
    host.aggregate(X[:, :4], Y, [message])
    host.save(tmp_path)
    again = Host.load(tmp_path)
    again.aggregate(X[:, :4], Y, [message])
    np.testing.assert_array_equal(again.outputs(X[:, :4], [message]), host.outputs(X[:, :4], [message]))


def test_settings_of_the_network_are_checked():
    with pytest.raises(InputError, match="'recipe'"):
        Host("bank", recipe="cheap")
    assert replace(AutoModel(), epochs=4).network.epochs == 4
