"""A host's model is a contract: one from outside the package goes wherever the network goes."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
import torch
from sklearn.base import clone

from fedonce import (
    BudgetError,
    FedOnceClassifier,
    FedOnceRegressor,
    Guest,
    Host,
    InputError,
    Recipe,
    Representation,
)
from fedonce.export.onnx import export_host
from fedonce.hostmodels import HOST_MODELS, Facts, HostModel, NetworkModel, make
from fedonce.party import storage
from tests.conftest import make_table
from tests.jobs.office import FIT_BANK, SHOP, done, make_office, refused, told
from tests.test_layers import IMPORTS

X, Y = make_table(200)
COLUMNS = {"parties": {"bank": [0, 1, 2, 3], "shop": [4, 5, 6, 7]}, "host": "bank", "random_state": 0}


@dataclass(eq=False)
class Means(HostModel):
    """The nearest class mean of own columns and guests' values."""

    name: ClassVar[str] = "means"
    facts: ClassVar[Facts] = Facts(numbers=False)
    sharpness: float = 1.0
    means_: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)), init=False)

    def fit(self, examples, dims, n_outputs, rng, device):
        seen = np.hstack([examples.own, examples.values])
        self.means_ = np.stack([seen[examples.target == code].mean(axis=0) for code in range(n_outputs)])
        return []

    def outputs(self, own, values, present, device):
        apart = np.hstack([own, values])[:, None] - self.means_
        return (-self.sharpness * np.square(apart).sum(axis=2)).astype(np.float32)

    def state(self):
        return {"means": self.means_}

    def restore(self, tensors, inputs):
        self.means_ = tensors["means"].reshape(inputs.n_outputs, inputs.shape[0] + sum(inputs.dims))


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(HOST_MODELS, "means", Means)


def trained(**settings):
    guest = Guest("shop", "pca", dim=3)
    message = Representation.from_bytes(guest.learn(X[:, 4:]).to_bytes(), "shop")
    host = Host("bank", **{"model": "means", **settings})
    host.aggregate(X[:, :4], Y, [message])
    return host, message


def test_an_estimator_with_a_model_from_outside():
    model = FedOnceClassifier(model="means", **COLUMNS).fit(X, Y)
    assert model.history_ == []
    assert model.score(X, Y) > 0.75
    network = FedOnceClassifier(host_epochs=1, **COLUMNS).fit(X, Y)
    assert not np.allclose(model.predict_proba(X), network.predict_proba(X))
    for copy in (pickle.loads(pickle.dumps(model)), clone(model).fit(X, Y)):
        np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))


def test_an_object_has_settings_of_its_own_and_is_copied():
    own = Means(sharpness=3.0)
    model = FedOnceClassifier(model=own, **COLUMNS)
    assert clone(model).get_params()["model"].sharpness == 3.0
    found, by_name = model.fit(X, Y), FedOnceClassifier(model="means", **COLUMNS).fit(X, Y)
    assert not len(own.means_)
    assert found._host.temperature == pytest.approx(3 * by_name._host.temperature, rel=1e-3)  # too sure, and calibrated


def test_an_absent_guest_is_zeros():
    model = FedOnceClassifier(model="means", **COLUMNS).fit(X, Y)
    assert np.isfinite(model.predict_proba(X, present={"shop": False})).all()
    host, message = trained()
    alone = host.outputs(X[:, :4], [])
    assert not np.allclose(alone, host.outputs(X[:, :4], [message]))


def test_a_model_that_needs_every_guest_says_so(monkeypatch):
    monkeypatch.setattr(Means, "facts", Facts(numbers=False, absent=False))
    host, _ = trained()
    with pytest.raises(
        InputError, match="'means' cannot predict rows that a guest does not have; take model='auto', 'blend', 'net"
    ):
        host.outputs(X[:, :4], [])
    half = np.arange(200) < 100
    with pytest.raises(InputError, match="'means' cannot train with guests that lack rows"):
        Host("bank", model="means").aggregate(X[:, :4], Y, [Guest("shop", "pca", 2).learn(X[half, 4:], half)])


def test_a_model_comes_back_from_disk(tmp_path):
    host, message = trained(model=Means(sharpness=2.0))
    host.save(tmp_path)
    again = Host.load(tmp_path)
    assert (again.model.name, again.model.sharpness, again.prototype.sharpness) == ("means", 2.0, 2.0)
    np.testing.assert_array_equal(again.outputs(X[:, :4], [message]), host.outputs(X[:, :4], [message]))
    kept = storage.load(tmp_path, "host").settings
    assert (kept["model"], kept["settings"]) == ("means", {"sharpness": 2.0})
    assert "recipe" not in kept


def test_a_model_must_be_known_to_be_saved_and_loaded(tmp_path, monkeypatch):
    host, _ = trained()
    host.save(tmp_path)
    monkeypatch.delitem(HOST_MODELS, "means")
    with pytest.raises(
        InputError, match="trained by 'means', a host model that is not known here; install its package"
    ):
        Host.load(tmp_path)
    with pytest.raises(
        InputError, match="'means' of the host 'bank' cannot be saved: Means is not known.*hostmodels.reg"
    ):
        host.save(tmp_path / "new")


