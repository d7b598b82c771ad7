from __future__ import annotations

import sys

import numpy as np
import pytest

from fedonce.errors import InputError, MessageError
from fedonce.messages import envelope
from fedonce.rows import agreement, alignment
from fedonce.rows.alignment import AgreedRows, Request, State
from fedonce.rows.ids import normalise

pytest.importorskip("private_set_intersection")

RUN = "spring"


def texts(*values):
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


HOST = texts("anna", "Bertil", "çelik", "日本", "e", "f\0", "\ud800")
GUEST = texts("日本", "zoe", "f\0", "anna", "E", "\ud800", "c", "d")


@pytest.fixture(scope="module")
def sent():
    """A request, its state, and the answer of a guest that has rows 0, 3, 5 and 6 of the host's."""
    asked, state = alignment.request(HOST, "bank", RUN)
    return asked, state, alignment.respond(asked, GUEST, "shop")


def changed(data, kind, keys, header=None, tensors=None):
    """The same file with other content and a right checksum: what a dishonest party could send."""
    found = envelope.unpack(data, kind, keys)
    return envelope.pack(kind, {**found.header, **(header or {})}, {**found.tensors, **(tensors or {})})


def test_the_host_learns_which_of_its_rows_a_guest_has(sent):
    _, state, response = sent
    matched = alignment.finish(state, response, HOST)
    assert (matched.guest, matched.held) == ("shop", 8)
    assert matched.positions.tolist() == [0, 3, 5, 6]


def test_positions_are_those_of_the_ids_given_in_any_order(sent):
    _, state, response = sent
    positions = alignment.finish(state, response, HOST[::-1]).positions
    assert set(HOST[::-1][positions]) == {"anna", "日本", "f\0", "\ud800"}


def test_against_plain_sets(rng):
    people = texts(*(f"person {i}" for i in range(400)))
    host, guest = rng.permutation(people)[:150], rng.permutation(people)[:260]
    asked, state = alignment.request(host, "bank", RUN)
    positions = alignment.finish(state, alignment.respond(asked, guest, "shop"), host).positions
    assert positions.tolist() == np.flatnonzero(np.isin(host, guest)).tolist()


def test_one_request_serves_several_guests(sent):
    asked, state, response = sent
    other = alignment.respond(asked, texts("e", "Bertil"), "utility")
    assert alignment.finish(state, other, HOST).positions.tolist() == [1, 4]
    assert alignment.finish(state, response, HOST).positions.tolist() == [0, 3, 5, 6]


def test_normalised_ids_match():
    host, guest = texts(" Anna", "bo "), texts("BO", "anna", "carl")
    asked, state = alignment.request(host, "bank", RUN, forms=("lower", "trim"))
    assert Request.from_bytes(asked).forms == ("trim", "lower")
    response = alignment.respond(asked, guest, "shop", ("trim", "lower"))
    assert alignment.finish(state, response, host).positions.tolist() == [0, 1]
    with pytest.raises(MessageError, match="normalises ids by trim,lower, this party by none"):
        alignment.respond(asked, guest, "shop")


def test_a_request_says_who_asks_and_hides_ids_and_their_order(sent):
    asked = Request.from_bytes(sent[0])
    assert (asked.host, asked.run, asked.reveal, len(asked.points)) == ("bank", RUN, "both", 7)
    again, state = alignment.request(HOST, "bank", RUN)
    assert not {bytes(point) for point in asked.points} & {bytes(point) for point in Request.from_bytes(again).points}
    orders = {tuple(State.from_bytes(alignment.request(HOST, "bank", RUN)[1]).order) for _ in range(5)}
    assert len(orders) > 1
    for data in sent:
        assert b"anna" not in data
    assert State.from_bytes(state).key.hex() not in repr(State.from_bytes(state))


def test_a_guest_limits_how_much_is_asked(sent):
    assert alignment.respond(sent[0], GUEST, "shop", at_most=7)
    with pytest.raises(MessageError, match="'bank' is refused: it asks about 7 ids, and at most 6 are allowed"):
        alignment.respond(sent[0], GUEST, "shop", at_most=6)


def test_an_empty_intersection_is_an_error(sent):
    asked, state, _ = sent
    with pytest.raises(InputError, match=r"match nobody of party 'shop' \(7 and 2 ids\).*written alike .forms"):
        alignment.finish(state, alignment.respond(asked, texts("x", "y"), "shop"), HOST)


