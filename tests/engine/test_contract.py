"""What every engine keeps to, whatever carries the messages. An engine or a transport is added by a class in `ways`."""

from __future__ import annotations

from collections import Counter
from contextlib import closing, nullcontext
from dataclasses import replace

import numpy as np
import pytest

from fedonce import protocol
from fedonce.errors import FedOnceError
from fedonce.messages.received import Received
from fedonce.messages.representation import Representation
from fedonce.rounds.engine import RoundsEngine
from fedonce.rounds.settings import Rounds
from tests.conftest import as_sent
from tests.engine import ways
from tests.engine.ways import ABSENT, GUESTS, a_host

WAYS = {"local": ways.Local, "files": ways.Files, "memory": ways.Memory, "flare": ways.Flare}
PARAMS = [*(name for name in WAYS if name != "flare"), pytest.param("flare", marks=pytest.mark.federation)]


@pytest.fixture(scope="module", params=PARAMS)
def way(request, tmp_path_factory):
    if request.param == "flare":
        pytest.importorskip("nvflare")
    found = WAYS[request.param](tmp_path_factory.mktemp(request.param))
    try:
        yield found
    finally:
        found.close()


def opened(engine):
    """Return a context that closes an engine which has something to close."""
    return closing(engine) if hasattr(engine, "close") else nullcontext(engine)


@pytest.fixture
def decoded(monkeypatch):
    """Count how often messages of a party are decoded."""
    counts, plain = Counter(), Representation.from_bytes.__func__

    def counting(cls, *arguments, **given):
        message = plain(cls, *arguments, **given)
        counts[message.party] += 1
        return message

    monkeypatch.setattr(Representation, "from_bytes", classmethod(counting))
    return counts


def test_messages_arrive_to_the_bit_with_their_names_and_bytes(way):
    expected = {name: message.to_bytes() for name, message in way.reference().items()}
    with opened(way.engine()) as engine:
        assert engine.guests == GUESTS
        received = engine.learn()
    assert all(isinstance(message, Received) for message in received.values())
    assert as_sent(received) == expected
    assert {name: message.moved for name, message in received.items()} == {
        name: len(data) for name, data in expected.items()
    }


def test_who_does_not_answer_is_absent_by_name(way):
    with opened(way.engine(absent=True)) as engine:
        fitted = protocol.fit(a_host(), way.own, way.label, engine)
        assert engine.guests == (*GUESTS, ABSENT)
    assert fitted.absent == (ABSENT,)
    assert tuple(fitted.representations) == GUESTS
    assert fitted.overlap == {"shop": 1.0, "telco": 1.0, ABSENT: 0.0}


def test_each_message_is_decoded_once(way, decoded):
    with opened(way.engine()) as engine:
        engine.learn()  # guests that answer in this process look at their own messages, the first time
    with opened(way.engine()) as engine:
        decoded.clear()
        protocol.fit(a_host(), way.own, way.label, engine)
    assert decoded == {"shop": 1, "telco": 1}


def test_training_and_prediction_are_the_same_as_by_hand(way):
    host, by_hand = a_host(), a_host()
    with opened(way.engine()) as engine:
        fitted = protocol.fit(host, way.own, way.label, engine)
    with opened(way.predicting(engine)) as asked:
        matching = replace(host.matching, agreed=getattr(way, "agreed", ()))
        prediction = protocol.predict(host, way.first(way.own), asked, matching)
    guests = {name: ways.a_guest(name) for name in GUESTS}
    sent = [guest.learn(way.tables[name]) for name, guest in guests.items()]
    by_hand.aggregate(way.own, way.label, sent)
    told = [guest.represent(way.first(way.tables[name])) for name, guest in guests.items()]
    assert fitted.traffic.bytes == sum(len(message.to_bytes()) for message in sent)
    assert fitted.traffic.messages == prediction.traffic.messages == 2
    np.testing.assert_array_equal(prediction.outputs, by_hand.outputs(way.first(way.own), told))
    assert prediction.absent == ()


def test_what_cannot_be_used_is_an_error_that_names_the_party(way):
    with opened(way.broken()) as engine, pytest.raises(FedOnceError, match="shop"):
        engine.learn()


def test_rounds_are_the_same_as_in_one_process(way, decoded, tmp_path):
    rounds = Rounds(rounds=4, batch=32)
    engine = way.engine()
    if not isinstance(engine, RoundsEngine):
        pytest.skip("it carries one message only")
    local, expected = ways.Local(tmp_path).engine(), a_host()
    wanted = protocol.fit(expected, way.own, way.label, local, rounds)
    with opened(way.engine()) as first:
        first.learn()
    host = a_host()
    decoded.clear()
    with opened(engine):
        fitted = protocol.fit(host, way.own, way.label, engine, rounds)
    assert {name: decoded[name] for name in GUESTS} == dict.fromkeys(GUESTS, 1 + 1 + 4 + 1)
    assert (fitted.traffic.rounds, fitted.traffic.bytes) == (4, wanted.traffic.bytes)
    assert fitted.traffic.bytes_to_guests == wanted.traffic.bytes_to_guests
    for parameter, other in zip(host.model.module().parameters(), expected.model.module().parameters(), strict=True):
        assert parameter.equal(other)
