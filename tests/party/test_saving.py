from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from fedonce import (
    NCF,
    BudgetError,
    FedOnceClassifier,
    FedOnceRegressor,
    Guest,
    Host,
    InputError,
    MessageError,
    Pixels,
    Privacy,
    Recipe,
    Representation,
    Rounds,
    learners,
)
from fedonce.data.preparation import Public
from fedonce.data.schema import Reading
from fedonce.hostmodels import NetworkModel
from fedonce.hostmodels.plan import plan as make_plan
from fedonce.hostmodels.recipe import PAPER, PRIVATE_CLASSES, PRIVATE_NUMBERS
from fedonce.learners import NAT, PCA, Autoencoder, Patches, Random
from fedonce.messages.names import KeptName
from fedonce.party import storage
from fedonce.privacy.budget import Purse
from fedonce.privacy.noise import SecretRandom
from tests.conftest import make_table

N = 120
QUICK = Recipe(encoder_hidden=(8,), encoder_dim=4, head=(8,), epochs=2)


def ratings():
    rng = np.random.default_rng(0)
    users, films = rng.integers(0, 20, N), rng.integers(0, 15, N)
    return pd.DataFrame({"user": [f"u{u}" for u in users], "film": [f"f{f}" for f in films]})


def mixed():
    """Numbers, text, booleans and dates, some of them missing."""
    X, y = make_table(N)
    table = pd.DataFrame(X[:, :2], columns=["income", "age"])
    table.loc[3, "age"] = np.nan
    table["town"] = np.where(X[:, 2] > 0, "Bern", "Köln")
    table.loc[5, "town"] = None
    table["active"] = X[:, 3] > 0
    table["since"] = pd.Timestamp("2020-01-01") + pd.to_timedelta((X[:, 4] * 100).astype(int), unit="D")
    return table, y


IMAGES = np.random.default_rng(0).random((N, 100)).astype(np.float32)
TABLES = {"numbers": make_table(N)[0], "mixed": mixed()[0], "ratings": ratings(), "images": IMAGES}
GUESTS = {
    "auto": ("numbers", {"learner": "auto"}),
    "auto, an autoencoder": ("numbers", {"learner": "auto", "dim": 1, "epochs": 1}),
    "pca": ("mixed", {"learner": PCA()}),
    "autoencoder": ("mixed", {"learner": Autoencoder(hidden=(8, 5), epochs=1)}),
    "nat": ("numbers", {"learner": NAT(hidden=(8,), epochs=1)}),
    "nat of images": ("images", {"learner": NAT(epochs=1), "shape": (1, 10, 10)}),
    "patches": ("images", {"learner": Patches(centroids=10, sample=500), "shape": (1, 10, 10)}),
    "random": ("mixed", {"learner": "random"}),
    "embeddings": ("ratings", {"learner": NAT(network=NCF((4, 3), (8,)), epochs=1)}),
    "random embeddings": ("ratings", {"learner": Random(network=NCF((4, 3), (8,)))}),
    "cnn0": ("images", {"learner": Random(network="cnn0"), "shape": (1, 10, 10)}),
    "a lowered dimension": ("numbers", {"learner": "pca", "dim": 50}),
}


def reloaded(party, folder):
    party.save(folder)
    return type(party).load(folder)


def same_bytes(guest, again, rows):
    assert again.represent(rows).to_bytes() == guest.represent(rows).to_bytes()


@pytest.mark.parametrize("kind", list(GUESTS))
def test_a_guest_represents_as_before(tmp_path, kind):
    name, settings = GUESTS[kind]
    rows = TABLES[name]
    guest = Guest(**{"name": "shop", "dim": 3, "run": "june", "random_state": 7, **settings})
    message = guest.learn(rows)
    again = reloaded(guest, tmp_path)
    same_bytes(guest, again, rows)
    same_bytes(guest, again, rows[:1])
    assert again.represent(rows).maker == message.maker
    kept = ("name", "run", "dim", "bits", "random_state", "learner_name", "model")
    assert [getattr(again, each) for each in kept] == [getattr(guest, each) for each in kept]
    second = reloaded(again, tmp_path / "second")  # what is loaded can be saved
    same_bytes(guest, second, rows)


