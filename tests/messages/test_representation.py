from __future__ import annotations

import json
import struct
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from fedonce import InputError, MessageError
from fedonce.messages.codecs import BITS, find
from fedonce.messages.representation import Representation, row_digest
from fedonce.messages.traffic import Traffic


def message(n=10, d=3, bits=8, seed=0, **header):
    values = np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)
    header = {"party": "shop", "rows": row_digest(n), **header}
    return Representation.encode(values, find(bits).fit(values), **header), values


@given(n=st.integers(0, 40), d=st.integers(1, 70), bits=st.sampled_from(BITS), seed=st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_bytes_and_back(n, d, bits, seed):
    sent, _ = message(n, d, bits, seed) if n else (_empty(d, bits), None)
    got = Representation.from_bytes(sent.to_bytes())
    np.testing.assert_array_equal(got.values, sent.values)
    assert (got.party, got.rows, got.bits, got.dim, got.n_rows) == (sent.party, sent.rows, bits, d, n)
    assert got.to_bytes() == sent.to_bytes()


def _empty(d, bits):
    codec = find(bits).fit(np.ones((2, d), np.float32))
    return Representation.encode(np.zeros((0, d), np.float32), codec, "shop", rows=row_digest(0))


@pytest.mark.parametrize(("bits", "error"), [(32, 0), (16, 2e-3), (8, 0.03), (4, 0.3)])
def test_rounding_is_as_fine_as_the_bits(bits, error):
    sent, values = message(1000, 4, bits)
    assert np.sqrt(np.square(sent.values - values).mean()) <= error


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("d", [1, 3, 64, 65, 500])
def test_size_without_ids_is_payload_and_at_most_4_kib(bits, d):
    sent, _ = message(101, d, bits, run="r" * 100, learner="l" * 60, note="dim lowered from 100 to 3")
    assert sent.payload_bytes == -(-101 * d * bits // 8)
    assert sent.nbytes <= sent.payload_bytes + 4096


def test_longest_names_fit_in_the_header():
    sent, _ = message(5, 64, party="é" * 50, run="r" * 100, learner="x" * 60)
    assert sent.nbytes <= sent.payload_bytes + 4096
    assert Representation.from_bytes(sent.to_bytes()).party == "é" * 50
    with pytest.raises(MessageError, match="too long"):
        message(5, 3, note="x" * 3000)[0].to_bytes()


def test_marks_beyond_the_last_row_are_refused():
    mask = np.array([True, False, True])
    data = message(2, 2, present=mask, rows=row_digest(3))[0].to_bytes()
    with pytest.raises(MessageError, match="beyond its last one"):
        Representation.from_bytes(forge(data, {"present": np.array([0b10010000], np.uint8)}))


def test_absurdly_large_values_are_refused():
    data = message(bits=32)[0].to_bytes()
    with pytest.raises(MessageError, match="beyond 1e"):
        Representation.from_bytes(forge(data, {"values": np.full((10, 3), 3e38, np.float32)}))


def test_any_kind_of_bytes_can_be_read():
    data = message()[0].to_bytes()
    assert (
        Representation.from_bytes(bytearray(data)).party == Representation.from_bytes(memoryview(data)).party == "shop"
    )


def test_files_are_whole_and_read_with_the_same_care(tmp_path):
    sent, _ = message()
    path = sent.to_file(tmp_path / "shop.fedonce")
    assert [file.name for file in tmp_path.iterdir()] == ["shop.fedonce"]
    np.testing.assert_array_equal(Representation.from_file(path, "shop").values, sent.values)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(MessageError, match="'shop'"):
        Representation.from_file(path, "shop")
    with pytest.raises(InputError, match="use from_file"):
        Representation.from_bytes("shop.fedonce")
    with pytest.raises(InputError, match="cannot be written"):
        sent.to_file(tmp_path / "nowhere" / "shop.fedonce")


def test_a_message_does_not_change():
    sent, _ = message()
    with pytest.raises(ValueError, match="read-only"):
        sent.values[0] = 0
    with pytest.raises(FrozenInstanceError):
        sent.party = "bank"


def test_rows_that_only_some_have():
    mask = np.array([True, False, True, True, False, False, True, True, True])
    sent, _ = message(int(mask.sum()), 2, present=mask, rows=row_digest(len(mask)))
    got = Representation.from_bytes(sent.to_bytes())
    np.testing.assert_array_equal(got.present, mask)
    assert (got.n_rows, len(got.values), got.id_bytes) == (9, 6, 2)


def test_ids_travel_and_are_counted():
    ids = np.random.default_rng(0).integers(0, 256, (10, 8), dtype=np.uint8)
    sent, _ = message(10, 2, ids=ids, naming="hashed", forms=("trim",))
    got = Representation.from_bytes(sent.to_bytes())
    np.testing.assert_array_equal(got.ids, ids)
    assert (got.id_bytes, got.naming, got.forms) == (80, "hashed", ("trim",))
    for wrong in ({"ids": ids[:, :7], "naming": "hashed"}, {"ids": ids, "naming": ""}, {"naming": "plain"}):
        with pytest.raises(MessageError, match="ids|hashes"):
            Representation.from_bytes(message(10, 2, **wrong)[0].to_bytes())


def test_values_beyond_the_frozen_scale_go_to_its_edge():
    codec = find(8).fit(np.array([[0.0], [1.0]], np.float32))
    sent = Representation.encode(np.array([[-5.0], [7.0]], np.float32), codec, "a", rows="")
    np.testing.assert_allclose(sent.values, [[0.0], [1.0]])


def test_constant_column_survives_rounding():
    values = np.full((20, 1), 3.25, np.float32)
    sent = Representation.encode(values, find(4).fit(values), "a", rows="")
    np.testing.assert_array_equal(sent.values, values)


def test_digest_depends_on_order_and_number():
    ids = np.arange(16, dtype=np.uint8).reshape(2, 8)
    assert len({row_digest(2), row_digest(3), row_digest(2, ids), row_digest(2, ids[::-1])}) == 4


# --- what comes from another party is hostile until checked ---


def forge(data: bytes, tensors=None, **changes) -> bytes:
    """Rewrite a message's header or tensors; the checksum stays as it was unless it is changed too."""
    from safetensors.numpy import load

    from fedonce.messages import envelope

    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])["__metadata__"] | changes
    found = load(data) | (tensors or {})
    header = {k: v for k, v in header.items() if v is not None}
    if "checksum" not in changes:
        texts = {k: v for k, v in header.items() if k not in ("format", "checksum", "signature")}
        header["checksum"] = envelope.checksum("message", texts, found)
    return envelope._canonical(save(found, metadata=header))


