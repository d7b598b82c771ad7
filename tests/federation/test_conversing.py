"""Rounds over a pretended transport: who is not ready, silent or unreadable loses its place, and the others go on."""

from __future__ import annotations

import numpy as np
import pytest

import fedonce
from fedonce import Recipe
from fedonce.errors import FederationError
from fedonce.federation.conversing import READY, Conversation
from fedonce.federation.jobqueue import JobQueue
from fedonce.federation.request import Request
from fedonce.federation.transport import Reply
from fedonce.messages.codecs import find
from fedonce.messages.representation import row_digest
from fedonce.rounds.wire import wire_message
from tests.federation.pretended import Clock, Pretended, ends, never, refuses, serves

ASKED = {name: Request("bank", name, "churn", "rounds", fedonce.__version__, nonce="00") for name in ("shop", "telco")}


def message(party, dim=2):
    values = np.ones((3, dim), np.float32)
    return wire_message(values, find(32).spanning(values), party, "churn", row_digest(3), "values", None).to_bytes()


def speaks(party, **words):
    """Answer every word with a message, but for those that are given otherwise."""
    return serves(lambda said: words.get(said["word"], b"" if said["word"] == "begin" else message(party)))


class Talk:
    def __init__(self, folder, **plays):
        folder.mkdir()
        self.clock = clock = Clock()
        self.transport, self.lost = Pretended(clock, {name: [play] for name, play in plays.items()}), {}
        queue = JobQueue(self.transport, folder, self.watch, clock)
        self.rounds = Conversation(self.transport, queue, {"shop": 2, "telco": 2}, 10.0, None, clock.sleep)

    def watch(self, status):
        if status.state == "lost":
            self.lost[status.guest] = status.reason


@pytest.fixture
def talk(tmp_path):
    def make(**plays):
        return Talk(tmp_path / "received", **{"shop": speaks("shop"), "telco": speaks("telco")} | plays)

    return make


def test_words_and_gradients_travel_and_come_back_decoded(talk):
    bank = talk()
    opened = bank.rounds.open(ASKED)
    assert {name: each.representation.party for name, each in opened.items()} == {"shop": "shop", "telco": "telco"}
    assert {each.moved for each in opened.values()} == {len(message("shop")), len(message("telco"))}
    bank.rounds.begin(Recipe().training(3), 7)
    bank.rounds.forward()
    bank.rounds.backward({"shop": b"gradient"})
    bank.rounds.forward()
    said = [(word["word"], word["gradient"]) for guest, _, word in bank.transport.words if guest == "shop"]
    assert said == [("open", b""), ("begin", b""), ("forward", b""), ("forward", b"gradient")]
    closing, tuned = bank.rounds.finish()
    assert set(closing) == {"shop", "telco"}
    assert tuned == {name: request.fingerprint for name, request in ASKED.items()}
    assert bank.rounds.queue.written_down() == {}


@pytest.mark.parametrize(
    ("play", "reason"),
    [
        (never(), "it did not get ready for rounds in time"),
        (refuses("shop allows no rounds"), "shop allows no rounds"),
        (ends(reason="no memory"), "no memory"),
        (ends(), "its job for rounds ended"),
    ],
)
def test_a_guest_that_does_not_get_ready_is_left_out(talk, play, reason):
    bank = talk(shop=play)
    assert list(bank.rounds.open(ASKED)) == ["telco"]
    assert bank.lost == {"shop": reason}
    assert bank.transport.stopped == ["shop-1"]
    assert bank.clock() <= READY + 5


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (message("shop")[:-1] + b"!", "'shop' is refused"),
        (message("telco"), "'shop' is refused"),
        (message("shop", 3), "max_dim"),  # more values than it was asked for
        (b"", "'shop' is refused"),
    ],
)
def test_a_message_that_cannot_be_read_costs_the_guest_its_place_and_not_the_training(talk, answer, reason):
    bank = talk(shop=speaks("shop", forward=answer))
    bank.rounds.open(ASKED)
    assert list(bank.rounds.forward()) == ["telco"]
    assert reason in bank.lost["shop"]
    assert list(bank.rounds.forward()) == ["telco"]


def test_a_guest_that_falls_silent_is_lost_after_a_while(talk, monkeypatch):
    bank = talk()
    bank.rounds.open(ASKED)
    fetch = bank.transport.fetch

    def silent(guest, job, turn):
        bank.clock.now += 0.1
        return Reply("waiting") if guest == "shop" else fetch(guest, job, turn)

    monkeypatch.setattr(bank.transport, "fetch", silent)
    began = bank.clock()
    assert list(bank.rounds.forward()) == ["telco"]
    assert 20 <= bank.clock() - began <= 22
    assert bank.lost == {"shop": "it no longer answers"}


def test_a_connection_that_is_away_for_a_moment_costs_nobody_a_place(talk):
    bank = talk()
    bank.rounds.open(ASKED)
    now = bank.clock()
    bank.transport.away = lambda when: now < when < now + 5
    assert set(bank.rounds.forward()) == {"shop", "telco"}


def test_no_guest_left_is_an_error(talk):
    bank = talk(shop=speaks("shop", forward=b"?"), telco=speaks("telco", forward=b"?"))
    bank.rounds.open(ASKED)
    with pytest.raises(FederationError, match="All guests were lost during rounds"):
        bank.rounds.forward()


def test_rounds_that_are_abandoned_leave_no_job(talk):
    bank = talk()
    bank.rounds.open(ASKED)
    bank.rounds.abandon()
    assert bank.transport.stopped == ["shop-1", "telco-1"]
    assert bank.rounds.queue.written_down() == {}
