"""Integers are read as they were written, in no more bytes than plain ones and some marks, and nothing else is read."""

from __future__ import annotations

import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedonce import MessageError
from fedonce.messages.codecs.packing import COUNTS, ENDS, estimate, most_bytes, most_memory, pack, unpack

rng = np.random.default_rng(0)


def read(data, rows, levels, groups):
    """Return all columns, and whether each came once."""
    codes, seen = np.zeros((rows, len(levels)), np.uint16), []
    for column, found in unpack(np.frombuffer(bytes(data), np.uint8), rows, levels, groups, MessageError):
        codes[:, column] = found
        seen.append(column)
    assert sorted(seen) == (list(range(len(levels))) if rows else [])
    return codes


def together(dim):
    return [list(range(dim))]


@st.composite
def tables(draw):
    """Integers of every kind: skewed, repeated, constant, all distinct, of many columns or few, in groups."""
    rows, dim = draw(st.integers(0, 300)), draw(st.sampled_from([1, 2, 3, 8, 70]))
    levels = draw(st.lists(st.sampled_from([0, 1, 3, 15, 255, 256, 4095]), min_size=dim, max_size=dim))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    skew = draw(st.sampled_from([0.1, 1.0, 8.0, 100.0]))
    codes = np.floor(generator.random((rows, dim)) ** skew * (np.array(levels) + 1)).astype(np.uint16)
    if rows and draw(st.booleans()):
        codes = codes[generator.integers(0, min(rows, draw(st.integers(1, 30))), rows)]
    order, parts = generator.permutation(dim), draw(st.integers(1, dim))
    return codes, levels, [part.tolist() for part in np.array_split(order, parts)]


@settings(max_examples=150, deadline=None)
@given(tables())
def test_what_is_packed_is_unpacked_and_no_longer_than_it_may_be(table):
    codes, levels, groups = table
    data = pack(codes, levels, groups)
    assert (data.dtype, data.ndim) == (np.uint8, 1)
    np.testing.assert_array_equal(read(data, len(codes), levels, groups), codes)
    bits = max(levels).bit_length()
    assert len(data) <= most_bytes(len(codes), len(levels), bits)
    plain = len(codes) * sum(np.log2(np.array(levels) + 1)) / 8
    assert len(data) <= plain * 1.001 + 2 * len(levels) + 64
    if len(codes) and len(groups) == 1:
        about = estimate(codes, levels, len(codes))
        assert about * 0.9 - 2 * len(levels) - ENDS <= len(data) <= about * 1.02 + 2 * len(levels) + ENDS


@pytest.mark.parametrize("bits", [1, 4, 8, 12])
@pytest.mark.parametrize("rows", [1, 30, 1000, 30_000])
def test_what_cannot_be_shortened_takes_what_plain_integers_take(bits, rows):
    codes = rng.integers(0, 2**bits, (rows, 4)).astype(np.uint16)
    size = len(pack(codes, [2**bits - 1] * 4, together(4)))
    assert rows * 4 * bits / 8 * 0.99 - 5 <= size <= rows * 4 * bits / 8 + 40
    assert size <= most_bytes(rows, 4, bits)


def test_columns_and_rows_that_repeat_take_little():
    skewed = np.minimum(rng.geometric(0.5, (20_000, 3)) - 1, 255).astype(np.uint16)
    assert len(pack(skewed, [255] * 3, together(3))) < 20_000 * 3 * 2 / 8 * 1.02  # the entropy is 2 bits
    cells = rng.integers(0, 4096, (16, 30)).astype(np.uint16)[rng.integers(0, 16, 20_000)]
    assert len(pack(cells, [4095] * 30, together(30))) < 20_000 * 4 / 8 * 1.02 + 16 * 30 * 2
    constant = np.full((20_000, 5), 7, np.uint16)
    assert len(pack(constant, [15] * 5, together(5))) < 60