FORGERIES = {
    "version": ({"format": "message 99"}, "format version is '99'"),
    "the version before": ({"format": "2"}, "format version is '2'"),
    "another kind": ({"format": "rows 3"}, "another kind: 'rows'"),
    "ids of a kind nobody knows": ({"ids": "rot13"}, "does not know"),
    "ids announced": ({"ids": "hashed"}, "has none"),
    "a word that is no rule": ({"normalised": "<b>"}, "does not know"),
    "checksum": ({"checksum": "0" * 64}, "checksum does not match"),
    "more rows than there are": ({"n": "11"}, r"shape \(10, 3\)"),
    "absurd rows": ({"n": "99999999999999"}, "not the sizes"),
    "absurd width": ({"d": "999999999"}, "not the sizes"),
    "not a number": ({"n": "ten"}, "not a number"),
    "digits of another script": ({"n": "١٠"}, "not a number"),
    "negative": ({"n": "-1"}, "not a number"),
    "bits": ({"bits": "7"}, "written with 7 bits, which this program does not know; it has 32, 16, 8, 4"),
    "another encoding": ({"bits": "32"}, "carries tensors .* and must carry values, and"),
    "noise in words": ({"noise": "much"}, "'noise' is 'much'"),
    "noise without end": ({"noise": "inf"}, "'noise' is 'inf'"),
    "missing entry": ({"run": None}, "header must have"),
    "extra entry": ({"secret": "x"}, "header must have"),
    "no name": ({"party": ""}, "not a name"),
    "a name that moves the cursor": ({"party": "\x1b[31mx"}, "not a name"),
    "another party": ({"party": "bank"}, "it is from party 'bank'"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_header_is_refused_with_the_party_s_name(name):
    changes, reason = FORGERIES[name]
    data = forge(message()[0].to_bytes(), **changes)
    with pytest.raises(MessageError, match=reason) as caught:
        Representation.from_bytes(data, party="shop")
    assert "'shop'" in str(caught.value)


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ({"values": np.zeros((10, 3), np.int64)}, "int64"),
        ({"extra": np.zeros(3, np.uint8)}, "tensors"),
        ({"low": np.full(3, np.nan, np.float32)}, "not a range"),
        ({"high": np.full(3, -9, np.float32)}, "not a range"),
        ({"high": np.full(3, 3e38, np.float32)}, "not a range"),
        ({"high": np.zeros(5, np.float32)}, "shape"),
        ({"ids": np.zeros((4, 8), np.uint8)}, "ids"),
        ({"present": np.zeros(9, np.uint8)}, "present"),
    ],
)
def test_forged_tensors_are_refused(tensors, reason):
    with pytest.raises(MessageError, match=reason):
        Representation.from_bytes(forge(message()[0].to_bytes(), tensors))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("bits", "dtype"), [(32, np.float32), (16, np.float16)])