@pytest.mark.parametrize("ids", [HOST[1:], texts(*HOST[1:], "other"), texts(*HOST, "more")])
def test_finishing_needs_the_ids_of_the_request(sent, ids):
    with pytest.raises(InputError, match="not those that it asked about"):
        alignment.finish(sent[1], sent[2], ids)


def test_an_answer_to_another_request_is_refused(sent):
    _, other = alignment.request(HOST, "bank", RUN)
    with pytest.raises(MessageError, match="'shop' is refused: it answers another request"):
        alignment.finish(other, sent[2], HOST)


@pytest.mark.parametrize(
    "act", [alignment.request, lambda ids, *_: alignment.respond(alignment.request(HOST, "a", RUN)[0], ids, "b")]
)
def test_bad_ids(act):
    with pytest.raises(InputError, match="has no rows"):
        act(texts(), "bank", RUN)
    with pytest.raises(InputError, match=r"The id 'x' of party .* is there twice"):
        act(texts("x", "y", "x"), "bank", RUN)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("", RUN), "'host' parameter"),
        (("bank", "a\nb"), "'run' parameter"),
        (("bank", RUN, "all"), "'both' or 'host'"),
        (("bank", RUN, "both", ("upper",)), "normalise-ids"),
    ],
)
def test_bad_parameters(arguments, told):
    with pytest.raises(InputError, match=told):
        alignment.request(HOST, *arguments)


def test_a_guest_does_not_answer_itself(sent):
    with pytest.raises(MessageError, match="must have another name"):
        alignment.respond(sent[0], GUEST, "bank")


POINTS = np.full((7, 33), 2, np.uint8)


@pytest.mark.parametrize(
    ("header", "tensors", "told"),
    [
        ({"reveal": "all"}, {}, "what it reveals"),
        ({"nonce": "0"}, {}, "its nonce"),
        ({"run": "a\nb"}, {}, "its run"),
        ({"forms": "upper"}, {}, "does not know"),
        ({}, {"points": POINTS[:0]}, "points of 33 bytes"),
        ({}, {"points": POINTS[:, :32]}, "points of 33 bytes"),
        ({}, {"points": POINTS.astype(np.int16)}, "points of 33 bytes"),
        ({}, {"points": POINTS[0]}, "points of 33 bytes"),
        ({}, {"points": POINTS + np.uint8(3)}, "points of 33 bytes"),
        ({}, {"points": np.insert(np.full((7, 32), 255, np.uint8), 0, 2, axis=1)}, "no point of the curve"),
        ({}, {"more": POINTS}, "nothing else"),
    ],
)
def test_hostile_requests(sent, header, tensors, told):
    data = changed(sent[0], alignment.REQUEST, alignment.REQUEST_KEYS, header, tensors)
    with pytest.raises(MessageError, match=told):
        alignment.respond(data, GUEST, "shop")


@pytest.mark.parametrize(
    ("header", "tensors", "told"),
    [
        ({"host": "mallory"}, {}, "for host 'mallory'"),
        ({"run": "autumn"}, {}, "run 'autumn'"),
        ({"party": "bank"}, {}, "host's own name"),
        ({"nonce": "é"}, {}, "another request"),
        ({}, {"answers": POINTS[:6]}, "answers 6 ids, and 7 were asked"),
        ({}, {"answers": np.insert(np.full((7, 32), 255, np.uint8), 0, 2, axis=1)}, "no point of the curve"),
        ({}, {"held": POINTS[:0]}, "points of 33 bytes"),
        ({}, {"more": POINTS}, "nothing else"),
    ],
)
def test_hostile_responses(sent, header, tensors, told):
    data = changed(sent[2], alignment.RESPONSE, alignment.RESPONSE_KEYS, header, tensors)
    with pytest.raises(MessageError, match=told):
        alignment.finish(sent[1], data, HOST)


@pytest.mark.parametrize(
    ("header", "tensors"), [({}, {"order": np.zeros(7, np.int64)}), ({"key": "x"}, {}), ({}, {"order": np.zeros(7)})]
)
def test_a_damaged_state(sent, header, tensors):
    keys = (*alignment.REQUEST_KEYS, "key", "ids")
    with pytest.raises(MessageError, match="alignment state of party 'bank'"):
        alignment.finish(changed(sent[1], alignment.STATE, keys, header, tensors), sent[2], HOST)


def test_random_cuts_and_flips_are_refused(sent, rng):
    rows = alignment.agreed_rows(HOST, "bank", "shop", RUN)
    readers = (
        (sent[0], Request.from_bytes),
        (sent[2], lambda data: alignment.finish(sent[1], data, HOST)),
        (rows, AgreedRows.from_bytes),
    )
    for data, read in readers:
        for _ in range(400):
            place = int(rng.integers(len(data)))
            flipped = data[:place] + bytes([data[place] ^ int(rng.integers(1, 256))]) + data[place + 1 :]
            for damaged in (data[:place], flipped):
                with pytest.raises(MessageError):
                    read(damaged)


