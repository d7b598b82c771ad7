"""Files that were cut, flipped, spliced or made to harm are refused in our own words, fast and in little memory."""

from __future__ import annotations

import json
import random
import resource
import shutil
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from fedonce import Guest, Host, InputError, MessageError
from fedonce.assess.inspection import describe_message, inspect
from fedonce.data.table import Table
from fedonce.errors import FedOnceError
from fedonce.messages import envelope
from fedonce.messages import keys as crypto
from fedonce.messages.representation import Representation
from fedonce.rows import alignment
from fedonce.rows.alignment import AgreedRows, Request, State
from fedonce.rows.ids import Naming
from tests.messages import mutations

SECRET = b"s" * 32
ROWS = 12
WORDS = [
    "",
    "0",
    "-1",
    "1",
    "3",
    "4",
    "8",
    "12",
    "16",
    "32",
    "9" * 15,
    "9" * 16,
    "1e999",
    "nan",
    "\x1b[2J",
    "a\nb",
    "none",
    "null",
    "{}",
    "[[]]",
    '[{"what": 1}]',
    '["pca"]',
    "hashed",
    "plain",
    "keyed " + "0" * 16,
    "trim",
    "lower,zz",
    "²",
    "٣",
    "x" * 300,
]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    ids = np.array([f"c{i}" for i in range(ROWS)], dtype=object)
    return Table(("a", "b", "c"), True, columns=tuple(rng.standard_normal((3, ROWS))), ids=ids)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    crypto.new_keys("bank", folder)
    return crypto.read_private(folder / "bank.key")


@pytest.fixture(scope="module")
def messages(table, keys):
    """Messages of each form: ids that are hashed or plain, rows that are absent, floats, a signature."""
    by_position = replace(table, ids=None)
    hashed = Guest("shop", "pca", 3, naming=Naming("keyed", SECRET)).learn(table)
    return {
        "8 bits, ids": hashed,
        "plain ids": Guest("shop", "pca", 3, naming=Naming("plain")).learn(table),
        "4 bits, present": Guest("shop", "pca", 3, 4).learn(by_position.take(np.arange(7)), np.arange(ROWS) < 7),
        "32 bits": Guest("shop", "pca", 3, 32).learn(by_position),
        "signed": replace(hashed, signature=keys.sign(hashed.checksum)),
    }


@pytest.fixture(scope="module")
def files(messages, table, keys):
    """Files of every kind, and how each is read; what reading gives can be compared."""
    asked, state = alignment.request(table.ids, "bank", "local")
    answer = alignment.respond(asked, table.ids, "shop")
    agreed = alignment.agreed_rows(table.ids, "bank", "shop", "local")

    def message(data):
        return Representation.from_bytes(data).checksum

    def response(data):
        return envelope.unpack(data, alignment.RESPONSE, ("party", "host", "run", "nonce")).checksum

    return {
        **{name: (each.to_bytes(), message) for name, each in messages.items()},
        "sealed": (
            crypto.seal(messages["32 bits"].to_bytes(), keys.public),
            lambda data: message(crypto.unseal(data, keys)),
        ),
        "rows": (agreed, lambda data: AgreedRows.from_bytes(data).digest),
        "request": (asked, lambda data: Request.from_bytes(data).points.tobytes()),
        "response": (answer, response),
        "state": (state, lambda data: State.from_bytes(data).order.tobytes()),
    }


