"""Columns in the making: chunks of Arrow arrays become one array of numpy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedonce.data.files.parsing import (
    MISSING,
    MisfitError,
    TooFarError,
    check_dates,
    decoded,
    first_misfit,
    is_text,
    kind_of_texts,
    kind_of_type,
    parsed,
)
from fedonce.data.files.sources import Source
from fedonce.data.mistyped import warn_if_mistyped
from fedonce.data.table import DATES, as_text, is_missing, too_far
from fedonce.errors import InputError, quoted

WORDS = {"number": "numbers", "category": "text", "boolean": "booleans (true, false)", "date": "dates (as 2024-12-31)"}
EXACT = 2.0**53  # below it a float64 holds every integer


class _Growing:
    """An array that chunks are added to; what is allocated ahead is not touched, and costs no memory."""

    def __init__(self) -> None:
        self.values: NDArray[Any] = np.empty(0, np.bool_)
        self.count = 0

    def add(self, chunk: NDArray[Any]) -> None:
        end = self.count + len(chunk)
        dtype = np.promote_types(self.values.dtype, chunk.dtype) if self.count else chunk.dtype
        if end > len(self.values) or dtype != self.values.dtype:
            grown = np.empty(max(end, 2 * len(self.values)), dtype)
            grown[: self.count] = self.values[: self.count]
            self.values = grown
        self.values[self.count : end] = chunk
        self.count = end

    def finish(self) -> NDArray[Any]:
        return self.values[: self.count]


class Builder(ABC):
    """A column in the making."""

    kind: str | None = None
    again = False  # whether it must be read once more, as categories

    def __init__(self, source: Source, name: str) -> None:
        self.name, self.whose, self.textual = name, source.whose, source.textual

    @abstractmethod
    def add(self, chunk: pa.Array) -> None:
        """Take in some more rows."""

    @abstractmethod
    def finish(self) -> NDArray[Any]:
        """Return all of them."""


class Ids(Builder):
    """The column that says who a row is, as text."""

    def __init__(self, source: Source, name: str) -> None:
        super().__init__(source, name)
        self.parts: list[NDArray[np.object_]] = []

    def add(self, chunk: pa.Array) -> None:
        """Take in some more rows."""
        ids = decoded(chunk)
        if not (is_text(ids.type) or pa.types.is_integer(ids.type) or pa.types.is_null(ids.type)):
            raise InputError(
                f"The id column {self.name!r} of {self.whose} has type {ids.type}; store ids as integers or text."
            )
        self.parts.append(pc.cast(ids, pa.string()).to_numpy(zero_copy_only=False))

    def finish(self) -> NDArray[np.object_]:
        """Return all of them."""
        ids = np.concatenate(self.parts) if self.parts else np.empty(0, object)
        empty = np.fromiter((not value for value in ids), bool, len(ids))
        if empty.any():
            raise InputError(
                f"The id column {self.name!r} of {self.whose} has no id in {empty.sum():,} of {len(ids):,} rows, first in "
                f"row {empty.argmax() + 1}; give every row an id, or drop the rows."
            )
        distinct = len(set(ids))
        if distinct < len(ids):
            first = {value: row for row, value in reversed(list(enumerate(ids)))}
            row = next(row for row, value in enumerate(ids) if first[value] != row)
            raise InputError(
                f"The id column {self.name!r} of {self.whose} has an id more than once, in "
                f"{len(ids) - distinct:,} of {len(ids):,} rows, first {ids[row]!r} in row {row + 1}; keep one row an id."
            )
        return ids


class Values(Builder):
    """A column of a kind that is given, or found out: the one kind that all of its values have, else category."""

    def __init__(self, source: Source, name: str, kind: str | None, guessed: bool = False) -> None:
        super().__init__(source, name)
        self.kind, self.given = kind, kind is not None and not guessed
        self.grown, self.blank = _Growing(), 0  # rows before the first value
        self.codes: dict[str | None, int] = {None: 0}

    def add(self, chunk: pa.Array) -> None:
        """Take in some more rows."""
        found = kind_of_texts(chunk) if self.textual and self.kind is None else self._kind_of_type(chunk.type)
        self.kind = self.kind or found
        if self.kind is None or self.again:
            self.blank += len(chunk)
        else:
            self._take(chunk, self.kind)

    def _take(self, chunk: pa.Array, kind: str) -> None:
        try:
            if kind == "category":
                self.grown.add(self._coded(chunk))
            else:
                self._parse(chunk, kind)
        except (TooFarError, OverflowError) as error:  # the latter is what Python says of dates beyond its own
            count = error.args[0] if isinstance(error, TooFarError) else None
            raise too_far(f"Column {self.name!r} of {self.whose}", count) from None

    def _parse(self, chunk: pa.Array, kind: str) -> None:
        try:
            self.grown.add(parsed(chunk, kind))
        except MisfitError:
            if self.given and kind == "number":  # what is true or false is 1 or 0, as in a file with types of its own
                with suppress(MisfitError):
                    self.grown.add(parsed(chunk, "boolean"))
                    return
            if self.given or not self.textual:
                raise self._misfit(chunk, kind) from None
            self.kind = "category"
            if self.grown.count:
                self.again, self.grown = True, _Growing()
            else:
                self.grown.add(self._coded(chunk))

    def _kind_of_type(self, kind: pa.DataType) -> str:
        found = kind_of_type(kind)
        if found is None:
            raise InputError(
                f"Column {self.name!r} of {self.whose} has type {kind}; use numbers, booleans, dates or categories (text), or "
                "name the columns to read without it."
            )
        return found

    def _misfit(self, chunk: pa.Array, kind: str) -> InputError:
        text = is_text(decoded(chunk[:0]).type)
        position = first_misfit(chunk, kind)
        row = self.blank + self.grown.count + position + 1
        what = f"has {quoted(chunk[position].as_py())} in row {row}" if text else f"has type {chunk.type}"
        remedy = "correct the value, or leave it empty" if text else "convert the column"
        return InputError(
            f"Column {self.name!r} of {self.whose} {what}, and must hold {WORDS[kind]}, as was given or as at training; {remedy}."
        )

    def _coded(self, chunk: pa.Array) -> NDArray[np.int32]:
        """Return a code per row; equal texts share one, and at the end one object."""
        check_dates(chunk)
        if pa.types.is_timestamp(chunk.type):
            chunk = pc.cast(chunk, pa.timestamp("us", chunk.type.tz), safe=False)
        encoded = chunk if pa.types.is_dictionary(chunk.type) else pc.dictionary_encode(chunk)
        texts = [None if self._is_missing(value) else as_text(value) for value in encoded.dictionary.to_pylist()]
        codes = np.array([*(self.codes.setdefault(text, len(self.codes)) for text in texts), 0], np.int32)
        return np.asarray(codes[pc.fill_null(pc.cast(encoded.indices, pa.int64()), len(texts)).to_numpy()])

    def _is_missing(self, value: object) -> bool:
        return value in MISSING if self.textual else is_missing(value)

    def finish(self) -> NDArray[Any]:
        """Return all of them."""
        grown, dtype = self.grown.finish(), DATES if self.kind == "date" else np.dtype(np.float64)
        if self.kind == "category":
            texts = np.empty(len(self.codes), object)
            texts[:] = list(self.codes)
            self._warn_if_mistyped(grown)
            return np.asarray(texts[np.concatenate([np.zeros(self.blank, np.int32), grown])])
        if self.blank:
            blank = np.full(self.blank, "NaT" if dtype == DATES else np.nan, dtype)
            return np.concatenate([blank, grown]) if len(grown) else blank
        return _integers(grown) if self.textual and self.kind == "number" else grown

    def _warn_if_mistyped(self, codes: NDArray[np.int32]) -> None:
        """Tell the owner where nobody said that this is text, and nearly all of it is something else."""
        if not self.textual or self.given:
            return
        rows = np.concatenate([np.zeros(self.blank, np.int32), codes]) - 1
        texts = [text for text in self.codes if text is not None]  # code 0 is what is missing
        warn_if_mistyped(f"column {self.name!r} of {self.whose}", rows, texts, self._remedy)

    def _remedy(self, kind: str) -> str:
        return (
            "Correct the value, or leave it empty, which is a missing value. Give the column its type (types), as in "
            f"{self.name}={kind}: such a value is then an error; {self.name}=category says that text is meant."
        )


def _integers(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as integers where all of them are."""
    for part in (numbers[:1000], numbers[1000:]):
        if not (np.abs(part) < EXACT).all() or (part != np.trunc(part)).any():
            return numbers
    return numbers.astype(np.int64)