@pytest.mark.parametrize("bits", [4, 8, 16, 32])
def test_a_guest_s_scale_stays_whatever_the_bits(tmp_path, bits):
    rows = TABLES["numbers"]
    guest = Guest("shop", "pca", dim=3, bits=bits)
    guest.learn(rows[:60])
    same_bytes(guest, reloaded(guest, tmp_path), rows[60:])


def test_a_guest_learns_anew_as_it_would_have(tmp_path):
    rows = TABLES["numbers"]
    guest = Guest("shop", NAT(hidden=(8,), epochs=1), dim=3, random_state=3)
    first = guest.learn(rows).to_bytes()
    again = reloaded(guest, tmp_path)
    assert again.learn(rows).to_bytes() == first


def test_unknown_values_and_missing_ones_are_encoded_as_at_training(tmp_path):
    table = mixed()[0]
    guest = Guest("shop", "pca", dim=4)
    guest.learn(table[:60])
    strange = table[60:].copy()
    strange.loc[70, "town"] = "Oslo"
    strange["since"] = pd.NaT
    again = reloaded(guest, tmp_path)
    same_bytes(guest, again, strange)
    with pytest.raises(InputError, match="'shop'.*'town'"):
        again.represent(table.drop(columns="town"))
    with pytest.raises(InputError, match="'shop'"):
        again.represent(table.assign(age="old"))


def test_noise_is_new_each_time_and_of_the_same_kind(tmp_path):
    rows = TABLES["numbers"]
    guest = Guest("shop", "pca", dim=3, noise=0.1)
    message = guest.learn(rows)
    again = reloaded(guest, tmp_path)
    sent = again.represent(rows)
    assert (sent.noise, sent.values.shape, sent.maker) == (0.1, (N, 3), message.maker)
    assert not np.array_equal(sent.values, guest.represent(rows).values)
    np.testing.assert_array_equal(again.noise.clip(again.values(rows)), guest.noise.clip(guest.values(rows)))
    assert 0.05 < np.std(sent.values - message.values) < 0.3


def purses(host="host", recipe=PRIVATE_CLASSES, learner=None, epsilon=8.0, n=N):
    plan = make_plan(
        host, NetworkModel(recipe), "classification", n, {"shop": learner or PCA()}, {"shop": n}, epsilon, 1e-5, "rdp"
    )
    ledger = plan.ledger()
    return plan, {name: Purse(name, plan.of(name), ledger, SecretRandom(0)) for name in (host, "shop")}


@pytest.mark.parametrize("learner", [PCA(), Autoencoder(epochs=1, hidden=(8,)), Random(), learners.Auto()])
def test_a_private_guest_represents_and_learns_no_more(tmp_path, learner):
    _, purse = purses(learner=learner)
    rows = np.clip(TABLES["numbers"] / 4, -1, 1)
    guest = Guest("shop", learner, 2, purse=purse["shop"], public=Public((-1, 1)))
    message = guest.learn(rows)
    again = reloaded(guest, tmp_path)
    same_bytes(guest, again, rows)
    assert again.represent(rows).spent == message.spent
    assert again.purse.spent == guest.purse.spent
    with pytest.raises(BudgetError, match="'shop' wants to spend.*nothing more"):
        again.learn(rows)


def test_an_infinite_budget_is_remembered(tmp_path):
    learner = Patches(centroids=10, sample=500)
    _, purse = purses(learner=learner, epsilon=np.inf)
    guest = Guest("shop", learner, 2, bits=32, shape=(1, 10, 10), purse=purse["shop"], public=Public((0, 1)))
    guest.learn(IMAGES)
    again = reloaded(guest, tmp_path)
    same_bytes(guest, again, IMAGES)
    assert again.bound == guest.bound == np.inf  # its values are not clipped