def mutated(data, others, rng):
    """Return bytes with one accident, or one attack."""
    at, size = rng.randrange(len(data)), rng.choice((1, 1, 2, 8, 40))
    kind = rng.randrange(8)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + rng.randbytes(size) + data[at:]
    if kind == 3:
        return data[:at] + data[at + size :]
    if kind == 4:  # the length of the header
        wrong = rng.choice((rng.randrange(2**64), rng.randrange(4000), len(data), 2**63, 2**31))
        return wrong.to_bytes(8, "little") + data[8:]
    if kind == 5:  # numbers in the header: sizes and offsets of arrays
        digits = [i for i in range(8, min(len(data), 1500)) if 48 <= data[i] <= 57]
        place = rng.choice(digits) if digits else at
        return data[:place] + rng.choice((b"9" * 18, b"-1", b"0", b"7", b"1e9", b"[")) + data[place + 1 :]
    if kind == 6:
        other = rng.choice(others)
        return data[:at] + other[rng.randrange(len(other)) :]
    return data[:at] + rng.randbytes(min(size, len(data) - at)) + data[at + size :]


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_thirty_thousand_damaged_files_are_refused(files, keys):
    rng, before, refused = random.Random(7), peak(), 0
    every = [data for data, _ in files.values()]
    for name, (data, read) in files.items():
        content = read(data)
        for _ in range(3000):
            bad = mutated(data, every, rng)
            try:
                assert read(bad) == content or bad in every, name
            except MessageError:
                refused += 1
    assert refused > 29_000
    assert peak() - before < 2**30


def test_coded_messages_are_attacked_where_they_are_decoded():
    """The same, 100,000 times: `python -m tests.messages.mutations 100000`."""
    before = peak()
    found = mutations.attack(3000, seed=1)
    assert found[False] > 2000  # of those that are messages still, many have other values: a guest may send any
    assert found[True] > 100
    assert peak() - before < 2**29


def test_a_flipped_signature_is_no_signature(messages, keys):
    data = messages["signed"].to_bytes()
    at, rng, read = data.index(b'"signature"'), random.Random(1), 0
    for _ in range(300):
        place = rng.randrange(at, at + 280)
        bad = data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]
        try:
            message = Representation.from_bytes(bad)
        except MessageError:
            continue
        read += 1
        assert not keys.public.verify(message.checksum, message.signature)
    assert read > 100


def forged(message, rng):
    """Return a message with another content whose checksum is right: whoever makes messages can make any."""
    header, tensors = message._content()
    for _ in range(rng.randint(1, 2)):
        if rng.random() < 0.6:
            header[rng.choice((*header, "ids", "normalised", "model"))] = rng.choice(WORDS)
            continue
        name = rng.choice((*tensors, "values", "present", "ids", "low", "more"))
        old = tensors.get(name, np.zeros((ROWS, 8), np.uint8))
        worst = 255 if old.dtype == np.uint8 else np.nan
        tensors[name] = rng.choice(
            (
                old[:0],
                old[:-1],
                old.ravel(),
                old.astype(np.float64),
                np.full_like(old, worst),
                np.concatenate([old, old]),
                np.zeros_like(old),
                np.full_like(old, 1),
                old[::-1],
            )
        )
    return envelope.pack("message", header, tensors, rng.choice(("", "x", "ab" * 64 + ":" + "cd" * 64)))


def test_forged_messages_never_crash_the_host_or_inspect(messages, table):
    rng, survived, trained = random.Random(3), 0, 0
    label = np.arange(ROWS) % 2
    for _ in range(2500):
        name = rng.choice(list(messages))
        try:
            message = Representation.from_bytes(forged(messages[name], rng))
        except MessageError:
            continue
        survived += 1
        own = table if messages[name].ids is not None else replace(table, ids=None)
        with suppress(MessageError):
            assert describe_message(message, 1, "file")["party"] == message.party
        host = Host("bank", epochs=1, secret=SECRET)
        with suppress(FedOnceError):
            host.adopt(replace(host.state, dims={message.party: message.dim}))
            host.arrange(own, [message])
            if trained < 25:
                host.aggregate(own, label, [message])
                assert np.isfinite(host.outputs(own, [message])).all()
                trained += 1
    assert survived > 200
    assert trained == 25


