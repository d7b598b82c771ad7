"""Requests: the same after a journey, the same fingerprint for the same thing, and refused in our own words when forged."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import fields, replace

import numpy as np
import pytest

from fedonce import Hinting
from fedonce.errors import MessageError
from fedonce.federation.request import KEYS, KIND, WHATS, Request
from fedonce.messages import envelope
from fedonce.party.hinting import publish
from fedonce.rows import alignment
from fedonce.rows.ids import Naming

IDS = np.array([f"c{i}" for i in range(12)], dtype=object)
ROWS = alignment.agreed_rows(IDS, "bank", "shop", "churn", salt=b"s" * 32)
LEARN = Request(
    "bank",
    "shop",
    "churn",
    "learn",
    "0.6.0",
    "pca",
    4,
    16,
    10,
    0.5,
    7,
    ("visits", "Größe"),
    ("trim", "lower"),
    "keyed 0123456789abcdef",
    plan='{"fedonce plan": 1}',
)
REQUESTS = {
    "short": Request("bank", "shop", "churn", "learn", "0.6.0"),
    "learn": LEARN,
    "hinted": Request("bank", "shop", "churn", "learn", "0.6.0", hints=b"hints"),
    "represent": Request("bank", "shop", "churn", "represent", "0.6.0", model="a" * 32, nonce="b" * 8, rows=ROWS),
    "align": Request("bank", "shop", "churn", "align", "0.6.0", points=b"points"),
    "rounds": Request(
        "bank",
        "shop",
        "churn",
        "rounds",
        "0.6.0",
        naming="agreed",
        model="a" * 32,
        rounds={"rounds": 20, "rate": 0.1},
        rows=ROWS,
        order=np.array([2, -1, 0], np.int64),
    ),
}
each_request = pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)


def same(one, other):
    return all(np.array_equal(getattr(one, each.name), getattr(other, each.name)) for each in fields(Request))


@each_request
def test_a_request_arrives_as_it_was_sent(request_):
    assert same(Request.from_bytes(request_.to_bytes()), request_)


@each_request
def test_the_same_request_has_the_same_fingerprint(request_):
    again = Request.from_bytes(request_.to_bytes())
    assert request_.fingerprint == again.fingerprint == replace(request_).fingerprint
    assert len(bytes.fromhex(request_.fingerprint)) == 16


CHANGES = {
    "host": "bank2",
    "guest": "telco",
    "run": "other",
    "what": "align",
    "version": "0.6.1",
    "learner": "auto",
    "dim": 5,
    "bits": 8,
    "epochs": None,
    "noise": 0.25,
    "local_epsilon": 4.0,
    "protect": "cells:20",
    "seed": None,
    "columns": ("visits",),
    "forms": (),
    "naming": "hashed",
    "model": "c" * 32,
    "nonce": "d",
    "rounds": {"rounds": 1},
    "rows": ROWS,
    "order": np.array([0], np.int64),
    "points": b"x",
    "plan": "{}",
    "bytes_per_row": 3.0,
    "hints": b"hints",
}


@pytest.mark.parametrize("field", [each.name for each in fields(Request)])
def test_any_change_gives_another_fingerprint(field):
    assert replace(LEARN, **{field: CHANGES[field]}).fingerprint != LEARN.fingerprint


def test_an_absent_file_differs_from_an_empty_one():
    assert replace(LEARN, plan=None).fingerprint != replace(LEARN, plan="").fingerprint


def test_a_request_shows_no_rows_when_printed():
    assert "rows=" not in repr(REQUESTS["represent"])
    assert "plan" not in repr(LEARN)


@each_request
def test_cuts_are_refused(request_):
    data = request_.to_bytes()
    for end in {*range(0, len(data), 7), len(data) - 1}:
        with pytest.raises(MessageError):
            Request.from_bytes(data[:end])
    with pytest.raises(MessageError):
        Request.from_bytes(data + b"\0")


@each_request
def test_flips_are_refused(request_):
    data = request_.to_bytes()
    for place in range(0, len(data), 3):
        flipped = bytearray(data)
        flipped[place] ^= 1 << (place % 8)
        with pytest.raises(MessageError):
            Request.from_bytes(bytes(flipped))


def test_splices_are_refused():
    chance, files = random.Random(0), [each.to_bytes() for each in REQUESTS.values()] + [ROWS]
    for _ in range(300):
        one, other = chance.sample(files, 2)
        spliced = one[: chance.randrange(len(one))] + other[chance.randrange(len(other)) :]
        with pytest.raises(MessageError):
            Request.from_bytes(spliced)


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff" * 100, ROWS, b"fedonce sealed 1\nxx"])
def test_other_files_are_refused(data):
    with pytest.raises(MessageError):
        Request.from_bytes(data)


def forged(header=None, arrays=None, **settings):
    """Return a request whose checksum is right, and whose content no host of ours would send."""
    texts = {"party": "bank", "version": "0.6.0", "guest": "shop", "run": "churn", "what": "learn"} | (header or {})
    content = json.dumps(LEARN.settings | settings).encode()
    return envelope.pack(KIND, texts, {"settings": np.frombuffer(content, np.uint8)} | (arrays or {}))


WRONG = {
    "dim": [0, -1, 2**21, 4.0, True, "4", None, [4], {}],
    "bits": [5, 0, True, "8", None, 8.0, [8]],
    "epochs": [0, 10**7, 1.5, True, "1"],
    "seed": [-1, 2**32, 0.5, True, "0"],
    "protect": ["", "cells", "cells:", "cells:0", "cells:20 ", 20, None, []],
    "local_epsilon": [0, -1, 51, float("nan"), float("inf"), True, "4", None, []],
    "noise": [-0.1, float("nan"), float("inf"), True, "0", None, []],
    "learner": ["", "p\nca", "x" * 101, None, 3, ["pca"]],
    "naming": ["", "plain", "keyed", "keyed 0123456789ABCDEF", "hashed ", "hashed\n", None, 1, ["hashed"]],
    "model": ["a" * 31, "A" * 32, "../../etc", None, 1, int("1" * 32), "a" * 32 + "\n"],
    "nonce": ["g", "a" * 33, None, 1, "a\n"],
    "columns": [[], "visits", ["a\nb"], [1], [""], {"visits": 1}, 3],
    "forms": ["trim", ["upper"], [1], None, {"trim": 1}, [["trim"]]],
    "rounds": [5, [], "many", True],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_forged_settings_are_refused(name, value):
    with pytest.raises(MessageError, match="request of party 'bank' is refused"):
        Request.from_bytes(forged(**{name: value}))


def test_settings_that_are_missing_or_unknown_are_refused():
    content = dict(LEARN.settings)
    content.pop("noise")
    for text in (
        json.dumps(content),
        json.dumps(LEARN.settings | {"more": 1}),
        "[]",
        "null",
        "[" * 10**5,
        "\ud800",
        "{",
    ):
        array = np.frombuffer(text.encode(errors="surrogatepass"), np.uint8)
        with pytest.raises(MessageError):
            Request.from_bytes(forged(arrays={"settings": array}))


@pytest.mark.parametrize(
    "header",
    [
        {"what": "delete"},
        {"what": ""},
        {"guest": ""},
        {"guest": "a\nb"},
        {"run": "\x1b[2J"},
        {"version": ""},
        {"party": ""},
    ],
)
def test_forged_names_are_refused(header):
    with pytest.raises(MessageError):
        Request.from_bytes(forged(header))


@pytest.mark.parametrize(
    "arrays",
    [
        {"more": np.zeros(3, np.uint8)},
        {"rows": np.zeros(3, np.int64)},
        {"rows": np.zeros((3, 3), np.uint8)},
        {"order": np.zeros(3, np.int32)},
        {"order": np.zeros((1, 3), np.int64)},
        {"order": np.zeros(3, np.float64)},
        {"plan": np.array([255], np.uint8)},
        {"settings": np.zeros(3, np.float32)},
        {"settings": np.zeros(0, np.uint8)},
    ],
)
def test_forged_arrays_are_refused(arrays):
    with pytest.raises(MessageError):
        Request.from_bytes(forged(arrays=arrays))


def test_what_is_forged_is_otherwise_fine():
    for what in WHATS:
        assert Request.from_bytes(forged({"what": what})).what == what


@pytest.mark.parametrize("most", [0.05, 3, 1024.0])
def test_bytes_per_row_travel(most):
    asked = Request("bank", "shop", "churn", "learn", "0.6.0", bytes_per_row=most)
    assert Request.from_bytes(asked.to_bytes()).bytes_per_row == most
    assert asked.fingerprint != Request("bank", "shop", "churn", "learn", "0.6.0").fingerprint


@pytest.mark.parametrize("most", [0, -1.0, 1e9, float("inf"), True, "3"])
def test_bytes_per_row_that_cannot_be_meant(most):
    asked = Request("bank", "shop", "churn", "learn", "0.6.0", bytes_per_row=most)
    with pytest.raises(MessageError, match="bytes_per_row must be a number"):
        Request.from_bytes(asked.to_bytes())


def test_hints_are_named_by_their_checksum_and_others_are_refused():
    request = REQUESTS["hinted"]
    assert request.settings["hints"] == hashlib.sha256(b"hints").hexdigest()
    assert "hints" not in REQUESTS["short"].settings
    found = envelope.unpack(request.to_bytes(), KIND, KEYS)
    for hints in (b"other", None):
        tensors = {"settings": found.tensors["settings"]}
        tensors |= {} if hints is None else {"hints": np.frombuffer(hints, np.uint8)}
        with pytest.raises(MessageError, match="its hints are not those that it names"):
            Request.from_bytes(envelope.pack(KIND, found.header, tensors))


def test_hints_are_for_learning_alone():
    with pytest.raises(MessageError, match="hints are for learning alone"):
        Request.from_bytes(replace(REQUESTS["represent"], hints=b"hints").to_bytes())


def test_a_request_says_what_it_hints_at():
    hinting, naming = Hinting(2.0, label="churned"), Naming("hashed")
    hints = publish(np.array([0, 1] * 6), hinting, party="bank", run="churn", ids=IDS, naming=naming)
    assert replace(REQUESTS["short"], hints=hints.to_bytes()).hinted == "2.0 churned"
    assert (REQUESTS["short"].hinted, REQUESTS["hinted"].hinted) == (None, "unknown")