@pytest.mark.parametrize("learner", ["pca", "nat", "random", "auto"])
@pytest.mark.parametrize("start", ["one-shot", "random"])
def test_guests_and_host_after_rounds(tmp_path, learner, start):
    X, y = make_table(N)
    given = {} if start == "one-shot" else {"start": "random"}
    model = FedOnceClassifier(
        3, learner=learner, dim=2, epochs=1, recipe=QUICK, rounds=Rounds(rounds=3, **given), random_state=0
    ).fit(X, y)
    messages = []
    for name, guest in model._guests.items():
        rows = model._columns(model._table(X, reset=False), name)
        again = reloaded(guest, tmp_path / name)
        same_bytes(guest, again, rows)
        messages.append(again.represent(rows))
    own = model._columns(model._table(X, reset=False), model.host_)
    again = reloaded(model._host, tmp_path / "host")
    np.testing.assert_array_equal(again.outputs(own, messages), model.predict_proba(X))


def test_guests_of_images_after_rounds(tmp_path):
    parties = {"bank": Pixels(tuple(range(50)), (5, 10)), "shop": Pixels(tuple(range(50, 100)), (5, 10))}
    y = (IMAGES[:, 60] > 0.5).astype(int)
    model = FedOnceClassifier(parties, learner="pca", dim=2, recipe=QUICK, rounds=2, random_state=0).fit(IMAGES, y)
    guest = model._guests["shop"]
    same_bytes(guest, reloaded(guest, tmp_path), IMAGES[:, 50:])


LABELS = {
    "integers": lambda y: y + 3,
    "small integers": lambda y: y.astype(np.int8),
    "unsigned": lambda y: y.astype(np.uint8),
    "text": lambda y: np.where(y, "yes", "no"),
    "objects": lambda y: np.where(y, "ja", "nein").astype(object),
    "digits as text": lambda y: np.where(y, "1", "0"),
    "booleans": lambda y: y.astype(bool),
    "floats": lambda y: np.where(y, 0.5, -1.25),
}


def test_models_with_names_that_nobody_could_choose_today_are_read_and_predict(tmp_path):
    X, y = TABLES["numbers"], np.arange(N) % 2
    guest = Guest(KeptName("m\u00fcller"), "pca", 2)
    host = Host(KeptName("z\u00fcrich bank"), epochs=1, known=["m\u00fcller"])
    message = guest.learn(X)
    host.aggregate(X, y, [message])
    host.save(tmp_path / "host", {message.party: message.to_bytes()})
    again, sent = Host.load(tmp_path / "host"), reloaded(guest, tmp_path / "guest").represent(X)
    assert (again.name, sent.party, list(again.dims)) == ("z\u00fcrich bank", "m\u00fcller", ["m\u00fcller"])
    np.testing.assert_array_equal(
        again.outputs(X, [Representation.from_bytes(sent.to_bytes())]), host.outputs(X, [message])
    )
    with pytest.raises(InputError, match="'name' parameter of Guest must be ASCII"):
        Guest("m\u00fcller")


def agrees(host, again, own, messages):
    np.testing.assert_array_equal(again.outputs(own, messages), host.outputs(own, messages))
    np.testing.assert_array_equal(again.outputs(own, []), host.outputs(own, []))
    first, second = host.predict(own, messages), again.predict(own, messages)
    np.testing.assert_array_equal(first, second)
    assert first.dtype.kind == second.dtype.kind
    assert again.makers == host.makers
    assert again.dims == host.dims


@pytest.fixture(scope="module")
def shop():
    X, _ = make_table(N)
    guest = Guest("shop", "pca", dim=3)
    return guest, guest.learn(X[:, 4:])


@pytest.mark.parametrize("labels", list(LABELS))
def test_a_host_keeps_its_classes_with_their_type(tmp_path, shop, labels):
    X, y = make_table(N)
    host = Host("bank", recipe=QUICK)
    host.aggregate(X[:, :4], LABELS[labels](y), [shop[1]])
    again = reloaded(host, tmp_path)
    agrees(host, again, X[:, :4], [shop[1]])
    assert [type(value) for value in again.classes.tolist()] == [type(value) for value in host.classes.tolist()]


