from __future__ import annotations

import copy
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from fedonce import (
    BudgetError,
    FedOnceClassifier,
    FedOnceRegressor,
    FedOnceWarning,
    Guest,
    Hinting,
    Host,
    InputError,
    MessageError,
    Recipe,
    Rounds,
    protocol,
)
from fedonce.data.table import Table
from fedonce.engine.local import LocalEngine
from fedonce.hostmodels.network_model import NetworkModel
from fedonce.learners import NAT, Random
from fedonce.messages.codecs import find
from fedonce.messages.representation import Representation
from fedonce.party.hinting import publish
from fedonce.rounds.guest import GuestSide
from tests.conftest import make_table

COLUMNS = {"shop": slice(3, 6), "telco": slice(6, 8)}
RECIPE = Recipe(encoder_hidden=(8,), encoder_dim=4, head=(8,), epochs=5, batch=64, rate=1e-2, guest_dropout=0.0)


def engine(X, learner="pca", bits=32, present=None, dim=2):
    guests = {name: Guest(name, learner, dim, bits, epochs=2 if learner == "nat" else None) for name in COLUMNS}
    return LocalEngine(guests, {name: Table.of(X[:, columns]) for name, columns in COLUMNS.items()}, present or {})


def fit(rounds, learner="pca", bits=32, present=None, recipe=RECIPE, n=300):
    X, y = make_table(n)
    host, parties = Host("bank", recipe=recipe), engine(X, learner, bits, present)
    return host, parties, protocol.fit(host, X[:, :3], y, parties, rounds), X, y


def test_a_round_is_one_batch_forward_and_back_and_all_of_it_is_counted():
    traffic = (fitted := fit(Rounds(rounds=7, batch=50))[2]).traffic
    # The one message, then an opening, seven rounds of two messages and a closing, from each of two guests.
    assert traffic.rounds == 7
    assert traffic.messages == 2 * (1 + 1 + 7 * 2 + 1)
    assert traffic.payload_bytes == 2 * 4 * 2 * (300 + 7 * 50 * 2)
    assert traffic.bytes > traffic.payload_bytes
    assert 2 * 4 * 2 * 7 * 50 < traffic.bytes_to_guests < traffic.bytes / 2
    assert sum(traffic.per_guest.values()) == traffic.bytes
    assert len(fitted.history) == 5 + 2  # the host's own epochs, and those that the rounds began


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [(Rounds(epochs=2, batch=100), 6), (Rounds(epochs=0.5, batch=100), 2), (Rounds(rounds=4, epochs=9, batch=100), 4)],
)
def test_rounds_end_by_rounds_or_epochs(rounds, expected):
    assert fit(rounds)[2].traffic.rounds == expected


@pytest.mark.parametrize("start", ["one-shot", "random"])
def test_columns_of_codes_are_tuned_by_embeddings_and_hashed_from_a_random_start(start, tmp_path, rng):
    X, y = make_table(600)
    own, names = Table.of(X[:, :3]), rng.integers(0, 40, (600, 2))
    table = Table.of(
        pd.DataFrame({"user": [f"u{j}" for j in names[:, 0]], "film": [f"f{j}" for j in names[:, 1]], "n": X[:, 3]})
    )
    host, parties = (
        Host("bank", recipe=RECIPE),
        LocalEngine({"shop": Guest("shop", "auto", 4, 32)}, {"shop": table}, {}),
    )
    protocol.fit(host, own, y, parties, Rounds(epochs=2, batch=50, start=start))
    guest = parties.parties["shop"]
    assert guest.preparation.coded == ((0, 1) if start == "one-shot" else ())
    embedded = [
        layer.num_embeddings for layer in guest.fine_tuning.network.modules() if isinstance(layer, nn.Embedding)
    ]
    assert embedded == ([41, 41] if start == "one-shot" else [])
    guest.save(tmp_path)
    np.testing.assert_array_equal(Guest.load(tmp_path).represent(table).values, guest.represent(table).values)


