from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import check_random_state

from fedonce import (
    FedOnceClassifier,
    FedOnceRegressor,
    Guest,
    Host,
    InputError,
    MessageError,
    Recipe,
    Rounds,
    protocol,
)
from fedonce.data.table import Table
from fedonce.engine.files import FilesEngine
from fedonce.engine.local import LocalEngine
from fedonce.messages.keys import new_keys, read_private, read_public, seal
from fedonce.rows.alignment import AgreedRows, agreed_rows
from fedonce.rows.ids import Naming
from tests.conftest import make_table

COLUMNS = {"shop": slice(3, 6), "telco": slice(6, 8)}


def parties(X, names=("shop", "telco"), present=None, n_jobs=None):
    guests = {name: Guest(name, "pca", 2) for name in names}
    return LocalEngine(guests, {name: Table.of(X[:, COLUMNS[name]]) for name in names}, present or {}, n_jobs)


def test_one_message_per_guest_for_training_and_one_for_prediction():
    X, y = make_table()
    host, engine = Host("bank", epochs=2), parties(X)
    fitted = protocol.fit(host, X[:, :3], y, engine)
    assert fitted.traffic.messages == 2
    messages = fitted.representations.values()
    assert fitted.traffic.payload_bytes == sum(message.payload_bytes for message in messages) <= 2 * (300 * 2 + 40)
    assert fitted.traffic.bytes == sum(message.nbytes for message in messages)
    prediction = protocol.predict(host, X[:, :3], engine)
    assert prediction.traffic.messages == 2
    assert prediction.outputs.shape == (300, 2)
    assert prediction.absent == fitted.absent == ()


def test_absent_guests_are_known_by_name():
    X, y = make_table()
    half = np.arange(300) < 150
    fitted = protocol.fit(
        Host("bank", epochs=2), X[:, :3], y, parties(X, present={"shop": half, "telco": np.zeros(300, bool)})
    )
    assert fitted.absent == ("telco",)
    assert fitted.overlap == {"shop": 0.5, "telco": 0.0}
    assert fitted.traffic.messages == 1


def test_a_damaged_message_stops_the_training_and_names_the_party():
    X, y = make_table()

    class Damaging(LocalEngine):
        def _received(self, messages):
            return super()._received({name: data[:-1] + bytes([data[-1] ^ 1]) for name, data in messages.items()})

    engine = parties(X, ("telco",))
    with pytest.raises(MessageError, match="'telco'"):
        protocol.fit(Host("bank"), X[:, :3], y, Damaging(engine.parties, engine.tables, {}))


def test_a_message_is_refused_that_an_engine_took_for_another_party_s_or_with_a_wider_limit():
    X, y = make_table()

    class Mixing(LocalEngine):
        def learn(self):
            return {"shop": super().learn()["telco"]}

    engine = parties(X)
    with pytest.raises(MessageError, match="'shop' is refused: it is by 'telco'"):
        protocol.fit(Host("bank"), X[:, :3], y, Mixing(engine.parties, engine.tables, {}))
    with pytest.raises(MessageError, match="'shop' is refused.*max_memory"):
        protocol.fit(Host("bank", max_memory=2000), X[:, :3], y, parties(X))


QUICK = Recipe(encoder_hidden=(8,), encoder_dim=4, head=(8,), epochs=3)
SECRET = bytes(range(32))
BLOCKS = {"bank": [0, 1, 2], "shop": [3, 4, 5], "telco": [6, 7]}


def guests_of(learner, seed, **given):
    return {name: Guest(name, learner, 2, epochs=2, random_state=seed, **given) for name in ("shop", "telco")}


def departments(folder, host, tables, label, guests, new=None, agreed=None, sealed=lambda data: data, **engine):
    """Train and predict with files: each party sees its own tables, and the host the files that the guests wrote."""
    agreed = agreed or {}

    def files(sent):
        paths = [folder / f"{message.party}.fedonce" for message in sent]
        for path, message in zip(paths, sent, strict=True):
            path.write_bytes(sealed(message.to_bytes()))
        return FilesEngine("local", paths, **engine)

    learnt = files([guest.learn(tables[name], agreed=agreed.get(name)) for name, guest in guests.items()])
    fitted = protocol.fit(host, tables["bank"], label, learnt)
    new = new or tables
    told = files([guest.represent(new[name], agreed=agreed.get(name)) for name, guest in guests.items()])
    return fitted, protocol.predict(host, new["bank"], told)