@pytest.mark.parametrize("labels", [np.array(["2020-01-01", "2021-01-01"], "datetime64[ns]"), np.array([b"a", b"b"])])
def test_classes_that_a_file_cannot_hold(tmp_path, labels):
    X, y = make_table(N)
    host = Host("bank", recipe=QUICK)
    host.aggregate(X[:, :4], labels[y], [])
    with pytest.raises(InputError, match="The host cannot be saved: its labels are .*; use text or numbers"):
        host.save(tmp_path / "bank")
    assert not (tmp_path / "bank").exists()


@pytest.mark.parametrize(
    "recipe",
    [QUICK, replace(QUICK, members=2), replace(PAPER, epochs=1), replace(QUICK, dropout=0.5, activation="tanh")],
    ids=["quick", "members", "paper", "dropout"],
)
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_host_predicts_as_before(tmp_path, shop, recipe, task):
    X, y = make_table(N)
    host = Host("bank", task, recipe, run="local", random_state=4, forms=("trim",))
    host.aggregate(X[:, :4], y if task == "classification" else 100 + 10 * X[:, 0], [shop[1]])
    again = reloaded(host, tmp_path)
    agrees(host, again, X[:, :4], [shop[1]])
    assert (again.name, again.task, again.run, again.forms, again.overlap) == (
        "bank",
        task,
        "local",
        ("trim",),
        {"shop": 1.0},
    )
    again.aggregate(X[:, :4], y if task == "classification" else 100 + 10 * X[:, 0], [shop[1]])
    agrees(host, again, X[:, :4], [shop[1]])  # the same training again


@pytest.mark.parametrize("members", [1, 2])
def test_a_host_with_a_guest_that_lacks_rows(tmp_path, members):
    X, y = make_table(N)
    has = np.random.default_rng(0).random(N) < 0.5
    message = Guest("shop", "pca", dim=3).learn(X[has, 4:], has)
    host = Host("bank", recipe=replace(QUICK, members=members))
    host.aggregate(X[:, :4], y, [message])
    again = reloaded(host, tmp_path)
    agrees(host, again, X[:, :4], [message])
    assert again.model.module().trust.tolist() == host.model.module().trust.tolist()
    assert again.model.module().partial.tolist() == [1.0]


def test_a_host_of_text_embeddings_and_images(tmp_path):
    table, y = mixed()
    shapes = {
        "mixed": (table, QUICK, None),
        "ratings": (ratings(), replace(QUICK, network=NCF((4, 3), (8,))), None),
        "images": (IMAGES, "default", (1, 10, 10)),
    }
    for name, (rows, recipe, shape) in shapes.items():
        host = Host("bank", recipe=recipe, shape=shape, epochs=1)
        host.aggregate(rows, y, [])
        agrees(host, reloaded(host, tmp_path / name), rows[:7], [])


def test_a_host_without_guests_and_messages_kept(tmp_path, shop):
    X, y = make_table(N)
    host = Host("bank", recipe=QUICK)
    host.aggregate(X[:, :4], y, [])
    host.save(tmp_path, {"shop": shop[1].to_bytes()})
    assert storage.load(tmp_path, "host").messages == {"shop": shop[1].to_bytes()}
    with pytest.raises(MessageError, match="trained without this party"):
        Host.load(tmp_path).outputs(X[:, :4], [shop[1]])


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_private_host_of_tables(tmp_path, task):
    X, y = make_table(300)
    X = np.clip(X / 4, -1, 1)
    recipe = PRIVATE_CLASSES if task == "classification" else PRIVATE_NUMBERS
    plan, purse = purses(recipe=recipe, n=300)
    public = Public((-1, 1))
    guest = Guest("shop", "pca", 2, purse=purse["shop"], public=public)
    message = guest.learn(X[:, 4:])
    labels = ["no", "perhaps", "yes"] if task == "classification" else (0.0, 20.0)
    host = Host("host", task, purse=purse["host"], public=public, plan=plan, labels=labels, epochs=1)
    label = np.where(y, "yes", "no") if task == "classification" else 10 + 5 * X[:, 1]
    host.aggregate(X[:, :4], label, [message])
    again = reloaded(host, tmp_path)
    agrees(host, again, X[:, :4], [message])
    assert again.ledger.epsilon() == host.ledger.epsilon() <= 8.0
    assert set(again.ledger.parties) == {"host", "shop"}
    with pytest.raises(BudgetError, match="'host' wants to spend"):
        again.aggregate(X[:, :4], label, [message])