def test_a_file_of_another_kind_is_named(sent):
    with pytest.raises(MessageError, match="another kind: 'alignment response'"):
        Request.from_bytes(sent[2])


def test_agreed_rows_are_found_by_both_in_the_same_order():
    rows = AgreedRows.from_bytes(alignment.agreed_rows(HOST[[0, 3, 5]], "bank", "shop", RUN), "bank")
    assert (rows.host, rows.guest, rows.run, rows.forms) == ("bank", "shop", RUN, ())
    at_host, at_guest = rows.positions(HOST), rows.positions(GUEST)
    assert sorted(at_host.tolist()) == [0, 3, 5]
    assert HOST[at_host].tolist() == GUEST[at_guest].tolist()
    assert rows.positions(texts("anna")).tolist().count(-1) == 2


def test_agreed_rows_are_of_normalised_ids():
    rows = AgreedRows.from_bytes(alignment.agreed_rows(texts(" Anna"), "bank", "shop", RUN, ("trim", "lower")))
    assert rows.positions(normalise(texts("bo", "ANNA"), rows.forms)).tolist() == [1]


def test_agreed_rows_differ_by_salt_and_by_run_and_their_order_says_nothing():
    first, second = (AgreedRows.from_bytes(alignment.agreed_rows(HOST, "bank", "shop", RUN)) for _ in range(2))
    assert first.digest != second.digest
    assert not {bytes(key) for key in first.keys} & {bytes(key) for key in second.keys}
    shuffled = alignment.agreed_rows(HOST[::-1], "bank", "shop", RUN, salt=bytes(32))
    assert shuffled == alignment.agreed_rows(HOST, "bank", "shop", RUN, salt=bytes(32))


def test_finishing_twice_gives_the_same_file(sent):
    first, second = (alignment.finish(sent[1], sent[2], HOST).salt for _ in range(2))
    assert first == second
    other = alignment.respond(sent[0], GUEST, "utility")
    assert alignment.finish(sent[1], other, HOST).salt != first


def test_agreed_rows_with_a_secret_need_it():
    secret, other = bytes(range(32)), bytes(32)
    data = alignment.agreed_rows(HOST, "bank", "shop", RUN, secret=secret)
    rows = AgreedRows.from_bytes(data)
    assert secret.hex() not in rows.salt
    assert sorted(rows.positions(HOST, secret).tolist()) == list(range(7))
    with pytest.raises(InputError, match="give it .secret."):
        rows.positions(HOST)
    with pytest.raises(InputError, match="hashed with secret .* use the same at both"):
        rows.positions(HOST, other)


@pytest.mark.parametrize(
    ("header", "keys", "told"),
    [
        ({"salt": "secret:"}, None, "its salt"),
        ({"guest": ""}, None, "its guest or its run"),
        ({"forms": "upper"}, None, "does not know"),
        ({}, np.zeros((0, 8), np.uint8), "at least one row"),
        ({}, np.zeros((2, 8), np.uint8), "each once"),
        ({}, np.zeros((1, 9), np.uint8), "8 bytes per row"),
        ({}, np.array([[1] + [0] * 7, [0] * 8], np.uint8), "ascending order"),
    ],
)
def test_hostile_rows_files(header, keys, told):
    data = alignment.agreed_rows(HOST, "bank", "shop", RUN)
    tensors = None if keys is None else {"keys": keys}
    with pytest.raises(MessageError, match=told):
        AgreedRows.from_bytes(changed(data, alignment.ROWS, agreement.ROWS_KEYS, header, tensors))


def test_rows_of_another_host_are_refused():
    with pytest.raises(MessageError, match="it says that it is from party 'bank'"):
        AgreedRows.from_bytes(alignment.agreed_rows(HOST, "bank", "shop", RUN), "utility")


def test_bad_agreed_rows():
    with pytest.raises(InputError, match="share no row"):
        alignment.agreed_rows(texts(), "bank", "shop", RUN)
    with pytest.raises(InputError, match="'salt' parameter"):
        alignment.agreed_rows(HOST, "bank", "shop", RUN, salt=b"short")


def test_a_missing_library_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "private_set_intersection.python", None)
    with pytest.raises(InputError, match=r"pip install 'fedonce\[psi\]'"):
        alignment.request(HOST, "bank", RUN)