def people(X, names):
    """The parties' tables with ids."""
    ids = np.array([f"p{row}" for row in range(len(X))], dtype=object)
    return {name: replace(Table.of(X[:, columns]), ids=ids) for name, columns in names.items()}


@pytest.mark.parametrize("learner", ["pca", "nat", "auto"])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_an_estimator_and_departments_give_the_same_to_the_bit(tmp_path, learner, task):
    X, y = make_table(200)
    y = y if task == "classification" else X[:, 0] + X[:, 4]
    make = FedOnceClassifier if task == "classification" else FedOnceRegressor
    model = make(BLOCKS, learner=learner, dim=2, epochs=2, recipe=QUICK, random_state=5).fit(X[:150], y[:150])
    seed = int(check_random_state(5).randint(2**31 - 1))
    old, new = ({name: rows[:, columns] for name, columns in BLOCKS.items()} for rows in (X[:150], X[150:]))
    host = Host("bank", task, QUICK, random_state=seed)
    _, prediction = departments(tmp_path, host, old, y[:150], guests_of(learner, seed), new)
    wanted = model.predict_proba(X[150:]) if task == "classification" else model.predict(X[150:])
    np.testing.assert_array_equal(prediction.outputs, wanted)


def test_departments_with_text_in_their_tables_give_the_same_too(tmp_path):
    X, y = make_table(150)
    frame = pd.DataFrame(X, columns=list("abcdefgh")).assign(d=np.where(X[:, 3] > 0, "x", "y"))
    blocks = {name: [frame.columns[j] for j in columns] for name, columns in BLOCKS.items()}
    model = FedOnceClassifier(blocks, learner="pca", dim=2, recipe=QUICK, random_state=5).fit(frame, y)
    seed = int(check_random_state(5).randint(2**31 - 1))
    tables = {name: frame[columns] for name, columns in blocks.items()}
    host = Host("bank", recipe=QUICK, random_state=seed)
    _, prediction = departments(tmp_path, host, tables, y, guests_of("pca", seed))
    np.testing.assert_array_equal(prediction.outputs, model.predict_proba(frame))


@pytest.mark.parametrize("form", ["hashed", "keyed", "plain", "agreed"])
@pytest.mark.parametrize("learner", ["pca", "nat"])
def test_ids_in_place_of_an_order_change_nothing(tmp_path, form, learner):
    X, y = make_table(150)
    by_position = {name: X[:, columns] for name, columns in BLOCKS.items()}
    (tmp_path / "first").mkdir()
    _, first = departments(tmp_path / "first", Host("bank", recipe=QUICK), by_position, y, guests_of(learner, 0))
    tables, agreed, naming = people(X, BLOCKS), {}, None
    if form == "agreed":
        ids = tables["bank"].ids
        agreed = {name: AgreedRows.from_bytes(agreed_rows(ids, "bank", name, "local")) for name in ("shop", "telco")}
    else:
        naming = Naming(form, SECRET if form == "keyed" else None)
    secret = SECRET if form == "keyed" else None
    host = Host("bank", recipe=QUICK, secret=secret, agreed=tuple(agreed.values()))
    _, second = departments(tmp_path, host, tables, y, guests_of(learner, 0, naming=naming), agreed=agreed)
    np.testing.assert_array_equal(second.outputs, first.outputs)