def test_groups_are_written_by_what_suits_each():
    cells = rng.integers(0, 256, (8, 10)).astype(np.uint16)[rng.integers(0, 8, 5000)]
    others = rng.integers(0, 256, (5000, 2)).astype(np.uint16)
    codes, levels = np.hstack([cells[:, :5], others, cells[:, 5:]]), [255] * 12
    apart = [[0, 1, 2, 3, 4, 7, 8, 9, 10, 11], [5, 6]]
    data = pack(codes, levels, apart)
    assert len(data) < 5000 * (3 / 8 + 2) * 1.02 + 200 < len(pack(codes, levels, together(12)))
    np.testing.assert_array_equal(read(data, 5000, levels, apart), codes)


def test_counts_are_told_in_a_byte_each_and_small_ones_exactly():
    assert COUNTS[:17].tolist() == list(range(17))
    assert (np.diff(COUNTS) > 0).all()
    assert (np.diff(COUNTS)[16:] / COUNTS[16:-1] <= 1 / 8).all()
    assert COUNTS[-1] > 2**33


def forged(table, words=b""):
    deflated = zlib.compress(bytes(table))
    return len(deflated).to_bytes(4, "little") + deflated + words


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "cut off"),
        (b"\1\0", "cut off"),
        (b"\xff" * 8, "cut off"),
        (forged([0, 0], b"abc"), "cut off"),
        ((5).to_bytes(4, "little") + b"abcde", "cannot be read"),
        ((8).to_bytes(4, "little") + zlib.compress(b"\0" * 9)[:8], "end too early|cut off"),
        (forged([]), "end too early"),
        (forged([2]), "of the kind 2"),
        (forged([0, 7]), "in the way 7"),
        (forged([0, 1, *[0] * 16]), "is empty"),
        (forged([0, 1, *[1] * 15]), "end too early"),
        (forged([0, 0, 0]), "beyond their end"),
        (forged([0, 0], b"\xff" * 4000), "cannot be decoded"),
        (forged([0, 0], b"\x01" * 4000), "beyond their end"),
        (forged([1, 0, 0, 0, 0]), "announces 0 distinct rows"),
        (forged([1, 255, 255, 255, 255]), "announces 4294967295 distinct rows of 9"),
        (forged([1, 10, 0, 0, 0, *[1] * 20]), "announces 10 distinct rows of 9"),
        (forged([1, 2, 0, 0, 0, 3, 16, 1, 1]), "beyond its steps"),
        (forged([1, 2, 0, 0, 0, 3, 5, 0, 0]), "is empty"),
        (forged([1, 2, 0, 0, 0, 3, 5, 1]), "end too early"),
    ],
)
def test_what_was_not_packed_is_refused(data, told):
    with pytest.raises(MessageError, match=told):
        read(data, 9, [15], [[0]])


def test_values_of_no_rows_are_refused():
    assert read(b"", 0, [15], [[0]]).shape == (0, 1)
    with pytest.raises(MessageError, match="values of no rows"):
        read(b"\0", 0, [15], [[0]])


def test_a_table_needs_rows():
    with pytest.raises(MessageError, match="too few rows"):
        read(forged([0, 1, *[1] * 4096]), 511, [4095], [[0]])
    assert read(forged([0, 1, *[1] * 4096]), 512, [4095], [[0]]).shape == (512, 1)


def test_a_bomb_is_inflated_no_further_than_it_is_read():
    bomb = forged(b"\0" * 2**28)
    tracemalloc.start()
    with pytest.raises(MessageError, match="beyond their end"):
        read(bomb, 9, [15], [[0]])
    assert tracemalloc.get_traced_memory()[1] < 2**21
    tracemalloc.stop()


@pytest.mark.parametrize("distinct", [10, 2**16])
def test_memory_is_as_announced(distinct):
    rows, dim = 80_000, 20
    codes = rng.integers(0, 4096, (distinct, dim)).astype(np.uint16)[np.arange(rows) % distinct]
    table = [1, *distinct.to_bytes(4, "little"), *codes[:distinct].T.tobytes(), *[1] * distinct]
    data = np.frombuffer(forged(table), np.uint8)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in unpack(data, rows, [4095] * dim, together(dim), MessageError):
        pass
    assert tracemalloc.get_traced_memory()[1] - before - 3 * len(data) < most_memory(rows, dim)
    tracemalloc.stop()
