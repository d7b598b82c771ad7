"""Integers in as few bytes as they need: a range coder by how often each occurs, column by column or by distinct rows.

What is written is a small part that is deflated, the tables, and the words of one range coder (the library `constriction`).
Tables say how often each integer of a column occurs; or, where the rows of columns that belong together repeat, which
distinct rows there are, and how often each occurs. A column whose table would not pay has none, and takes what plain integers
take. Whichever is shorter is taken.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.messages.codecs.base import Fail
from fedonce.messages.codecs.inflating import Tables
from fedonce.messages.codecs.steps import Codes

APART, DISTINCT = 0, 1  # how a group of columns is written
EVEN, COUNTED = 0, 1  # how a column of its own is: without a table, or with one
TABLE_PER_ROW = (
    8  # a column of more integers than so many times its rows has no table: reading costs no more than values do
)
MOST_DISTINCT = 2**16  # rows in a table
SAMPLE = 20_000  # rows by which to see early that most are distinct
ENDS = 12  # bytes beside tables and words: the length of the tables, and what the coder needs to end
# What a byte of a table stands for: a whole number exactly up to 15, then with four leading bits. Integers alone: every
# machine makes the same model of it.
COUNTS = np.array([b if b < 16 else (8 + b % 8) << (b // 8 - 1) for b in range(256)], np.int64)
_BETWEEN = (COUNTS[:-1] + COUNTS[1:] + 1) // 2  # from here on the next byte is nearer

Bytes = NDArray[np.uint8]
Symbols = NDArray[np.int32]


@dataclass(frozen=True)
class _Coded:
    """Symbols for the coder, from 0 to `most`, and the table of how often each occurs; None: all alike."""

    symbols: Symbols
    most: int
    counts: Bytes | None


@dataclass(frozen=True)
class _Part:
    """A group of columns, written: its table, what is coded by it, and about how many bytes that takes."""

    table: bytes
    coded: list[_Coded]
    words: float

    @cached_property
    def size(self) -> float:
        return len(zlib.compress(self.table, 1)) + self.words


def pack(codes: Codes, levels: Sequence[int], groups: Sequence[Sequence[int]]) -> Bytes:
    """Return rows of integers as bytes; `levels` has the largest of each column, `groups` the columns that belong together."""
    if not len(codes):
        return np.zeros(0, np.uint8)
    parts, even = [], []
    for group in groups:
        own, most = codes[:, group], [levels[column] for column in group]
        parts.append(_shortest(own, most, len(codes)))
        even.append(_apart(own, most, len(codes), tables=False))
    written, plain = _joined(parts), sum(part.words for part in even)
    if len(written) > plain:  # the tables did not pay, though each seemed to
        written = min(written, _joined(even), key=len)
    return np.frombuffer(written, np.uint8)


def unpack(
    data: Bytes, rows: int, levels: Sequence[int], groups: Sequence[Sequence[int]], fail: Fail
) -> Iterator[tuple[int, Codes]]:
    """Yield the columns that `pack` wrote, each with its number, one at a time, so that no more memory is taken.

    The bytes come from another party, and are checked before memory is taken for what they announce.
    """
    if not rows:
        if len(data):
            raise fail("it has values of no rows")
        return
    size = int.from_bytes(data[:4].tobytes(), "little")
    if len(data) < 4 or size > len(data) - 4 or (len(data) - 4 - size) % 4:
        raise fail("its values are cut off")
    tables = Tables(data[4 : 4 + size].tobytes(), fail)
    words = np.frombuffer(data[4 + size :].tobytes(), "<u4").astype(np.uint32)
    coder = _coder().RangeDecoder(words)
    for group in groups:
        kind = tables.take(1)[0]
        if kind not in (APART, DISTINCT):
            raise fail(f"a table of its values is of the kind {kind}, which this program does not know")
        read = _read_apart if kind == APART else _read_distinct
        yield from zip(group, read(tables, coder, rows, [levels[column] for column in group], fail), strict=True)
    tables.end()
    if not coder.maybe_exhausted():
        raise fail("its values go on beyond their end")


def most_bytes(rows: int, dim: int, bits: int) -> int:
    """Return how many bytes `pack` writes, at most: what plain integers take, and two marks per column."""
    return ceil(rows * dim * (bits + 0.001) / 8) + 2 * dim + 64 if rows else 0


def most_memory(rows: int, dim: int) -> int:
    """Return how many bytes `unpack` takes beside what it yields, at most: a table of distinct rows, and a column twice."""
    return 2 * dim * min(rows, MOST_DISTINCT) + 16 * rows


def estimate(codes: Codes, levels: Sequence[int], rows: int) -> float:
    """Return about how many bytes so many rows like these take, of columns that belong together."""
    return _shortest(codes, levels, rows).size + ENDS


def _shortest(codes: Codes, levels: Sequence[int], rows: int) -> _Part:
    found = [part for part in (_apart(codes, levels, rows), _distinct(codes, levels, rows)) if part is not None]
    return min(found, key=lambda part: part.size)


def _joined(parts: Sequence[_Part]) -> bytes:
    """Return the bytes of all groups: how long the tables are, the tables, the words."""
    tables = zlib.compress(b"".join(part.table for part in parts), 9)
    coder = _coder().RangeEncoder()
    for each in (each for part in parts for each in part.coded):
        coder.encode(each.symbols, _model(each.most, each.counts))
    words = coder.get_compressed().astype("<u4").tobytes()
    return b"".join([len(tables).to_bytes(4, "little"), tables, words])


def _apart(codes: Codes, levels: Sequence[int], rows: int, tables: bool = True) -> _Part:
    """Write each column by how often its integers occur, or as if all did alike, whichever is shorter."""
    coded, table, size = [], bytearray([APART]), 0.0
    for column, most in zip(codes.T, levels, strict=True):
        if not most:
            continue
        counts, words = None, rows * log2(most + 1) / 8
        if tables and most < TABLE_PER_ROW * rows:
            found = np.bincount(column, minlength=most + 1)
            rounded, needed = _rounded(found), _coded_size(found, rows)
            if needed + len(zlib.compress(rounded.tobytes(), 1, wbits=-15)) < words:
                counts, words = rounded, needed
        coded.append(_Coded(column.astype(np.int32), most, counts))
        table += bytes([EVEN]) if counts is None else bytes([COUNTED]) + counts.tobytes()
        size += words
    return _Part(bytes(table), coded, size)


def _distinct(codes: Codes, levels: Sequence[int], rows: int) -> _Part | None:
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
    coded = [_Coded(place[which], len(order) - 1, rounded)] if len(order) > 1 else []
    return _Part(bytes(table), coded, _coded_size(counts, rows))


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


def _read_apart(tables: Tables, coder: Any, rows: int, levels: Sequence[int], fail: Fail) -> Iterator[Codes]:
    for most in levels:
        if not most:
            yield np.zeros(rows, np.uint16)
            continue
        how = tables.take(1)[0]
        if how not in (EVEN, COUNTED):
            raise fail(f"a column of its values is written in the way {how}, which this program does not know")
        if how == COUNTED and most >= TABLE_PER_ROW * rows:
            raise fail("it has a table for a column that has too few rows for one")
        yield _decode(coder, most, tables.take(most + 1) if how == COUNTED else None, rows, fail).astype(np.uint16)


def _read_distinct(tables: Tables, coder: Any, rows: int, levels: Sequence[int], fail: Fail) -> Iterator[Codes]:
    many = int(tables.take(4).view("<u4")[0])
    if not 1 <= many <= min(rows, MOST_DISTINCT):
        raise fail(f"it announces {many} distinct rows of {rows}")
    distinct = [tables.take(many * np.dtype(_type_of(most)).itemsize).view(_type_of(most)) for most in levels]
    if any(int(column.max()) > most for column, most in zip(distinct, levels, strict=True)):
        raise fail("it has values beyond its steps")
    counts = tables.take(many)
    which = _decode(coder, many - 1, counts, rows, fail) if many > 1 else np.zeros(rows, np.int32)
    for column in distinct:
        yield column.astype(np.uint16)[which]


def _decode(coder: Any, most: int, counts: Bytes | None, rows: int, fail: Fail) -> Symbols:
    if counts is not None and not counts.any():
        raise fail("a table of its values is empty")
    try:
        symbols: Symbols = coder.decode(_model(most, counts), rows)
    except (AssertionError, ValueError):  # what the library raises where words were not made by this model
        raise fail("its values cannot be decoded") from None
    return symbols


def _rounded(counts: NDArray[np.intp]) -> Bytes:
    """Return the bytes that stand for counts, or for numbers near them; 0 for 0 alone."""
    return np.searchsorted(_BETWEEN, counts, side="right").astype(np.uint8)


def _coded_size(counts: NDArray[np.intp], rows: int) -> float:
    """Return how many bytes the range coder needs for so many rows of symbols that occur so often, by their rounded counts."""
    used = counts[counts > 0]
    told = COUNTS[_rounded(used)]
    return float(-(used * np.log2(told / told.sum())).sum() / 8) * rows / float(used.sum())


def _type_of(most: int) -> str:
    return "u1" if most < 256 else "<u2"


def _model(most: int, counts: Bytes | None) -> Any:
    """Return the coder's model of symbols from 0 to `most`, which is 1 at least."""
    import constriction

    models = constriction.stream.model
    return (
        models.Uniform(most + 1)
        if counts is None
        else models.Categorical(COUNTS[counts].astype(np.float64), perfect=False)
    )


def _coder() -> Any:
    import constriction  # here: names and sizes are wanted where nothing is coded

    return constriction.stream.queue