def test_shuffled_guests_give_nearly_the_same(tmp_path):
    X, y = make_table(150)
    naming = Naming("keyed", SECRET)
    tables, outputs = people(X, BLOCKS), []
    order = np.random.default_rng(0).permutation(150)
    for shuffled in (tables, {name: tables[name] if name == "bank" else tables[name].take(order) for name in tables}):
        host = Host("bank", recipe=QUICK, secret=SECRET)
        fitted, prediction = departments(tmp_path, host, shuffled, y, guests_of("pca", 0, naming=naming, bits=32))
        assert fitted.overlap == {"shop": 1.0, "telco": 1.0}
        outputs.append(prediction.outputs)
    np.testing.assert_allclose(outputs[0], outputs[1], atol=1e-3)
    assert np.ptp(outputs[0]) > 0.1


def test_traffic_is_the_size_of_the_files(tmp_path):
    X, y = make_table(100)
    tables = {name: X[:, columns] for name, columns in BLOCKS.items()}
    private, public = (
        read(path) for read, path in zip((read_private, read_public), new_keys("bank", tmp_path), strict=True)
    )
    bare = departments(tmp_path, Host("bank", recipe=QUICK), tables, y, guests_of("pca", 0))
    for done in bare:
        sizes = {name: (tmp_path / f"{name}.fedonce").stat().st_size for name in ("shop", "telco")}
        assert (done.traffic.per_guest, done.traffic.bytes) == (sizes, sum(sizes.values()))
    closed = departments(
        tmp_path,
        Host("bank", recipe=QUICK),
        tables,
        y,
        guests_of("pca", 0),
        sealed=lambda data: seal(data, public),
        key=private,
    )
    for done, before in zip(closed, bare, strict=True):
        sizes = {name: (tmp_path / f"{name}.fedonce").stat().st_size for name in ("shop", "telco")}
        assert (done.traffic.per_guest, done.traffic.bytes) == (sizes, sum(sizes.values()))
        assert done.traffic.bytes > before.traffic.bytes
        assert done.traffic.payload_bytes == before.traffic.payload_bytes
    np.testing.assert_array_equal(bare[1].outputs, closed[1].outputs)


def test_whoever_is_late_is_zeros_and_named(tmp_path):
    X, y = make_table(100)
    tables = {name: X[:, columns] for name, columns in BLOCKS.items()}
    guests = guests_of("pca", 0)
    path = guests["shop"].learn(tables["shop"]).to_file(tmp_path / "shop.fedonce")
    host = Host("bank", recipe=QUICK)
    engine = FilesEngine("local", inbox=tmp_path, expect=("telco", "shop"))
    fitted = protocol.fit(host, tables["bank"], y, engine)
    assert fitted.absent == fitted.traffic.absent == ("telco",)
    assert fitted.overlap == {"shop": 1.0, "telco": 0.0}
    assert host.dims == {"shop": 2}
    nobody = protocol.predict(host, tables["bank"], FilesEngine("local", expect=("shop",), least=0))
    assert nobody.absent == ("shop",)
    np.testing.assert_array_equal(nobody.outputs, host.outputs(tables["bank"], []))
    assert not np.array_equal(
        protocol.predict(host, tables["bank"], FilesEngine("local", [path])).outputs, nobody.outputs
    )


def test_rounds_do_not_go_by_files(tmp_path):
    X, y = make_table(100)
    for rounds in (Rounds(rounds=2), Rounds(rounds=2, start="random")):
        with pytest.raises(
            InputError, match="Rounds need parties that answer at once, which FilesEngine does not give"
        ):
            protocol.fit(Host("bank"), X[:, :3], y, FilesEngine("local", [tmp_path / "none"]), rounds)


def test_protocol_is_short_and_free_of_engines_and_batches():
    source = inspect.getsource(protocol)
    assert len(source.splitlines()) <= 120
    assert not any(word in source for word in ("for batch", "open(", "joblib", "nvflare", "safetensors"))


def test_weights_that_cannot_be_meant_are_refused_before_anybody_learns():
    class Nobody:
        guests = ()

        def learn(self):
            raise AssertionError("a guest was asked")

    host, table = Host("bank"), np.zeros((4, 2))
    for weight, rounds in (([1, 1, 1, -1], None), (np.ones(4), Rounds(rounds=1))):
        with pytest.raises(InputError, match="weight"):
            protocol.fit(host, table, [0, 1, 0, 1], Nobody(), rounds, weight=weight)
