from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from fedonce import MessageError
from fedonce.messages.envelope import (
    HEADER_LIMIT,
    SEALED,
    VERSION,
    checksum,
    is_name,
    kind_of,
    pack,
    read_bytes,
    unpack,
)

HEADER = {"party": "shop", "run": "june"}
TENSORS = {"b": np.arange(6, dtype=np.int64).reshape(2, 3), "a": np.zeros((0, 2), np.float32)}


def read(data, party=None, optional=()):
    return unpack(data, "parcel", ("party", "run"), party, optional)


def forged(header=None, tensors=None, kind="parcel", version=VERSION, **more):
    """A file whose checksum is right, whatever else is not."""
    header, tensors = {**HEADER, **(header or {})}, TENSORS if tensors is None else tensors
    texts = {"format": f"{kind} {version}", **header, "checksum": checksum(kind, header, tensors), **more}
    made = save(tensors, metadata=texts)
    length = struct.unpack("<Q", made[:8])[0]
    text = json.dumps(json.loads(made[8 : 8 + length]), sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + made[8 + length :]


def test_texts_and_arrays_come_back():
    data = pack("parcel", HEADER, TENSORS, "by me")
    got = read(data)
    assert (got.header, got.signature) == (HEADER, "by me")
    assert got.checksum == checksum("parcel", HEADER, TENSORS)
    for name, tensor in TENSORS.items():
        np.testing.assert_array_equal(got.tensors[name], tensor)
        assert got.tensors[name].dtype == tensor.dtype
    assert data == forged(signature="by me")  # what the forgeries below start from is what we write


def test_the_same_content_is_the_same_bytes():
    backwards = dict(reversed(HEADER.items())), dict(reversed(TENSORS.items()))
    assert pack("parcel", HEADER, TENSORS) == pack("parcel", *backwards)
    columns = {**TENSORS, "b": np.asfortranarray(TENSORS["b"])}
    assert pack("parcel", HEADER, columns) == pack("parcel", HEADER, TENSORS)


def test_the_checksum_covers_everything_and_not_the_signature():
    told = checksum("parcel", HEADER, TENSORS)
    b = TENSORS["b"]
    others = [
        ("letter", HEADER, TENSORS),
        ("parcel", {**HEADER, "run": "july"}, TENSORS),
        ("parcel", HEADER, {**TENSORS, "c": b}),
        ("parcel", HEADER, {"b": b}),
        ("parcel", HEADER, {**TENSORS, "b": b + 1}),
        ("parcel", HEADER, {**TENSORS, "b": b.reshape(3, 2)}),
        ("parcel", HEADER, {**TENSORS, "b": b.view(np.uint64)}),
    ]
    assert len({told, *(checksum(*other) for other in others)}) == 1 + len(others)
    assert read(pack("parcel", HEADER, TENSORS, "x")).checksum == told


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "^The parcel is refused: .*not a fedonce parcel, or it is cut short"),
        (b"PK\3\4 a zip of some kind", "cut short"),
        (forged()[:40], "cut short"),
        (struct.pack("<Q", 2**63) + b"{}", "cut short"),
        (struct.pack("<Q", 8) + b"\xff" * 8, "header is damaged"),
        (struct.pack("<Q", 3) + b"[1]", "header is damaged"),
        (struct.pack("<Q", 3000) + b"[" * 3000, "header is damaged"),
        (save(TENSORS), "not a fedonce parcel"),
        (forged(version="2"), "format version is '2', this program reads '3'; update the older side"),
        (forged(kind="letter"), "another kind: 'letter'"),
        (forged({"more": "x"}), "must have the entries checksum, party, run and no others"),
        (forged({"party": "a\nb"}), "not a name"),
        (forged({"party": "x" * 101}), "not a name"),
        (forged(checksum="0" * 64), "'shop'.*checksum does not match its content; ask for the file again"),
        (forged()[:-1], "'shop'.*cut short or damaged"),
        (forged() + b"x", "'shop'.*cut short or damaged"),
        (SEALED + b"x" * 100, "it is sealed; open it"),
    ],
)
def test_files_that_are_refused(data, told):
    with pytest.raises(MessageError, match=told):
        read(data)


def test_a_header_beyond_the_limit_is_not_even_read():
    data = forged({"run": "x" * HEADER_LIMIT})
    with pytest.raises(MessageError, match="cut short"):
        read(data)
    with pytest.raises(MessageError, match="texts of the parcel of party 'shop'.*too long; shorten"):
        pack("parcel", {**HEADER, "run": "x" * HEADER_LIMIT}, TENSORS)


def test_texts_that_are_none_are_refused():
    data = forged()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"]["run"] = 3
    text = json.dumps(header).encode()
    with pytest.raises(MessageError, match="must be texts"):
        read(struct.pack("<Q", len(text)) + text + data[8 + length :])


def test_a_header_in_another_hand_is_refused():
    """Spaces or an entry written twice could carry something along, past the checksum."""
    data = forged()
    length = struct.unpack("<Q", data[:8])[0]
    text = data[8 : 8 + length].rstrip().replace(b'{"__', b'{ "__', 1)
    text += b" " * (-len(text) % 8)
    with pytest.raises(MessageError, match="not written as fedonce writes it"):
        read(struct.pack("<Q", len(text)) + text + data[8 + length :])


def test_a_file_is_from_whom_it_is_expected():
    data = pack("parcel", HEADER, TENSORS)
    assert read(data, "shop").header == HEADER
    with pytest.raises(MessageError, match="'bank' is refused: it says that it is from party 'shop'"):
        read(data, "bank")


def test_optional_entries_may_be_there_or_not():
    assert read(forged({"more": "x"}), optional=("more",)).header == {**HEADER, "more": "x"}
    assert read(forged(), optional=("more",)).header == HEADER


@given(st.integers(0, len(forged()) - 1), st.integers(1, 255))
@settings(max_examples=200, deadline=None)
def test_no_changed_byte_goes_unnoticed(place, change):
    data = bytearray(forged())
    data[place] ^= change
    with pytest.raises(MessageError):
        read(bytes(data))
    kind_of(bytes(data))  # and looking what it is does not fail


def test_kinds():
    assert kind_of(forged()) == "parcel"
    assert kind_of(SEALED + b"...") == "sealed"
    for data in (b"", b"short", save(TENSORS), struct.pack("<Q", 3) + b"[1]", struct.pack("<Q", 3000) + b"[" * 3000):
        assert kind_of(data) is None


def test_names():
    assert all(map(is_name, ("a", "é" * 50, "two words")))
    assert not any(map(is_name, ("", "é" * 51, "a\nb", "\ud800", "a\0", None, 3)))


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(MessageError, match="The plan .*nowhere cannot be read: No such file"):
        read_bytes(tmp_path / "nowhere", "plan")
