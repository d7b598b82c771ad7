"""An encoding from outside the package: registered, chosen by name, written, read, and refused where it is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import ClassVar

import numpy as np
import pytest

from fedonce import FedOnceClassifier, Guest, Host, InputError, MessageError, Representation, Rounds
from fedonce.messages import codecs, envelope
from fedonce.messages.codecs import BITS, CODECS, Codec, expect, find, register
from fedonce.messages.representation import check_start, row_digest
from tests.conftest import make_table
from tests.messages.test_representation import forge


@dataclass(frozen=True)
class Quarters(Codec):
    """Two bits per value, four values per byte: one of four steps from -span to span."""

    name: ClassVar[str] = "quarters"
    bits: ClassVar[int] = 2
    keeps: ClassVar[tuple[str, ...]] = ("span",)
    span: float

    @classmethod
    def fit(cls, values):
        return cls(float(np.abs(values).max(initial=0)))

    @classmethod
    def public(cls, bound, dim):
        return cls(bound)

    @classmethod
    def most_state(cls, dim):
        return 4

    def encode(self, values):
        codes = np.rint(np.clip((values / (self.span or 1) + 1) * 1.5, 0, 3)).astype(np.uint8).ravel()
        four = np.pad(codes, (0, -len(codes) % 4)).reshape(-1, 4)
        return {"values": (four << np.array([6, 4, 2, 0], np.uint8)).sum(axis=1, dtype=np.uint8)}

    def decode(self, tensors, rows, dim, fail):
        expect(tensors, "values", np.uint8, (ceil(rows * dim / 4),), fail)
        codes = (tensors["values"][:, None] >> np.array([6, 4, 2, 0], np.uint8)) & 3
        return ((codes.ravel()[: rows * dim].reshape(rows, dim) / 1.5 - 1) * self.span).astype(np.float32)

    def state(self):
        return {"span": np.array([self.span], np.float32)}

    @classmethod
    def restore(cls, state, dim, fail):
        expect(state, "span", np.float32, (1,), fail)
        if not 0 <= state["span"][0] <= codecs.VALUE_LIMIT:
            raise fail("its span is not a range")
        return cls(float(state["span"][0]))


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for choice in list(CODECS):
        monkeypatch.setitem(CODECS, choice, CODECS[choice])
    register(Quarters)
    yield
    CODECS.pop("quarters", None)


VALUES = np.random.default_rng(0).uniform(-1, 1, (7, 3)).astype(np.float32)


def message(**header):
    return Representation.encode(VALUES, Quarters.fit(VALUES), "shop", rows=row_digest(len(VALUES)), **header)


def test_bytes_and_back():
    sent = message()
    got = Representation.from_bytes(sent.to_bytes(), "shop")
    np.testing.assert_array_equal(got.values, sent.values)
    np.testing.assert_allclose(got.values, VALUES, atol=1 / 3 + 1e-6)
    assert (got.codec, got.bits, got.payload_bytes, got.maker) == (sent.codec, 2, ceil(21 / 4), sent.maker)
    assert got.to_bytes() == sent.to_bytes()


def test_rows_that_only_some_have():
    present = np.array([True] * 7 + [False] * 4)
    got = Representation.from_bytes(message(present=present).to_bytes())
    assert (got.n_rows, got.values.shape) == (11, (7, 3))


def test_the_header_names_it_and_our_own_are_known_by_their_bits():
    assert envelope.read_header(message().to_bytes(), "message", *_entries())["codec"] == "quarters"
    for bits in BITS:
        plain = Representation.encode(VALUES, find(bits).fit(VALUES), "shop", rows="")
        assert "codec" not in envelope.read_header(plain.to_bytes(), "message", *_entries())


def _entries():
    from fedonce.messages import representation

    return representation._KEYS, None, representation._OPTIONAL


def test_who_does_not_have_it_says_its_name():
    data = message().to_bytes()
    del CODECS["quarters"]
    with pytest.raises(MessageError, match="'shop'.*the codec 'quarters', which this program does not know; it has 32"):
        Representation.from_bytes(data)


@pytest.mark.parametrize(
    ("tensors", "header", "reason"),
    [
        ({"values": np.zeros(5, np.uint8)}, {}, r"shape \(5,\), announced were uint8 of shape \(6,\)"),
        ({"values": np.zeros(6, np.int8)}, {}, "int8"),
        ({"values": np.zeros((6, 1), np.uint8)}, {}, "shape"),
        ({"span": np.array([np.nan], np.float32)}, {}, "not a range"),
        ({"span": np.zeros(2, np.float32)}, {}, "shape"),
        ({"low": np.zeros(3, np.float32)}, {}, "carries tensors"),
        ({}, {"bits": "8"}, "its 'bits' are 8, those of the codec 'quarters' are 2"),
        ({}, {"codec": "8", "bits": "8"}, "the codec '8', which this program does not know"),
        ({}, {"codec": ""}, "the codec '', which"),
        ({}, {"codec": "x" * 1000}, f"the codec '{'x' * 40}', which"),
        ({}, {"codec": None}, "2 bits, which this program does not know"),
        ({}, {"n": str(2**40), "d": str(2**20)}, "values per row"),
        ({}, {"n": str(2**40)}, "would take"),
        ({}, {"n": str(2**20)}, "announced were"),
    ],
)
def test_forged_messages_are_refused(tensors, header, reason):
    with pytest.raises(MessageError, match=reason) as caught:
        Representation.from_bytes(forge(message().to_bytes(), tensors, **header), "shop")
    assert "'shop'" in str(caught.value)


def test_a_file_is_judged_by_its_header_before_it_is_read():
    start = message().to_bytes()
    most = 8 + envelope.HEADER_LIMIT + Quarters.most_payload(7, 3) + Quarters.most_state(3) + 7 * 257
    assert check_start(start, most) == (7, 3, Quarters)
    with pytest.raises(MessageError, match="take no more than"):
        check_start(start, most + 1)


class Broken(Quarters):
    """It decodes to what is no table of float32, or to what is not finite."""

    name = "broken"
    gives: ClassVar[np.ndarray]

    def decode(self, tensors, rows, dim, fail):
        return self.gives


@pytest.mark.parametrize(
    ("gives", "reason"),
    [
        (np.zeros((7, 2), np.float32), "shape"),
        (np.zeros((7, 3)), "float64"),
        (np.full((7, 3), np.nan, np.float32), "not finite"),
    ],
)
def test_what_an_encoding_gives_is_checked_too(monkeypatch, gives, reason):
    monkeypatch.setitem(CODECS, "broken", Broken)
    Broken.gives = gives
    data = forge(message().to_bytes(), codec="broken")
    with pytest.raises(MessageError, match=reason):
        Representation.from_bytes(data)


def test_a_guest_writes_with_it_now_and_after_it_was_saved(tmp_path):
    X, y = make_table(60)
    guest, host = Guest("shop", "pca", 2, "quarters"), Host("bank", epochs=1)
    host.aggregate(X[:, :4], y, [Representation.from_bytes(guest.learn(X[:, 4:]).to_bytes())])
    again = Guest.load(guest.save(tmp_path / "shop"))
    assert (again.bits, again.codec) == ("quarters", guest.codec)
    sent = again.represent(X[:9, 4:])
    assert sent.payload_bytes == ceil(9 * 2 / 4)
    assert sent.to_bytes() == guest.represent(X[:9, 4:]).to_bytes()
    assert len(host.predict(X[:9, :4], [Representation.from_bytes(sent.to_bytes())])) == 9


def test_an_estimator_takes_its_name():
    X, y = make_table(60)
    model = FedOnceClassifier(2, learner="pca", dim=2, bits="quarters", host_epochs=1, rounds=2).fit(X, y)
    assert model.representations_["party2"].bits == 2
    assert len(model.predict(X)) == 60


def test_rounds_want_more_bits_unless_they_are_told():
    assert Rounds(rounds=1).encoding(Quarters) is find(8)
    assert Rounds(rounds=1, bits="quarters").encoding(find(8)) is Quarters
    with pytest.raises(InputError, match="one of 32, 16, 8, 4, quarters or None"):
        Rounds(rounds=1, bits="halves")


@pytest.mark.parametrize("bits", [7, 8.0, True, None, "8", "eighths", [8]])
def test_what_there_is_to_choose_from_is_told(bits):
    with pytest.raises(InputError, match=r"'bits' parameter of Guest must be one of 32, 16, 8, 4, quarters\. Got"):
        find(bits, "Guest")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"name": ""}, "must have a 'name' of its own"),
        ({"name": "8"}, "must have a 'name' of its own"),
        ({"name": "x" * 41}, "must have a 'name' of its own"),
        ({"keeps": ("ids",)}, "none of ids, present"),
        ({"keeps": ("values",)}, "each of another name"),
        ({"keeps": ("a", "b", "c", "d")}, "1 to 4 tensors"),
    ],
)
def test_encodings_that_no_message_could_carry_are_not_registered(wrong, reason):
    with pytest.raises(InputError, match=reason):
        register(type("Wrong", (Quarters,), {"name": "wrong"} | wrong))
    assert set(CODECS) == {*BITS, "quarters"}