def test_values_that_are_not_finite_are_refused(value, bits, dtype):
    data = message(bits=bits)[0].to_bytes()
    with pytest.raises(MessageError, match="not finite"):
        Representation.from_bytes(forge(data, {"values": np.full((10, 3), value, dtype)}))


@given(position=st.integers(0, 10_000), value=st.integers(0, 255))
@settings(max_examples=150, deadline=None)
def test_one_changed_byte_is_noticed(position, value):
    data = bytearray(message()[0].to_bytes())
    position %= len(data)
    changed = data[position] != value
    data[position] = value
    if changed:
        with pytest.raises(MessageError):
            Representation.from_bytes(bytes(data))


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_noise_is_refused(data):
    with pytest.raises(MessageError):
        Representation.from_bytes(data)


@pytest.mark.parametrize("cut", [0, 7, 8, 100, -1])
def test_short_files_are_refused(cut):
    with pytest.raises(MessageError):
        Representation.from_bytes(message()[0].to_bytes()[:cut])


def test_header_that_asks_for_absurd_memory_is_refused():
    header = json.dumps({"values": {"dtype": "F32", "shape": [2**40, 2**20], "data_offsets": [0, 2**62]}}).encode()
    with pytest.raises(MessageError):
        Representation.from_bytes(struct.pack("<Q", 2**60) + header)
    with pytest.raises(MessageError):
        Representation.from_bytes(struct.pack("<Q", len(header)) + header)


def test_a_guest_that_diverged_does_not_send():
    values = np.array([[np.nan]], np.float32)
    with pytest.raises(MessageError, match="'shop' learnt values that are not finite"):
        Representation.encode(values, find(32).fit(values), "shop", rows="")


def test_traffic_counts():
    traffic, (sent, _) = Traffic(), message()
    traffic.add(sent, sent.nbytes)
    traffic.add(sent, sent.nbytes)
    assert (traffic.messages, traffic.bytes, traffic.payload_bytes) == (2, 2 * sent.nbytes, 60)
    assert traffic.per_guest == {"shop": 2 * sent.nbytes}
    total = Traffic()
    traffic.absent = ("telco",)
    total.include(traffic)
    assert (total.bytes, total.absent) == (traffic.bytes, ("telco",))
