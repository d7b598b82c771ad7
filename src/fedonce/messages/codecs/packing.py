"""Integers in as few bytes as they need: a range coder by how often each occurs, column by column or by distinct rows.

What is written is a small part that is deflated, the tables, and the words of one range coder (the library `constriction`).
Tables say how often each integer of a column occurs; or, where the rows of columns that belong together repeat, which
distinct rows there are, and how often each occurs. Whichever is shorter is taken.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.messages.codecs.base import Fail
from fedonce.messages.codecs.steps import Codes

APART, DISTINCT = 0, 1  # how a group of columns is written
MOST_DISTINCT = 2**16  # rows in a table
SAMPLE = 20_000  # rows by which to see early that most are distinct
# What a byte of a table stands for: a whole number exactly up to 15, then with four leading bits. Integers alone: every
# machine makes the same model of it.
COUNTS = np.array([b if b < 16 else (8 + b % 8) << (b // 8 - 1) for b in range(256)], np.int64)
_BETWEEN = (COUNTS[:-1] + COUNTS[1:] + 1) // 2  # from here on the next byte is nearer

Bytes = NDArray[np.uint8]
Symbols = NDArray[np.int32]


@dataclass(frozen=True)
class _Part:
    """A group of columns, written: its table, its symbols with how often each occurs, and about how many bytes both take."""

    table: bytes
    symbols: list[tuple[Symbols, Bytes]]
    words: float

    @cached_property
    def tables(self) -> int:
        return len(zlib.compress(self.table, 1))

    @property
    def size(self) -> float:
        return self.tables + self.words


def pack(codes: Codes, levels: Sequence[int], groups: Sequence[Sequence[int]]) -> Bytes:
    """Return rows of integers as bytes; `levels` has the largest of each column, `groups` the columns that belong together."""
    if not len(codes):
        return np.zeros(0, np.uint8)
    parts = []
    for group in groups:
        own, most = codes[:, group], [levels[column] for column in group]
        parts.append(min(filter(None, (_apart(own, most), _distinct(own, most))), key=lambda part: part.size))
    tables = zlib.compress(b"".join(part.table for part in parts), 9)
    coder = _coder().RangeEncoder()
    for symbols, counts in (each for part in parts for each in part.symbols):
        coder.encode(symbols, _model(counts))
    words = coder.get_compressed().astype("<u4").tobytes()
    return np.frombuffer(len(tables).to_bytes(4, "little") + tables + words, np.uint8)


def unpack(data: Bytes, rows: int, levels: Sequence[int], groups: Sequence[Sequence[int]], fail: Fail) -> Codes:
    """Return the integers that `pack` wrote; the bytes come from another party, and are checked before memory is taken."""
    codes = np.zeros((rows, len(levels)), np.uint16)
    if not rows:
        if len(data):
            raise fail("it has values of no rows")
        return codes
    tables, coder = _opened(data, _most_tables(rows, levels, groups), fail)
    for group in groups:
        most = [levels[column] for column in group]
        kind = tables.take(1)[0]
        if kind not in (APART, DISTINCT):
            raise fail(f"a table of its values is of the kind {kind}, which this program does not know")
        read = _read_apart if kind == APART else _read_distinct
        codes[:, group] = read(tables, coder, rows, most, fail)
    if len(tables.left) or not coder.maybe_exhausted():
        raise fail("its values go on beyond their end")
    return codes


def most_bytes(rows: int, dim: int, bits: int) -> int:
    """Return how many bytes `pack` writes, at most: what plain integers take and a table per column."""
    plain = rows * dim * (bits + 1) // 8 + dim * 2**bits
    return plain + plain // 1000 + 64 if rows else 0


def estimate(codes: Codes, levels: Sequence[int], rows: int) -> float:
    """Return about how many bytes so many rows like these take, of columns that belong together."""
    found = [part for part in (_apart(codes, levels), _distinct(codes, levels)) if part is not None]
    return min(part.tables + part.words * rows / len(codes) for part in found)


def _apart(codes: Codes, levels: Sequence[int]) -> _Part:
    """Write each column by how often its integers occur."""
    symbols, table, size = [], bytearray([APART]), 0.0
    for column, most in zip(codes.T, levels, strict=True):
        if most:
            counts = np.bincount(column, minlength=most + 1)
            symbols.append((column.astype(np.int32), _rounded(counts)))
            table += symbols[-1][1].tobytes()
            size += _coded_size(counts)
    return _Part(bytes(table), symbols, size)


def _distinct(codes: Codes, levels: Sequence[int]) -> _Part | None:
    """Write which distinct rows there are, the most frequent first, and which one each row is; None: there are too many."""
    found = _distinct_rows(codes, levels)
    if found is None:
        return None
    first, which, counts = found
    order = np.argsort(-counts, kind="stable")
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    table = bytearray([DISTINCT]) + len(order).to_bytes(4, "little")
    for column, most in zip(codes[first[order]].T, levels, strict=True):
        table += column.astype(_type_of(most)).tobytes()
    rounded = _rounded(counts[order])
    table += rounded.tobytes()
    symbols = [(place[which], rounded)] if len(order) > 1 else []
    return _Part(bytes(table), symbols, _coded_size(counts))


def _distinct_rows(
    codes: Codes, levels: Sequence[int]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]] | None:
    """Return where each distinct row stands first, which one each row is, and how often each occurs."""
    start = codes[:SAMPLE]
    if len(codes) > SAMPLE and len(np.unique(start, axis=0)) > len(start) * 3 // 4:
        return None
    key, size = np.zeros(len(codes), np.uint64), 1
    for column, most in zip(codes.T, levels, strict=True):
        if size * (most + 1) >= 2**63:  # the key is full: number what is there anew
            which = np.unique(key, return_inverse=True)[1]
            key, size = which.astype(np.uint64), int(which.max()) + 1
        key, size = key * np.uint64(most + 1) + column, size * (most + 1)
    _, first, which, counts = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    return (first, which, counts) if len(first) <= MOST_DISTINCT else None


def _read_apart(tables: _Tables, coder: Any, rows: int, levels: Sequence[int], fail: Fail) -> Codes:
    codes = np.zeros((rows, len(levels)), np.uint16)
    for place, most in enumerate(levels):
        if most:
            codes[:, place] = _decode(coder, tables.take(most + 1), rows, fail)
    return codes


def _read_distinct(tables: _Tables, coder: Any, rows: int, levels: Sequence[int], fail: Fail) -> Codes:
    many = int(tables.take(4).view("<u4")[0])
    if not 1 <= many <= min(rows, MOST_DISTINCT):
        raise fail(f"it announces {many} distinct rows of {rows}")
    table = np.zeros((many, len(levels)), np.uint16)
    for place, most in enumerate(levels):
        kind = np.dtype(_type_of(most))
        table[:, place] = tables.take(many * kind.itemsize).view(kind)
    if (table > np.asarray(levels)).any():
        raise fail("it has values beyond its steps")
    counts = tables.take(many)
    return table[_decode(coder, counts, rows, fail)] if many > 1 else np.repeat(table, rows, axis=0)


def _decode(coder: Any, counts: Bytes, rows: int, fail: Fail) -> Symbols:
    if not counts.any():
        raise fail("a table of its values is empty")
    try:
        symbols: Symbols = coder.decode(_model(counts), rows)
    except (AssertionError, ValueError):  # what the library raises where words were not made by this model
        raise fail("its values cannot be decoded") from None
    return symbols


class _Tables:
    """The tables of a message, taken from the front; more than there is cannot be taken."""

    def __init__(self, left: Bytes, fail: Fail) -> None:
        self.left, self.fail = left, fail

    def take(self, size: int) -> Bytes:
        if size > len(self.left):
            raise self.fail("its tables end too early")
        taken, self.left = self.left[:size], self.left[size:]
        return taken.copy()


def _opened(data: Bytes, most: int, fail: Fail) -> tuple[_Tables, Any]:
    """Return the tables, which have at most so many bytes, and the decoder of what follows them."""
    size = int.from_bytes(data[:4].tobytes(), "little")
    if len(data) < 4 or size > len(data) - 4 or (len(data) - 4 - size) % 4:
        raise fail("its values are cut off")
    inflating = zlib.decompressobj()
    try:
        tables = inflating.decompress(data[4 : 4 + size].tobytes(), most)
    except zlib.error:
        raise fail("its tables cannot be read") from None
    if not inflating.eof or inflating.unused_data:
        raise fail(f"its tables are longer than {most:,} bytes, or cut off")
    words = np.frombuffer(data[4 + size :].tobytes(), "<u4").astype(np.uint32)
    return _Tables(np.frombuffer(tables, np.uint8), fail), _coder().RangeDecoder(words)


def _most_tables(rows: int, levels: Sequence[int], groups: Sequence[Sequence[int]]) -> int:
    distinct = min(rows, MOST_DISTINCT)
    apart = sum(most + 1 for most in levels)
    return max(1, len(groups) * (5 + distinct) + 2 * len(levels) * distinct + apart)


def _rounded(counts: NDArray[np.intp]) -> Bytes:
    """Return the bytes that stand for counts, or for numbers near them; 0 for 0 alone."""
    return np.searchsorted(_BETWEEN, counts, side="right").astype(np.uint8)


def _coded_size(counts: NDArray[np.intp]) -> float:
    """Return about how many bytes the range coder needs for symbols that occur so often."""
    used = counts[counts > 0]
    return float(-(used * np.log2(used / used.sum())).sum() / 8)


def _type_of(most: int) -> str:
    return "u1" if most < 256 else "<u2"


def _model(counts: Bytes) -> Any:
    import constriction

    weights = COUNTS[counts].astype(np.float64)
    made = constriction.stream.model.Categorical  # of two symbols at least
    return made(weights if len(weights) > 1 else np.append(weights, 0.0), perfect=False)


def _coder() -> Any:
    import constriction  # here: names and sizes are wanted where nothing is coded

    return constriction.stream.queue