@pytest.mark.parametrize(
    "tensors",
    [
        {"values": {"dtype": "U8", "shape": [2**32, 2**32], "data_offsets": [0, 0]}},
        {"values": {"dtype": "F32", "shape": [2**40, 8], "data_offsets": [0, 2**45]}},
        {"values": {"dtype": "U8", "shape": [2**40, 0], "data_offsets": [0, 0]}},
        {"values": {"dtype": "U8", "shape": [-1, 8], "data_offsets": [0, 8]}},
        {"values": {"dtype": "BF16", "shape": [12, 3], "data_offsets": [0, 72]}},
        {"values": {"dtype": "F8_E4M3", "shape": [12, 3], "data_offsets": [0, 36]}},
        {"values": [[[[[[]]]]]]},
    ],
)
def test_promises_of_large_arrays_cost_nothing(messages, tensors):
    header, _ = messages["32 bits"]._content()
    texts = {"format": f"message {envelope.VERSION}", **header, "n": str(2**40), "d": "8", "checksum": "0" * 64}
    head = json.dumps({"__metadata__": texts, **tensors}, sort_keys=True, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    before = peak()
    with pytest.raises(MessageError):
        Representation.from_bytes(len(head).to_bytes(8, "little") + head + b"\0" * 72)
    assert peak() - before < 2**26


def test_a_text_of_another_party_stays_in_its_line(messages, tmp_path, capsys):
    from fedonce.cli.terminal import show

    header, tensors = messages["32 bits"]._content()
    header |= {"learner": "pca\nsignature  verified", "note": "\x1b[1A\x1b[2Kfine"}
    (tmp_path / "m").write_bytes(envelope.pack("message", header, tensors))
    show(inspect(tmp_path / "m"))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\nsignature  verified" not in shown
    assert r"pca\nsignature  verified (\x1b[1A\x1b[2Kfine)" in shown


def test_forged_alignments_are_refused(files, table):
    asked, answer, state = (files[name][0] for name in ("request", "response", "state"))
    rng, tried = random.Random(0), 0
    for kind, data, keys in (
        (alignment.REQUEST, asked, ("party", "run", "reveal", "forms", "nonce")),
        (alignment.RESPONSE, answer, ("party", "host", "run", "nonce")),
    ):
        read = envelope.unpack(data, kind, keys)
        for _ in range(60):
            header, tensors = dict(read.header), {name: array.copy() for name, array in read.tensors.items()}
            if rng.random() < 0.5:
                header[rng.choice(keys)] = rng.choice(WORDS)
            else:
                points = tensors[rng.choice(list(tensors))]
                points[rng.randrange(len(points)), rng.randrange(33)] ^= 1 << rng.randrange(8)
            bad = envelope.pack(kind, header, tensors)
            tried += 1
            with suppress(FedOnceError):
                if kind == alignment.REQUEST:
                    alignment.respond(bad, table.ids, "shop")
                else:
                    alignment.finish(state, bad, table.ids)
    assert tried == 120


def damage(path, rng):
    data = path.read_bytes()
    at = rng.randrange(len(data))
    flipped = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    path.write_bytes(rng.choice((flipped, flipped, data[:at], data[:at] + b"{" + data[at:], b"")))
    return data


def test_damaged_models_are_refused(messages, table, tmp_path):
    own = replace(table, ids=None)
    guest = Guest("shop", "pca", 3, 32)
    message = guest.learn(own)
    guest.save(tmp_path / "guest")
    host = Host("bank", epochs=1)
    host.aggregate(own, np.arange(ROWS) % 2, [message])
    host.save(tmp_path / "host", {"shop": message.to_bytes()})
    rng, refused = random.Random(4), 0
    for kind, load in (("guest", Guest.load), ("host", Host.load)):
        for path in sorted((tmp_path / kind).iterdir()):
            for _ in range(40):
                data = damage(path, rng)
                with pytest.raises(
                    InputError, match=f"model in {tmp_path / kind} |{tmp_path / kind}/manifest.json is not"
                ):
                    load(tmp_path / kind)
                refused += 1
                path.write_bytes(data)
    assert refused == 40 * 9
    shutil.rmtree(tmp_path / "host")
    with pytest.raises(InputError, match="no model in"):
        Host.load(tmp_path / "host")
