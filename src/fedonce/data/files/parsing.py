"""Kinds of an Arrow type and of texts; and chunks as arrays of a kind."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedonce.data.table import DATES, in_microseconds

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")  # in a CSV; Parquet and Arrow have their own mark
ZONE = r"[ T]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class MisfitError(Exception):
    """A value that is not of the kind asked for."""


class TooFarError(Exception):
    """Dates that nothing here can hold; its argument is how many."""


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is text, in any of Arrow's layouts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def decoded(chunk: pa.Array) -> pa.Array:
    """Return a chunk as plain values, without a dictionary."""
    return chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk


def kind_of_type(kind: pa.DataType) -> str | None:
    """Return the kind of an Arrow type; None where it has none."""
    types = pa.types
    if types.is_boolean(kind):
        return "boolean"
    if types.is_date(kind) or types.is_timestamp(kind):
        return "date"
    if is_text(kind) or types.is_dictionary(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return "category"
    counted = types.is_duration(kind) or types.is_time(kind) or types.is_null(kind)
    plain = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return "number" if plain or counted else None


def kind_of_texts(texts: pa.Array) -> str | None:
    """Return the kind of the first text that is a value; None where all are missing."""
    first = _first_known(texts)
    if first is None:
        return None
    # What begins like a word is tried as nothing that begins with a digit: of many columns of words that takes most of the time.
    wordy = first[0].as_py()[:1].isalpha() and not first[0].as_py().lower().startswith(("inf", "nan"))
    for kind in ("boolean",) if wordy else ("number", "date", "boolean"):
        with suppress(MisfitError):
            parsed(first, kind)
            return kind
    return "category"


def _first_known(texts: pa.Array) -> pa.Array | None:
    """Return the first text that is a value, alone; most columns begin with one, and the others need not be looked at."""
    first = (texts[0].as_py() or "").strip() if len(texts) else ""
    if first not in MISSING:
        return pa.array([first], pa.string())
    known = pc.drop_null(_known(texts))
    return known[:1] if len(known) else None


def _known(texts: pa.Array) -> pa.Array:
    """Return texts without the blanks around them, and null where they say that they are missing."""
    trimmed = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.is_in(trimmed, pa.array(MISSING, trimmed.type)), pa.scalar(None, trimmed.type), trimmed)


def parsed(chunk: pa.Array, kind: str) -> NDArray[Any]:
    """Return an array of numbers, booleans or dates; raise where a value is something else."""
    values = decoded(chunk)
    if is_text(values.type):
        parse = {"number": _numbers_of_texts, "boolean": _booleans_of_texts, "date": _dates_of_texts}[kind]
        return parse(values if pa.types.is_string(values.type) else pc.cast(values, pa.string()))
    found = kind_of_type(values.type)
    if pa.types.is_null(values.type):
        return np.full(len(values), "NaT", DATES) if kind == "date" else np.full(len(values), np.nan)
    if found != kind and (found, kind) != ("boolean", "number"):
        raise MisfitError
    return _dates(values) if kind == "date" else _numbers(values)


def check_dates(values: pa.Array) -> None:
    """Raise where dates are too far away for any kind."""
    if kind_of_type(values.type) == "date":
        _dates(values)


def first_misfit(chunk: pa.Array, kind: str) -> int:
    """Return where the first value is that does not fit, by halving."""
    low, high = 0, len(chunk)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            parsed(chunk[low:middle], kind)
            low = middle
        except MisfitError:
            high = middle
    return low


def _numbers(values: pa.Array) -> NDArray[Any]:
    """Return numbers or booleans; as floats where some are missing."""
    kind, types = values.type, pa.types
    if types.is_duration(kind) or types.is_time(kind):
        whole = pc.cast(values, pa.int32() if types.is_time32(kind) else pa.int64())
        return np.asarray(_floats(whole) / PER_SECOND[kind.unit])
    plain = types.is_integer(kind) or types.is_boolean(kind) or types.is_float32(kind) or types.is_float64(kind)
    if plain and not values.null_count:
        return np.asarray(values.to_numpy(zero_copy_only=False))
    if types.is_float32(kind):
        return np.asarray(values.to_numpy(zero_copy_only=False))
    return _floats(values)


def _floats(values: pa.Array) -> NDArray[np.float64]:
    if pa.types.is_boolean(values.type):
        values = pc.cast(values, pa.int8())
    return np.asarray(pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def _dates(values: pa.Array) -> NDArray[np.datetime64]:
    if pa.types.is_timestamp(values.type) and values.type.unit == "ns":
        values = pc.cast(values, pa.timestamp("us"), safe=False)  # it loses nanoseconds, and no date
    # Arrow keeps the time of every zone in UTC
    dates, lost = in_microseconds(np.asarray(values.to_numpy(zero_copy_only=False)))
    if lost:
        raise TooFarError(lost)
    return dates


def _cast(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return pc.cast(texts, kind)
    except pa.ArrowInvalid:
        raise MisfitError from None


def _numbers_of_texts(texts: pa.Array) -> NDArray[np.float64]:
    try:  # the common case: nothing is missing
        numbers = _cast(texts, pa.float64())
    except MisfitError:
        numbers = _cast(_known(texts), pa.float64())
    return np.asarray(numbers.to_numpy(zero_copy_only=False))


def _booleans_of_texts(texts: pa.Array) -> NDArray[Any]:
    encoded = pc.dictionary_encode(pc.utf8_lower(_known(texts)))
    values = encoded.dictionary.to_pylist()
    if not {"true", "false"}.issuperset(values):
        raise MisfitError
    truth = pa.array([value == "true" for value in values], pa.bool_())
    return _numbers(pc.take(truth, encoded.indices))


def _dates_of_texts(texts: pa.Array) -> NDArray[np.datetime64]:
    """Return dates and times in ISO form, with or without a zone; without one they are UTC."""
    try:
        return _dates(_cast(texts, pa.timestamp("us")))
    except MisfitError:
        known = pc.replace_substring_regex(_known(texts), r"(\.\d{6})\d+", r"\1")
    zoned, nothing = pc.match_substring_regex(known, ZONE), pa.scalar(None, pa.string())
    local = _cast(pc.if_else(zoned, nothing, known), pa.timestamp("us"))
    universal = _cast(pc.if_else(zoned, known, nothing), pa.timestamp("us", "UTC"))
    return _dates(pc.coalesce(local, pc.cast(universal, pa.timestamp("us"))))