def test_rounds_end_by_bytes():
    for limit, batch in ((60_000, 50), (40_000, None), (45_000, 37), (30_000, 299)):
        traffic = fit(Rounds(bytes=limit, batch=batch))[2].traffic
        assert limit - 16_000 < traffic.bytes <= limit
        assert traffic.rounds > 0
    with pytest.raises(InputError, match="do not allow one round"):
        fit(Rounds(bytes=5000))


def test_the_rate_is_the_smaller_the_shorter_rounds_are_whatever_ends_them():
    rates = [Rounds(epochs=epochs).training(RECIPE, 640).rate for epochs in (1, 4, 99)]
    np.testing.assert_allclose(rates, [0.025 * RECIPE.rate, 0.1 * RECIPE.rate, 0.25 * RECIPE.rate])
    per_epoch = Rounds(epochs=1).training(RECIPE, 640).steps
    assert Rounds(bytes=10**9).training(RECIPE, 640, affordable=per_epoch).rate == pytest.approx(rates[0])
    assert Rounds(epochs=1, start="random").training(RECIPE, 640).rate == RECIPE.rate


@pytest.mark.filterwarnings("ignore:.*one party only")
def test_without_guests_there_are_no_rounds():
    X, y = make_table()
    alone = FedOnceClassifier({"bank": [0, 1]}, host_epochs=1, rounds=Rounds(bytes=1000)).fit(X, y)
    absent = FedOnceClassifier({"bank": [0], "shop": [1]}, host_epochs=1, rounds=5).fit(X, y, present={"shop": False})
    assert alone.traffic_.rounds == absent.traffic_.rounds == 0


def test_the_first_values_of_rounds_are_those_of_the_one_message():
    X, y = make_table()
    for learner in ("pca", "nat", "random"):
        parties = engine(X, learner)
        protocol.fit(Host("bank", recipe=RECIPE), X[:, :3], y, parties)
        guest = parties.parties["shop"]
        sent = guest.represent(X[:, COLUMNS["shop"]]).values
        side = GuestSide(guest, parties.tables["shop"], None, Rounds(rounds=1), 300, "bank")
        side.begin(Rounds(rounds=1, batch=300).training(RECIPE, 300), order=5)
        first = Representation.from_bytes(side.forward(), "shop").values
        np.testing.assert_allclose(first, sent[np.random.default_rng(5).permutation(300)], atol=1e-5)