def test_forged_arrays_are_refused(tmp_path):
    host, _ = trained()
    host.model.means_ = host.model.means_[:, 1:]
    host.save(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        Host.load(tmp_path)


def test_files(tmp_path):
    folder = make_office(tmp_path)
    fit = f"{FIT_BANK.replace('--out bank', '--out means')} {SHOP} --model"
    assert told(folder, f"{fit} means")["guests"]["shop"]["overlap"] == 0.75
    assert Host.load(folder / "means").model.name == "means"
    done(folder, f"host predict bank.csv --model means --secret secret {SHOP} --out predicted.csv")
    assert (folder / "predicted.csv").read_text().count("\n") == 121
    done(folder, "host predict bank.csv --model means --secret secret --allow-absent --out alone.csv")
    assert (folder / "alone.csv").read_text() != (folder / "predicted.csv").read_text()
    before = (folder / "means" / "manifest.json").read_bytes()
    done(folder, "host fit bank.csv --out means --refit --secret secret")  # the same model, without being told again
    assert (folder / "means" / "manifest.json").read_bytes() == before
    refused(folder, 3, "did you mean 'means'", f"{fit} mens".replace("--out means", "--out new"))


@pytest.mark.parametrize(
    ("make_it", "error", "said"),
    [
        (lambda: Host("bank", model="netwrk"), InputError, r"'model' parameter of Host.*\(did you mean 'network'\?\)"),
        (lambda: FedOnceClassifier(model=7).fit(X, Y), InputError, "'model' parameter of FedOnceClassifier"),
        (
            lambda: FedOnceRegressor(model="means").fit(X, X[:, 0]),
            InputError,
            "'means' predicts no numbers; take model='auto', 'blend', 'net",
        ),
        (
            lambda: FedOnceClassifier(model="means", rounds=3).fit(X, Y),
            InputError,
            "'means' cannot be trained in rounds",
        ),
        (lambda: Host("bank", recipe=Recipe(), model="means"), InputError, "'recipe' .* 'means', which has no recipe"),
        (
            lambda: export_host(trained()[0], "x.onnx"),
            InputError,
            "'means' gives no network to export; take model='network' or 'tabm'",
        ),
        (
            lambda: FedOnceClassifier(model="means", epsilon=2.0, bounds=(-9, 9), target_bounds=[0, 1]).fit(X, Y),
            BudgetError,
            "'means' has no private version: with a budget, take 'auto' or 'network'",
        ),
    ],
)
def test_what_a_model_cannot_do_is_said_with_the_remedy(make_it, error, said):
    with pytest.raises(error, match=said):
        make_it()


def test_rounds_are_refused_before_anybody_learns(monkeypatch):
    monkeypatch.setattr(Guest, "learn", lambda *_: pytest.fail("a guest has learnt"))
    with pytest.raises(InputError, match="rounds"):
        FedOnceClassifier(model="means", rounds=3, **COLUMNS).fit(X, Y)


def test_an_infinite_budget_is_for_every_model():
    public = {"bounds": (-9, 9), "target_bounds": [0, 1], "accountant": "rdp"}
    model = FedOnceClassifier(model="means", epsilon=np.inf, learner="pca", **COLUMNS, **public).fit(X, Y)
    assert "trains without noise" in {entry.what for entry in model.ledger_.entries}


def test_images_are_for_models_that_take_them():
    with pytest.raises(InputError, match="'means' takes no images"):
        Host("bank", model="means", shape=(1, 2, 2)).aggregate(X[:, :4], Y, [])


def test_outputs_of_another_shape_are_refused(monkeypatch):
    host, message = trained()
    monkeypatch.setattr(Means, "outputs", lambda self, own, *_: np.zeros(len(own), np.float32))
    with pytest.raises(InputError, match=r"'means' gave outputs of shape \(200,\) for 200 rows; .* must be 2 per row"):
        host.predict(X[:, :4], [message])


def knowing(*names):
    parts = {f"fedonce.hostmodels.{name}" for name in names}
    return {each for each, names in IMPORTS.items() if names & parts and not each.startswith("fedonce.hostmodels")}


def test_nobody_knows_the_network_and_few_its_recipes():
    assert knowing("network", "network_model", "private_network", "overlap", "length") == set()
    hints = {"fedonce.estimators.base"}  # of its parameter `recipe`
    known = {"fedonce", "fedonce.presets", "fedonce.cli.privacy", "fedonce.assess.audit_report"}
    assert knowing("recipe") == known | hints


def test_the_network_states_the_facts_of_the_table():
    for name, built_in in HOST_MODELS.built_in.items():
        assert HOST_MODELS[name].name == name
        assert HOST_MODELS[name].facts == built_in.facts


def test_recipe_and_epochs_are_settings_of_the_network():
    made = make("network", "paper", 7)
    assert (type(made), made.recipe, made.epochs) == (NetworkModel, "paper", 7)
    own = NetworkModel(Recipe(head=(3,)), epochs=2)
    by_object, by_recipe = Host("bank", model=own), Host("bank", recipe=Recipe(head=(3,)), epochs=2)
    for host in (by_object, by_recipe):
        host.aggregate(X[:, :4], Y, [])
    np.testing.assert_array_equal(by_object.outputs(X[:, :4], []), by_recipe.outputs(X[:, :4], []))
    with pytest.raises(InputError, match="has not been trained yet"):
        own.outputs(X[:, :4], X[:, :0], X[:, :0], torch.device("cpu"))