@pytest.mark.parametrize("shape", [(8, 8), (3, 8)])
def test_a_private_host_of_images(tmp_path, shape):
    """Those of eight pixels per side go through fixed features first, narrower ones do not."""
    X, y = load_digits(return_X_y=True)
    X, y, size = np.column_stack([X, X[:, ::7]])[:300], y[:300], shape[0] * shape[1]
    parties = {"bank": Pixels(tuple(range(size)), shape), "shop": list(range(64, 70))}
    model = FedOnceClassifier(
        parties,
        dim=4,
        epsilon=20.0,
        bounds=(0, 16),
        target_bounds=range(10),
        accountant="rdp",
        privacy=Privacy(insecure_test_seed=0),
        host_epochs=1,
        random_state=0,
    ).fit(X, y)
    own = model._columns(model._table(X, reset=False), model.host_)
    messages = list(model.representations_.values())
    agrees(model._host, reloaded(model._host, tmp_path), own, messages)


def test_a_private_host_with_a_recipe_that_trains_its_encoder(tmp_path):
    X, y = make_table(200)
    model = FedOnceRegressor(
        2,
        dim=2,
        recipe=replace(QUICK, standardise=False, guest_dropout=0.0),
        epsilon=8.0,
        bounds=(-9, 9),
        target_bounds=(0, 1),
        accountant="rdp",
        privacy=Privacy(insecure_test_seed=0),
        random_state=0,
    ).fit(X, y)
    own = model._columns(model._table(X, reset=False), model.host_)
    agrees(model._host, reloaded(model._host, tmp_path), own, list(model.representations_.values()))


def test_nothing_to_save(tmp_path):
    with pytest.raises(InputError, match="'shop' has not learnt yet, so there is nothing to save; call learn first"):
        Guest("shop").save(tmp_path / "shop")
    with pytest.raises(
        InputError, match="'bank' has not been trained yet, so there is nothing to save; call aggregate"
    ):
        Host("bank").save(tmp_path / "bank")
    assert not list(tmp_path.iterdir())


class Doubled(PCA):
    name: ClassVar[str] = "doubled"

    def transform(self, rows, device):
        return 2 * super().transform(rows, device)


def test_one_s_own_learner_must_be_known(tmp_path, monkeypatch):
    rows = TABLES["numbers"]
    guest = Guest("shop", Doubled(), 2)
    guest.learn(rows)
    with pytest.raises(InputError, match="'doubled' of party 'shop' cannot be saved: Doubled is not known.*register"):
        guest.save(tmp_path)
    monkeypatch.setitem(learners.LEARNERS, "doubled", Doubled)
    same_bytes(guest, reloaded(guest, tmp_path), rows)
    monkeypatch.delitem(learners.LEARNERS, "doubled")
    with pytest.raises(InputError, match="learnt by 'doubled', a learner that is not known here; call .*register"):
        Guest.load(tmp_path)


def test_one_s_own_learner_under_another_s_name_is_not_mistaken_for_it(tmp_path):
    class Odd(PCA):
        def transform(self, rows, device):
            return 3 * super().transform(rows, device)

    guest = Guest("shop", Odd(), 2)
    guest.learn(TABLES["numbers"])
    with pytest.raises(InputError, match="Odd is not known by that name"):
        guest.save(tmp_path)