def test_rounds_are_split_learning(float64):
    """Two guests and a host that exchange messages end where one network, trained in one place, ends."""
    X, y = make_table(128)
    rounds, recipe = Rounds(rounds=6, batch=32, start="random"), replace(RECIPE, schedule="constant")
    host = Host("bank", recipe=recipe)
    guests = {name: Guest(name, Random(hidden=(5,)), 2, 32) for name in COLUMNS}
    parties = LocalEngine(guests, {name: Table.of(X[:, columns]) for name, columns in COLUMNS.items()}, {})
    batches, start = [], {}

    class Watched(LocalEngine):
        def begin_rounds(self, training, order):
            super().begin_rounds(training, order)
            start.update({name: (copy.deepcopy(side.network), side.own) for name, side in self.sides.items()})
            start["bank"] = copy.deepcopy(host.model.module())

        def forward(self):
            messages = super().forward()
            batches.append(self.sides["shop"].batch)
            return messages

    protocol.fit(host, X[:, :3], y, Watched(parties.parties, parties.tables, {}), rounds)
    model = start.pop("bank")
    own = torch.from_numpy(host.preparation.transform(Table.of(X[:, :3]))).to(torch.float64)
    parameters = [*model.parameters(), *(p for network, _ in start.values() for p in network.parameters())]
    training = rounds.training(recipe, 128)
    optimizer = torch.optim.AdamW(parameters, lr=training.rate, weight_decay=training.weight_decay)
    for batch in batches:
        values = torch.cat([network(rows[batch]) for network, rows in start.values()], dim=1)
        loss = torch.nn.functional.cross_entropy(
            model(own[batch], values, torch.ones(len(batch), 2)), torch.from_numpy(y)[batch]
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for found, expected in zip(host.model.module().parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(found.detach(), expected.detach(), atol=1e-6, rtol=1e-5)
    for name, (network, _) in start.items():
        for found, expected in zip(guests[name].learner.fitted().parameters(), network.parameters(), strict=True):
            torch.testing.assert_close(found.detach(), expected.detach(), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("learner", ["pca", "nat"])
@pytest.mark.parametrize("bits", [32, 8])
def test_rounds_learn_what_one_message_of_one_value_cannot_say(learner, bits):
    """The class needs products of the guest's columns; one value that was made without labels does not tell them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 6))
    y = (0.3 * X[:, 0] + X[:, 2] * X[:, 3] + X[:, 4] * X[:, 5] > 0).astype(int)
    parties, train, test = {"bank": [0, 1], "shop": [2, 3, 4, 5]}, slice(0, 1200), slice(1200, None)
    settings = {"learner": learner, "dim": 1, "bits": bits, "random_state": 0, "host_epochs": 10}
    once = FedOnceClassifier(parties, **settings).fit(X[train], y[train])
    more = FedOnceClassifier(parties, rounds=Rounds(epochs=40, rate=5e-3), **settings).fit(X[train], y[train])
    assert once.score(X[test], y[test]) < 0.7
    assert more.score(X[test], y[test]) > 0.8
    assert more.traffic_.rounds > 0


def test_a_guest_may_lack_rows_and_the_same_seed_gives_the_same_model():
    X, y = make_table()
    mask = np.arange(300) % 4 > 0
    runs = [
        FedOnceRegressor(
            {"bank": [0, 1, 2], "shop": [3, 4, 5], "telco": [6, 7]}, dim=2, host_epochs=3, rounds=9, random_state=1
        ).fit(X, y.astype(float), present={"shop": mask, "telco": False})
        for _ in range(2)
    ]
    assert runs[0].absent_ == ("telco",)
    assert runs[0].traffic_.rounds == 9
    first, second = (run.predict(X, present={"shop": mask}) for run in runs)
    np.testing.assert_array_equal(first, second)
    with pytest.raises(InputError, match="need every row of party 'shop'"):
        fit(Rounds(rounds=1, start="random"), present={"shop": mask})


def test_a_start_from_random_sends_no_first_message():
    _, _, fitted, _, _ = fit(Rounds(rounds=3, batch=100, start="random"), learner="nat")
    assert fitted.representations == {}
    assert fitted.traffic.messages == 2 * (1 + 3 * 2 + 1)
    assert fitted.overlap == {"shop": 1.0, "telco": 1.0}


def test_after_rounds_old_messages_are_refused():
    host, parties, _, X, _ = fit(Rounds(rounds=3), bits=8)
    old = engine(X, bits=8)
    old.learn()
    with pytest.raises(MessageError, match="not those of the training"):
        host.outputs(X[:, :3], [message.representation for message in old.represent().values()])
    assert protocol.predict(host, X[:, :3], parties).outputs.shape == (300, 2)


def test_a_gradient_for_other_rows_is_refused():
    X, y = make_table()
    parties = engine(X)
    protocol.fit(Host("bank", recipe=RECIPE), X[:, :3], y, parties)
    guest = parties.parties["shop"]
    side = GuestSide(guest, parties.tables["shop"], None, Rounds(rounds=1), 300, "bank")
    side.begin(Rounds(rounds=1, batch=3).training(RECIPE, 300), order=0)

    def gradient(**changes):
        values = np.zeros((3, 2), np.float32)
        header = {"party": "bank", "rows": "x", "run": "local"} | changes
        return Representation.encode(values, find(32).fit(values), **header).to_bytes()

    with pytest.raises(MessageError, match="without having sent"):
        side.backward(gradient())
    right = Representation.from_bytes(side.forward()).rows
    for wrong in ({}, {"rows": right, "run": "another"}):
        with pytest.raises(MessageError, match="another run, or about other rows or values"):
            side.backward(gradient(**wrong))
    side.backward(gradient(rows=right))


def rewritten(message, values, bits=32):
    """Return a message with other values, or written in another way."""
    codec = find(bits).spanning(values)
    return replace(message, values=values, codec=codec, written=codec.encode(values))


class Forging(LocalEngine):
    """An engine with one guest that forges the messages of a stage."""

    stage, forge = "", staticmethod(lambda message: message)

    def _forged(self, stage, messages):
        if stage != self.stage:
            return messages
        data = self.forge(messages["shop"].representation).to_bytes()
        return messages | self._received({"shop": data})

    def open_rounds(self, *arguments):
        return self._forged("open", super().open_rounds(*arguments))

    def forward(self):
        return self._forged("forward", super().forward())

    def close_rounds(self):
        return self._forged("close", super().close_rounds())


@pytest.mark.parametrize("start", ["one-shot", "random"])
@pytest.mark.parametrize(
    ("stage", "forge", "reason"),
    [
        (
            "open",
            lambda message: replace(message, run="elsewhere"),
            "opens rounds is refused: it must be of run 'local'",
        ),
        ("open", lambda message: rewritten(message, np.zeros((0, 5000), np.float32)), "at most .* values per row"),
        ("forward", lambda message: rewritten(message, message.values, 16), "16 bits per value, not the 32"),
        ("forward", lambda message: replace(message, rows="0" * 64), "'shop' is refused"),
        ("forward", lambda message: rewritten(message, message.values[:, :1]), "'shop' is refused"),
        ("close", lambda message: replace(message, run="elsewhere"), "closes rounds is refused"),
    ],
)
def test_forged_messages_of_rounds_are_refused_with_the_party_s_name(start, stage, forge, reason):
    X, y = make_table()
    plain = engine(X, "random")
    forging = Forging(plain.parties, plain.tables, {})
    forging.stage, forging.forge = stage, forge
    with pytest.raises(MessageError, match=reason):
        protocol.fit(Host("bank", recipe=RECIPE), X[:, :3], y, forging, Rounds(rounds=2, start=start))


def test_a_guest_that_blurs_takes_part_in_no_rounds():
    X, y = make_table()
    guests = {"shop": Guest("shop", "pca", 2, noise=1.0)}
    with pytest.raises(InputError, match="'shop' blurs what it sends"):
        protocol.fit(
            Host("bank", recipe=RECIPE),
            X[:, :3],
            y,
            LocalEngine(guests, {"shop": Table.of(X[:, 3:])}, {}),
            Rounds(rounds=1),
        )


def test_a_guest_that_has_learnt_from_hints_takes_part_in_no_rounds():
    X, y = make_table()
    parties = engine(X, "hinted")
    parties.hints = publish(y, Hinting(4.0), party="bank")
    with pytest.raises(InputError, match="has learnt from hints at labels, and takes part in no rounds"):
        protocol.fit(Host("bank", recipe=RECIPE), X[:, :3], y, parties, Rounds(rounds=3))


def test_a_learner_for_hints_that_has_none_starts_at_random_as_that_of_the_rest():
    X, y = make_table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedOnceWarning)
        model = FedOnceClassifier(parties=2, learner="hinted", rounds=Rounds(rounds=3, start="random"), host_epochs=1)
        assert model.fit(X, y).predict(X).shape == y.shape


def test_a_guest_that_leaves_before_rounds_is_left_out_of_them():
    X, y = make_table()

    class Leaving(LocalEngine):
        def open_rounds(self, rounds, n_rows, host):
            opened = super().open_rounds(rounds, n_rows, host)
            self.sides.pop("telco")
            opened.pop("telco")
            return opened

    plain = engine(X)
    fitted = protocol.fit(
        Host("bank", recipe=RECIPE), X[:, :3], y, Leaving(plain.parties, plain.tables, {}), Rounds(rounds=3)
    )
    assert fitted.traffic.rounds == 3


def test_rounds_go_on_from_rounds_and_learning_anew_forgets_them():
    X, y = make_table()
    host, parties = Host("bank", recipe=RECIPE), engine(X)
    protocol.fit(host, X[:, :3], y, parties, Rounds(epochs=3, rate=1e-2))
    guest = parties.parties["shop"]
    tuned = guest.represent(X[:, COLUMNS["shop"]])
    assert tuned.learner == "pca, tuned"
    side = GuestSide(guest, parties.tables["shop"], None, Rounds(rounds=1), 300, "bank")
    side.begin(Rounds(rounds=1, batch=300).training(RECIPE, 300), order=0)
    again = Representation.from_bytes(side.forward(), "shop").values
    np.testing.assert_allclose(again, tuned.values[np.random.default_rng(0).permutation(300)], atol=1e-4)
    before = Guest("shop", "pca", 2, 32).learn(X[:, COLUMNS["shop"]])
    assert guest.learn(X[:, COLUMNS["shop"]]).to_bytes() == before.to_bytes()


def test_after_a_random_start_a_guest_can_still_learn():
    _, parties, _, X, _ = fit(Rounds(rounds=2, start="random"))
    guest = parties.parties["shop"]
    assert guest.represent(X[:, COLUMNS["shop"]]).learner == "rounds"
    assert guest.learn(X[:, COLUMNS["shop"]]).learner == "pca"


@pytest.mark.parametrize("start", ["one-shot", "random"])
def test_several_models_of_the_host_take_part(start):
    host, parties, _, X, y = fit(Rounds(epochs=20, rate=1e-2, start=start), recipe=replace(RECIPE, members=2), bits=4)
    assert len(host.model.module().members) == 2
    outputs = protocol.predict(host, X[:, :3], parties).outputs
    assert np.mean(outputs.argmax(axis=1) == y) > 0.8


def test_an_estimator_survives_pickling_after_rounds():
    X, y = make_table()
    model = FedOnceClassifier(3, dim=2, host_epochs=2, rounds=5, random_state=0).fit(X, y)
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("bits", [8, 4])
def test_a_gradient_of_zero_stays_zero(bits):
    gradient = np.array([[0.0, 0.0], [0.3, 0.0], [-0.7, 0.0]], np.float32)
    codec = find(bits).around_zero(gradient)
    decoded = codec.decode(codec.encode(gradient), *gradient.shape, MessageError)
    np.testing.assert_allclose(decoded[0], 0, atol=1e-7)
    np.testing.assert_allclose(decoded, gradient, atol=0.7 / (2 ** (bits - 1) - 1))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "'rounds' parameter of Rounds must be given"),
        ({"rounds": 0}, "positive integer"),
        ({"rounds": 1.5}, "positive integer"),
        ({"epochs": -1}, "positive number"),
        ({"epochs": True}, "positive number"),
        ({"bytes": 0}, "positive integer"),
        ({"rounds": 1, "bits": 7}, "one of 32, 16, 8, 4"),
        ({"rounds": 1, "bits": 8.0}, "one of 32, 16, 8, 4"),
        ({"rounds": 1, "start": "cold"}, "'one-shot' or 'random'"),
        ({"rounds": 1, "shift": 0}, "'shift' parameter of Rounds must be an integer from 1 to 8"),
        ({"rounds": 1, "shift": 1.0}, "from 1 to 8"),
        ({"rounds": 1, "shift": True}, "from 1 to 8"),
        ({"rounds": 1, "shift": 10**9}, "from 1 to 8"),
    ],
)
def test_wrong_settings_are_refused(settings, reason):
    with pytest.raises(InputError, match=reason):
        Rounds(**settings)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"rounds": -1}, "'rounds' parameter of FedOnceClassifier must be an integer of at least 0"),
        ({"rounds": "many"}, "'rounds' parameter"),
        ({"representation_noise": -0.1}, "'representation_noise' parameter"),
        ({"representation_noise": float("nan")}, "'representation_noise' parameter"),
        ({"rounds": 3, "representation_noise": 0.1}, "noise averages out"),
    ],
)
def test_the_estimator_refuses_wrong_settings(settings, reason):
    X, y = make_table()
    with pytest.raises(InputError, match=reason):
        FedOnceClassifier(**settings).fit(X, y)


def test_images_and_a_learner_that_is_a_network_of_convolutions():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 1, 8, 16))
    y = (X[:, 0, :, :8].mean(axis=(1, 2)) > X[:, 0, :, 8:].mean(axis=(1, 2))).astype(int)
    from fedonce import tiles

    model = FedOnceClassifier(
        tiles((8, 16), (1, 2)), learner=NAT(epochs=1), dim=3, host_epochs=1, rounds=4, random_state=0
    )
    model.fit(X.reshape(120, -1), y)
    assert model.traffic_.rounds == 4
    rounds = 4 * 2 * 16 * 3  # batches of 16: few rows; a byte per value, the one message is coded
    assert rounds < model.traffic_.payload_bytes <= 120 * 3 + 40 + rounds
    assert model.predict(X.reshape(120, -1)).shape == (120,)


def _values_of_one_image(shift):
    """Return what a guest, whose network never changes, sends of the same image in ten rounds."""
    image = np.arange(64.0).reshape(1, 64)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    guest = Guest("shop", Random(network=network), 2, 32, shape=(1, 8, 8), random_state=0)
    rounds = Rounds(rounds=10, start="random", shift=shift)
    side = GuestSide(guest, Table.of(np.vstack([image, image / 2])), None, rounds, 1, "bank")
    side.begin(rounds.training(RECIPE, 1), 0)
    found = []
    for _ in range(10):
        found.append(Representation.from_bytes(side.forward(), "shop", 2).values.tobytes())
        side.done += 1
    return set(found)


def test_guests_move_their_images_in_rounds_where_that_is_asked_for():
    assert len(_values_of_one_image(None)) == 1
    assert len(_values_of_one_image(1)) > 1


def test_the_host_moves_its_images_in_rounds_as_its_recipe_says(rng):
    images = rng.random((40, 1, 8, 8))

    def losses(shift):
        recipe = Recipe(
            encoder_dim=4, head=(8,), epochs=1, network=nn.Sequential(nn.Flatten(), nn.Linear(64, 4)), shift=shift
        )
        model = NetworkModel(replace(recipe, guest_dropout=0.0))
        model.start(images.astype(np.float32), [1], 2)
        own, values, present = (
            torch.as_tensor(each, dtype=torch.float32) for each in (images, np.zeros((40, 1)), np.ones((40, 1)))
        )
        return {model.loss(own, values, present, torch.zeros(40, dtype=torch.long)).item() for _ in range(20)}

    assert len(losses(None)) == 1
    assert len(losses(1)) > 1


@pytest.mark.parametrize("start", ["one-shot", "random"])
def test_what_has_a_budget_is_never_trained_in_rounds(rng, start):
    """Neither by the protocol nor below it: rounds know no noise, and the ledger would keep a claim that is false."""
    X, y = rng.normal(size=(200, 4)), rng.integers(0, 2, 200)
    model = FedOnceClassifier(
        2, epsilon=4.0, bounds=(-5, 5), target_bounds=[0, 1], learner="pca", dim=1, random_state=0
    ).fit(X, y)
    host = model._host
    engine = LocalEngine(model._guests, {"party2": Table.of(X[:, 2:])}, {})
    with pytest.raises(BudgetError, match="rounds have no private version"):
        protocol.fit(host, X[:, :2], y, engine, Rounds(epochs=1, start=start))
    with pytest.raises(BudgetError, match="takes part in no rounds"):
        engine.open_rounds(Rounds(epochs=1, start=start), 200, "party1")
