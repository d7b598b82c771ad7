from __future__ import annotations

import zlib

import numpy as np
import pytest

from fedonce import MessageError
from fedonce.messages.codecs.inflating import PIECE, Tables

DATA = np.random.default_rng(0).integers(0, 4, 5 * PIECE).astype(np.uint8).tobytes()


@pytest.mark.parametrize("sizes", [[1], [7, PIECE, 0, 3], [3 * PIECE, 1], [len(DATA)]])
def test_bytes_are_taken_in_their_order_whatever_the_pieces(sizes):
    tables, found = Tables(zlib.compress(DATA), MessageError), b""
    while len(found) < len(DATA):
        size = sizes[len(found) % len(sizes)]
        found += tables.take(min(size or 1, len(DATA) - len(found))).tobytes()
    assert found == DATA
    tables.end()
    with pytest.raises(MessageError, match="end too early"):
        tables.take(1)


@pytest.mark.parametrize(
    "data", [zlib.compress(DATA) + b"x", zlib.compress(DATA + b"x"), zlib.compress(DATA)[:-1], zlib.compress(DATA) * 2]
)
def test_nothing_hides_beyond_the_end(data):
    tables = Tables(data, MessageError)
    assert tables.take(len(DATA)).tobytes() == DATA
    with pytest.raises(MessageError, match="beyond their end, or are cut off"):
        tables.end()


def test_what_was_not_deflated_is_refused():
    with pytest.raises(MessageError, match="cannot be read"):
        Tables(b"no deflated bytes", MessageError).take(1)