def test_one_s_own_networks_cannot_be_saved(tmp_path):
    X, y = make_table(N)
    guest = Guest("shop", Random(network=nn.Linear(8, 3)), 3)
    guest.learn(X)
    with pytest.raises(
        InputError, match="'random' of party 'shop' cannot be saved: its 'network' is a Linear of your own"
    ):
        guest.save(tmp_path / "shop")
    host = Host("bank", recipe=replace(QUICK, network=nn.Linear(8, 4)))
    host.aggregate(X, y, [])
    with pytest.raises(InputError, match="The recipe of the host 'bank' cannot be saved: its 'network' is a Linear"):
        host.save(tmp_path / "bank")
    assert not list(tmp_path.iterdir())


def test_how_tables_are_read_is_remembered(tmp_path, shop):
    guest, _ = shop
    assert reloaded(guest, tmp_path).reading is None
    reading = Reading("id", ("a", "b"), {"a": "number"}, None)
    reader = Guest.from_settings(replace(guest.settings, reading=reading), guest.state)
    assert reloaded(reader, tmp_path).reading == reading


def test_loading_draws_nothing_from_torch(tmp_path, shop):
    X, y = make_table(N)
    model = FedOnceClassifier(2, learner="pca", dim=2, recipe=QUICK, rounds=1, random_state=0).fit(X, y)
    model._guests["party2"].save(tmp_path / "guest")
    model._host.save(tmp_path / "host")
    before = torch.random.get_rng_state()
    Guest.load(tmp_path / "guest")
    Host.load(tmp_path / "host")
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("settings", lambda content: content.pop("name")),
        ("settings", lambda content: content.update(learner=3)),
        ("settings", lambda content: content["learner"]["settings"].update(unknown=3)),
        ("settings", lambda content: content.update(tuned={"network": True, "alone": False})),
        ("encoding", lambda content: content.clear()),
    ],
)
def test_a_model_that_says_nonsense_is_refused(tmp_path, shop, part, change):
    """The files are whole and agree with the manifest, and still do not make a guest."""
    shop[0].save(tmp_path / "good")
    stored = storage.load(tmp_path / "good", "guest")
    change(getattr(stored, part))
    storage.save(tmp_path / "bad", stored)
    with pytest.raises(InputError):
        Guest.load(tmp_path / "bad")


ELSEWHERE = """
import sys
import numpy as np
from fedonce import Guest, Host
assert "sklearn.datasets" not in sys.modules
rows = np.load("rows.npy")
guest, host = Guest.load("renamed/shop"), Host.load("renamed/bank")
message = guest.represent(rows[:, 4:])
message.to_file("message.fedonce")
np.save("outputs.npy", host.outputs(rows[:, :4], [message]))
"""


def test_models_work_in_another_process_and_place_without_the_training_data(tmp_path):
    X, y = make_table(N)
    guest, host = Guest("shop", NAT(epochs=1), 3), Host("bank", recipe=replace(QUICK, members=2))
    host.aggregate(X[:, :4], np.where(y, "yes", "no"), [guest.learn(X[:, 4:])])
    guest.save(tmp_path / "models" / "shop")
    host.save(tmp_path / "models" / "bank")
    place = tmp_path / "another machine"
    place.mkdir()
    shutil.move(tmp_path / "models", place / "renamed")
    new = make_table(9, seed=5)[0]
    np.save(place / "rows.npy", new)
    subprocess.run([sys.executable, "-c", ELSEWHERE], cwd=place, check=True)
    message = guest.represent(new[:, 4:])
    assert (place / "message.fedonce").read_bytes() == message.to_bytes()
    np.testing.assert_array_equal(np.load(place / "outputs.npy"), host.outputs(new[:, :4], [message]))


def test_a_guest_s_folder_holds_no_row(tmp_path):
    """Categories and ranges are inside, as they must be; rows and ids are not."""
    table = pd.DataFrame({"age": np.arange(1000.0, 1000.0 + N) * 1.001})
    guest = Guest("shop", "pca", 1)
    guest.learn(table)
    guest.save(tmp_path)
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert total < 5000
    assert json.loads((tmp_path / "manifest.json").read_bytes())["kind"] == "guest"
