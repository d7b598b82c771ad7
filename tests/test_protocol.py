from __future__ import annotations

import inspect

import numpy as np
import pytest

from fedonce import Guest, Host, MessageError, protocol
from fedonce.engine.local import LocalEngine
from fedonce.tables import Table
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
    assert fitted.traffic.payload_bytes == 2 * 300 * 2
    assert fitted.traffic.bytes == sum(message.nbytes for message in fitted.representations.values())
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
        def learn(self):
            return {name: data[:-1] + bytes([data[-1] ^ 1]) for name, data in super().learn().items()}

    engine = parties(X, ("telco",))
    with pytest.raises(MessageError, match="'telco'"):
        protocol.fit(Host("bank"), X[:, :3], y, Damaging(engine.parties, engine.tables, {}))


def test_protocol_is_short_and_free_of_engines_and_batches():
    source = inspect.getsource(protocol)
    assert len(source.splitlines()) <= 120
    assert not any(word in source for word in ("for batch", "open(", "joblib", "nvflare", "safetensors"))
