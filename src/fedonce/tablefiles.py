"""Tables in files: CSV, TSV, Parquet and Arrow, read in chunks by pyarrow and written whole or not at all.

Beyond the arrays that are returned, little more than one chunk is in memory. The columns of a CSV come as text and are parsed
here: a column is numbers, booleans or dates where all of its values are, wherever the chunks end, and categories otherwise.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
import secrets
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from fedonce.errors import InputError, parameter_error
from fedonce.tables import DATES, KINDS, Table, as_text, did_you_mean, is_missing

DELIMITED = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")  # in a CSV; Parquet and Arrow have their own mark
WORDS = {"number": "numbers", "category": "text", "boolean": "booleans (true, false)", "date": "dates (as 2024-12-31)"}
BLOCK_BYTES = 4 * 2**20  # of a CSV at a time
BLOCK_ROWS = 2**17  # of a Parquet column, or of what is written, at a time
EXACT = 2.0**53  # below it a float64 holds every integer
ZONE = r"[ T]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

_INDEX = re.compile(r"__index_level_\d+__")  # what pandas adds to a file is no column of the user's


def read_table(
    path: str | os.PathLike[str], *, id: str | None = None, columns: Sequence[str] | None = None,
    types: Mapping[Any, str] | None = None, optional: Collection[str] = (), party: str = "",
) -> Table:  # fmt: skip
    """Read a table from a CSV, TSV, Parquet or Arrow file, known by its ending.

    Parameters
    ----------
    path : path
        .csv, .tsv or .txt (also .gz; UTF-8; the first line names the columns), .parquet, .pq, .arrow, .feather or .ipc.
    id : str, optional
        The column that says who a row is; read as text, exactly as it is, into `Table.ids`.
    columns : list of str, optional
        Columns to read, in this order; None: all but the id.
    types : dict, optional
        Columns to "number", "category", "boolean" or "date", in place of what their values look like. Give `Table.kinds` of
        the training rows when reading rows to be predicted.
    optional : collection of str
        Columns that may be absent, such as the label.
    party : str
        Whose table it is, for messages.
    """
    path = Path(path)
    whose = f"{path}{f' (party {party!r})' if party else ''}"
    with _clear_errors(whose):
        source = _SOURCES[check_ending(path)](path, whose)
        wanted = _wanted(source, id, columns, optional)
        kinds = _given_kinds(source, types, optional)
        builders = _read(source, wanted, id, kinds)
    ids = None if id is None else builders[id].finish()
    arrays = tuple(builders[name].finish() for name in wanted)
    if (wanted or id is not None) and not len(arrays[0] if ids is None else ids):
        raise InputError(f"The file {whose} has no rows; give a table with one at least.")
    pa.default_memory_pool().release_unused()
    booleans = frozenset(name for name in wanted if builders[name].kind == "boolean")
    return Table(tuple(wanted), True, columns=arrays, ids=ids, booleans=booleans)


def check_ending(path: str | os.PathLike[str]) -> str:
    """Return what a file's name says it is, "csv", "parquet" or "arrow"; raise for another ending."""
    name = Path(path).name.lower()
    for form, endings in (("csv", DELIMITED), ("parquet", PARQUET), ("arrow", ARROW)):
        if name.endswith(endings):
            return form
    raise InputError(
        f"The file {path} must end in one of {', '.join(DELIMITED + PARQUET + ARROW)}, by which a table's format is known; "
        "rename or convert it."
    )


@contextmanager
def _clear_errors(whose: str) -> Iterator[None]:
    """Turn what a library or the system says of a file into an InputError that names it."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"There is no file {whose}; check its name and folder.") from None
    except IsADirectoryError:
        raise InputError(f"{whose} is a folder; give one of the files in it.") from None
    except PermissionError:
        raise InputError(f"The file {whose} may not be read; ask its owner for the permission.") from None
    except (pa.ArrowException, OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InputError(
            f"The file {whose} is damaged, cut short, or not what its ending says ({said}); copy or export it again."
        ) from None


def _wanted(source: Source, id: str | None, columns: Sequence[str] | None, optional: Collection[str]) -> list[str]:
    """Return the columns to read, refusing those that are not there."""
    if isinstance(columns, str):
        raise parameter_error("read_table", "columns", "a list of names", columns)
    names = (
        [name for name in source.names if name != id and not _INDEX.fullmatch(name)] if columns is None else [*columns]
    )
    if id is not None and id not in source.names:
        raise InputError(f"The file {source.whose} has no id column {id!r}{did_you_mean(id, source.names)}")
    for name in names:
        if name not in source.names and name not in optional:
            raise InputError(f"The file {source.whose} has no column {name!r}{did_you_mean(name, source.names)}")
        if name == id or names.count(name) > 1:
            raise parameter_error("read_table", "columns", "different columns, and none of them the id", name)
    return [name for name in names if name in source.names]


def _given_kinds(source: Source, types: Mapping[Any, str] | None, optional: Collection[str]) -> dict[str, str]:
    for name, kind in (types or {}).items():
        if kind not in KINDS:
            raise parameter_error("read_table", "types", f"a dict of columns to {', '.join(map(repr, KINDS))}", kind)
        if name not in source.names and name not in optional:
            wanted = f"keyed by columns of {source.whose} ({', '.join(map(repr, source.names[:20]))})"
            raise parameter_error("read_table", "types", wanted, name)
    return dict(types or {})


def _read(source: Source, wanted: Sequence[str], id: str | None, kinds: Mapping[str, str]) -> dict[str, Builder]:
    """Read all columns; once more those of a CSV that only a later chunk showed to be categories."""
    builders: dict[str, Builder] = {} if id is None else {id: _Ids(source, id)}
    builders |= {name: _Values(source, name, kinds.get(name)) for name in wanted}
    _fill(source, builders)
    again = {name: _Values(source, name, "category") for name, old in builders.items() if old.again}
    _fill(source, again)
    return builders | again


def _fill(source: Source, builders: Mapping[str, Builder]) -> None:
    names = list(builders)
    for group in [names] if source.together and names else [[name] for name in names]:
        for chunks in source.chunks(group):
            for name, chunk in zip(group, chunks, strict=True):
                builders[name].add(chunk)


# Files: the names of their columns, and the columns in chunks.


class Source:
    """A file of columns."""

    together = False  # whether columns are read all at once, or one after the other, in less memory
    textual = False  # whether all that it holds is text, and kinds are to be found out

    def __init__(self, path: Path, whose: str, names: Sequence[str]) -> None:
        self.path, self.whose, self.names = path, whose, list(names)
        twice = next((name for name in self.names if self.names.count(name) > 1), None)
        if twice is not None:
            raise InputError(
                f"The file {whose} has {self.names.count(twice)} columns {twice!r}; rename them, each name once."
            )

    def chunks(self, names: Sequence[str]) -> Iterator[list[pa.Array]]:
        """Yield the columns, some rows at a time."""
        raise NotImplementedError


class _Delimited(Source):
    together = textual = True

    def __init__(self, path: Path, whose: str) -> None:
        self.path, self.whose = path, whose
        self.zipped = path.name.lower().endswith(".gz")
        self.delimiter = "\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else ","
        with path.open("rb") as opened:
            if opened.read(2) in (b"\xff\xfe", b"\xfe\xff"):
                raise self._encoding_error()
        try:
            names = self._header()
        except UnicodeDecodeError:
            raise self._encoding_error() from None
        except csv.Error as error:
            raise InputError(f"The first line of {whose} must name the columns ({error}); add such a line.") from None
        self._check_header(names)
        super().__init__(path, whose, names)

    def _text(self) -> IO[str]:
        opening: Callable[..., IO[str]] = gzip.open if self.zipped else open
        return opening(self.path, "rt", encoding="utf-8-sig", newline="")

    def _header(self) -> list[str]:
        with self._text() as text:
            lines = iter(lambda: text.readline(2**20), "")  # a file without line ends is not read whole
            first = next(lines, "")
            if ".txt" in self.path.name.lower() and "\t" in first:
                self.delimiter = "\t"
            return next(csv.reader(_chain(first, lines), delimiter=self.delimiter), [])

    def _encoding_error(self) -> InputError:
        return InputError(f"The file {self.whose} is not text in UTF-8; save or export it in that encoding.")

    def _check_header(self, names: list[str]) -> None:
        if not any(names):
            raise InputError(f"The file {self.whose} is empty, or its first line is; that line must name the columns.")
        unnamed = next((position for position, name in enumerate(names, 1) if not name.strip()), None)
        if unnamed is not None:
            raise InputError(
                f"Column {unnamed} of {self.whose} has no name in the first line; name it, or export without row numbers."
            )
        if len(names) == 1 and (";" in names[0] or "\t" in names[0]):
            raise InputError(
                f"The first line of {self.whose} is one column, {names[0]!r}; separate columns by commas, or by tabs in a .tsv."
            )
        counted = [str(j) for j in range(len(names) + 1)]  # numbers are names where they count
        if names not in (counted[:-1], counted[1:]) and all(map(_is_number, names)):
            raise InputError(
                f"The first line of {self.whose} holds numbers ({', '.join(names[:3])}); add a line with the column names."
            )

    def chunks(self, names: Sequence[str]) -> Iterator[list[pa.Array]]:
        reading = pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES)
        parsing = pyarrow.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
        as_texts = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), include_columns=list(names), strings_can_be_null=False
        )
        batch = None
        try:
            with pa.input_stream(str(self.path), compression="gzip" if self.zipped else None) as stream:
                for batch in pyarrow.csv.open_csv(stream, reading, parsing, as_texts):
                    yield batch.columns
        except pa.ArrowInvalid as error:
            raise self._explained(error) from None
        if batch and names[-1] == self.names[-1]:
            self._check_end(batch.columns[-1][-1].as_py())

    def _check_end(self, last: str) -> None:
        """Refuse a last value that runs to the end of the file, since nothing closes its quote."""
        if "\n" not in last or self.zipped:
            return
        with self.path.open("rb") as opened:
            opened.seek(-min(8, self.path.stat().st_size), os.SEEK_END)
            closed = opened.read().rstrip(b"\r\n").endswith(b'"')
        if not closed:
            raise InputError(f"The file {self.whose} has a quote that nothing closes, before {last[:40]!r}; close it.")

    def _explained(self, error: pa.ArrowInvalid) -> InputError:
        """Find the line that the library stumbled over."""
        if "UTF8" in str(error):
            return self._encoding_error()
        with self._text() as text, suppress(csv.Error, UnicodeDecodeError):
            reader = csv.reader(text, delimiter=self.delimiter)
            for fields in reader:
                if fields and len(fields) != len(self.names):
                    return InputError(
                        f"Line {reader.line_num} of {self.whose} has {len(fields)} values, and the first line names "
                        f"{len(self.names)} columns; correct the line (a value with {self.delimiter!r} in it needs quotes)."
                    )
        return InputError(f"The file {self.whose} cannot be read as a table ({error}); export it again.")


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class _Parquet(Source):
    def __init__(self, path: Path, whose: str) -> None:
        with path.open("rb"):  # the system's own errors come before the library's
            pass
        schema = pyarrow.parquet.read_schema(path)
        super().__init__(path, whose, schema.names)
        texts = [field.name for field in schema if _is_text(field.type)]  # few values in many rows are read as the few
        self.file = pyarrow.parquet.ParquetFile(path, read_dictionary=texts)

    def chunks(self, names: Sequence[str]) -> Iterator[list[pa.Array]]:
        for batch in self.file.iter_batches(batch_size=BLOCK_ROWS, columns=list(names)):
            yield [batch.column(name) for name in names]


class _Arrow(Source):
    def __init__(self, path: Path, whose: str) -> None:
        with path.open("rb"):
            pass
        self.opening = pa.ipc.open_file
        try:
            names = self._schema(path).names
        except pa.ArrowInvalid:  # not the file format: the stream format
            self.opening, self.together = pa.ipc.open_stream, True
            names = self._schema(path).names
        super().__init__(path, whose, names)

    def _schema(self, path: Path) -> pa.Schema:
        with pa.OSFile(str(path)) as opened:
            return self.opening(opened).schema

    def chunks(self, names: Sequence[str]) -> Iterator[list[pa.Array]]:
        options = pa.ipc.IpcReadOptions(included_fields=[self.names.index(name) for name in names])
        with pa.OSFile(str(self.path)) as opened:
            reader = self.opening(opened, options=options)
            batches = reader if self.together else map(reader.get_batch, range(reader.num_record_batches))
            for batch in batches:
                batch.validate(full=True)  # offsets beyond a buffer would end the process, not raise
                yield [batch.column(name) for name in names]


_SOURCES: dict[str, Callable[[Path, str], Source]] = {"csv": _Delimited, "parquet": _Parquet, "arrow": _Arrow}


# Columns: chunks of Arrow arrays become one array of numpy.


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


class Builder:
    """A column in the making."""

    kind: str | None = None
    again = False  # whether it must be read once more, as categories

    def __init__(self, source: Source, name: str) -> None:
        self.name, self.whose, self.textual = name, source.whose, source.textual

    def add(self, chunk: pa.Array) -> None:
        """Take in some more rows."""
        raise NotImplementedError

    def finish(self) -> NDArray[Any]:
        """Return all of them."""
        raise NotImplementedError


class _Ids(Builder):
    def __init__(self, source: Source, name: str) -> None:
        super().__init__(source, name)
        self.parts: list[NDArray[np.object_]] = []

    def add(self, chunk: pa.Array) -> None:
        ids = _decoded(chunk)
        if not (_is_text(ids.type) or pa.types.is_integer(ids.type) or pa.types.is_null(ids.type)):
            raise InputError(
                f"The id column {self.name!r} of {self.whose} has type {ids.type}; store ids as integers or text."
            )
        self.parts.append(pc.cast(ids, pa.string()).to_numpy(zero_copy_only=False))

    def finish(self) -> NDArray[np.object_]:
        ids = np.concatenate(self.parts) if self.parts else np.empty(0, object)
        empty = np.fromiter((not value for value in ids), bool, len(ids))
        if empty.any():
            raise InputError(
                f"The id column {self.name!r} of {self.whose} has no id in {empty.sum():,} of {len(ids):,} rows, first in "
                f"row {empty.argmax() + 1}; give every row an id, or drop the rows."
            )
        distinct = len(set(ids))
        if distinct < len(ids):
            seen: set[str] = set()
            row = next(j for j, value in enumerate(ids) if value in seen or seen.add(value))  # type: ignore[func-returns-value]
            raise InputError(
                f"The id column {self.name!r} of {self.whose} has {len(ids) - distinct:,} rows whose id an earlier row has, "
                f"first {ids[row]!r} in row {row + 1}; keep one row an id."
            )
        return ids


class _Values(Builder):
    """A column of a kind that is given, or found out: the one kind that all of its values have, else category."""

    def __init__(self, source: Source, name: str, kind: str | None) -> None:
        super().__init__(source, name)
        self.kind, self.given = kind, kind is not None
        self.grown, self.blank = _Growing(), 0  # rows before the first value
        self.codes: dict[str | None, int] = {None: 0}

    def add(self, chunk: pa.Array) -> None:
        found = _kind_of_texts(chunk) if self.textual and self.kind is None else self._kind_of_type(chunk.type)
        self.kind = self.kind or found
        if self.kind is None or self.again:
            self.blank += len(chunk)
        elif self.kind == "category":
            self.grown.add(self._coded(chunk))
        else:
            self._parse(chunk, self.kind)

    def _parse(self, chunk: pa.Array, kind: str) -> None:
        try:
            self.grown.add(_parsed(chunk, kind))
        except _MisfitError:
            if self.given or not self.textual:
                raise self._misfit(chunk, kind) from None
            self.kind = "category"
            if self.grown.count:
                self.again, self.grown = True, _Growing()
            else:
                self.grown.add(self._coded(chunk))

    def _kind_of_type(self, kind: pa.DataType) -> str:
        found = _kind_of_type(kind)
        if found is None:
            raise InputError(
                f"Column {self.name!r} of {self.whose} has type {kind}; use numbers, booleans, dates or categories (text), or "
                "name the columns to read without it."
            )
        return found

    def _misfit(self, chunk: pa.Array, kind: str) -> InputError:
        text = _is_text(_decoded(chunk[:0]).type)
        position = _first_misfit(chunk, kind)
        row = self.blank + self.grown.count + position + 1
        what = f"has {chunk[position].as_py()!r} in row {row}" if text else f"has type {chunk.type}"
        remedy = "correct the value, or leave it empty" if text else "convert the column"
        return InputError(
            f"Column {self.name!r} of {self.whose} {what}, and must hold {WORDS[kind]}, as was given or as at training; {remedy}."
        )

    def _coded(self, chunk: pa.Array) -> NDArray[np.int32]:
        """Return a code a row; equal texts share one, and at the end one object."""
        if pa.types.is_timestamp(chunk.type):
            chunk = pc.cast(chunk, pa.timestamp("us", chunk.type.tz), safe=False)
        encoded = chunk if pa.types.is_dictionary(chunk.type) else pc.dictionary_encode(chunk)
        texts = [None if self._is_missing(value) else as_text(value) for value in encoded.dictionary.to_pylist()]
        codes = np.array([*(self.codes.setdefault(text, len(self.codes)) for text in texts), 0], np.int32)
        return np.asarray(codes[pc.fill_null(pc.cast(encoded.indices, pa.int64()), len(texts)).to_numpy()])

    def _is_missing(self, value: object) -> bool:
        return value in MISSING if self.textual else is_missing(value)

    def finish(self) -> NDArray[Any]:
        grown, dtype = self.grown.finish(), DATES if self.kind == "date" else np.dtype(np.float64)
        if self.kind == "category":
            texts = np.empty(len(self.codes), object)
            texts[:] = list(self.codes)
            return np.asarray(texts[np.concatenate([np.zeros(self.blank, np.int32), grown])])
        if self.blank:
            blank = np.full(self.blank, "NaT" if dtype == DATES else np.nan, dtype)
            return np.concatenate([blank, grown]) if len(grown) else blank
        return _integers(grown) if self.textual and self.kind == "number" else grown


def _integers(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as integers where all of them are."""
    for part in (numbers[:1000], numbers):
        if not (np.abs(part) < EXACT).all() or (part != np.trunc(part)).any():
            return numbers
    return numbers.astype(np.int64)


# Kinds: of an Arrow type, of texts; and arrays of a kind.


class _MisfitError(Exception):
    """A value that is not of the kind asked for."""


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _decoded(chunk: pa.Array) -> pa.Array:
    return chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk


def _kind_of_type(kind: pa.DataType) -> str | None:
    types = pa.types
    if types.is_boolean(kind):
        return "boolean"
    if types.is_date(kind) or types.is_timestamp(kind):
        return "date"
    if _is_text(kind) or types.is_dictionary(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return "category"
    counted = types.is_duration(kind) or types.is_time(kind) or types.is_null(kind)
    plain = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return "number" if plain or counted else None


def _kind_of_texts(texts: pa.Array) -> str | None:
    """Return the kind of the first text that is a value; None where all are missing."""
    known = pc.drop_null(_known(texts))
    if not len(known):
        return None
    for kind in ("number", "date", "boolean"):
        with suppress(_MisfitError):
            _parsed(known[:1], kind)
            return kind
    return "category"


def _known(texts: pa.Array) -> pa.Array:
    """Return texts without the blanks around them, and null where they say that they are missing."""
    trimmed = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.is_in(trimmed, pa.array(MISSING, trimmed.type)), pa.scalar(None, trimmed.type), trimmed)


def _parsed(chunk: pa.Array, kind: str) -> NDArray[Any]:
    """Return an array of numbers, booleans or dates; raise where a value is something else."""
    values = _decoded(chunk)
    if _is_text(values.type):
        parse = {"number": _numbers_of_texts, "boolean": _booleans_of_texts, "date": _dates_of_texts}[kind]
        return parse(pc.cast(values, pa.string()))
    found = _kind_of_type(values.type)
    if pa.types.is_null(values.type):
        return np.full(len(values), "NaT", DATES) if kind == "date" else np.full(len(values), np.nan)
    if found != kind and (found, kind) != ("boolean", "number"):
        raise _MisfitError
    return _dates(values) if kind == "date" else _numbers(values)


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
    days = pc.cast(values, pa.timestamp("us"), safe=False)  # Arrow keeps the time of every zone in UTC
    return np.asarray(days.to_numpy(zero_copy_only=False)).astype(DATES, copy=False)


def _cast(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return pc.cast(texts, kind)
    except pa.ArrowInvalid:
        raise _MisfitError from None


def _numbers_of_texts(texts: pa.Array) -> NDArray[np.float64]:
    try:  # the common case: nothing is missing
        numbers = _cast(texts, pa.float64())
    except _MisfitError:
        numbers = _cast(_known(texts), pa.float64())
    return np.asarray(numbers.to_numpy(zero_copy_only=False))


def _booleans_of_texts(texts: pa.Array) -> NDArray[Any]:
    encoded = pc.dictionary_encode(pc.utf8_lower(_known(texts)))
    values = encoded.dictionary.to_pylist()
    if not {"true", "false"}.issuperset(values):
        raise _MisfitError
    truth = pa.array([value == "true" for value in values], pa.bool_())
    return _numbers(pc.take(truth, encoded.indices))


def _dates_of_texts(texts: pa.Array) -> NDArray[np.datetime64]:
    """Return dates and times in ISO form, with or without a zone; without one they are UTC."""
    try:
        return _dates(_cast(texts, pa.timestamp("us")))
    except _MisfitError:
        known = pc.replace_substring_regex(_known(texts), r"(\.\d{6})\d+", r"\1")
    zoned, nothing = pc.match_substring_regex(known, ZONE), pa.scalar(None, pa.string())
    local = _cast(pc.if_else(zoned, nothing, known), pa.timestamp("us"))
    universal = _cast(pc.if_else(zoned, known, nothing), pa.timestamp("us", "UTC"))
    return _dates(pc.coalesce(local, pc.cast(universal, pa.timestamp("us"))))


def _first_misfit(chunk: pa.Array, kind: str) -> int:
    """Return where the first value is that does not fit, by halving."""
    low, high = 0, len(chunk)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _parsed(chunk[low:middle], kind)
            low = middle
        except _MisfitError:
            high = middle
    return low


# Writing.


def write_table(path: str | os.PathLike[str], columns: Mapping[str, NDArray[Any]]) -> Path:
    """Write columns to a file, its format by its ending; to a temporary name first, so that it is whole or not there."""
    path = Path(path)
    form = check_ending(path)
    if len({len(column) for column in columns.values()}) != 1:
        raise parameter_error("write_table", "columns", "of one length", {k: len(v) for k, v in columns.items()})
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        _WRITERS[form](temporary, columns, path.name.lower())
        temporary.replace(path)
    except OSError as error:
        raise InputError(
            f"The file {path} could not be written ({error.strerror or error}); make room, check the folder and the permission."
        ) from None
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _write_delimited(path: Path, columns: Mapping[str, NDArray[Any]], name: str) -> None:
    opening: Callable[..., IO[str]] = gzip.open if name.endswith(".gz") else open
    delimiter = "\t" if name.removesuffix(".gz").endswith(".tsv") else ","
    with opening(path, "wt", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        writer.writerow(columns)
        for start in range(0, len(next(iter(columns.values()))), BLOCK_ROWS):
            parts = [_printed(np.asarray(column[start : start + BLOCK_ROWS])) for column in columns.values()]
            writer.writerows(zip(*parts, strict=True))
        text.flush()
        if not name.endswith(".gz"):
            os.fsync(text.fileno())


def _printed(column: NDArray[Any]) -> list[Any]:
    """Return values as the csv module is to print them: shortest exact numbers, nothing where missing."""
    if column.dtype.kind == "M":
        return ["" if text == "NaT" else text for text in np.datetime_as_string(column).tolist()]
    if column.dtype.kind == "f" and column.dtype.itemsize < 8:  # through a float64 it would gain digits that it has not
        return ["" if text == "nan" else text for text in column.astype(str).tolist()]
    return ["" if is_missing(value) else value for value in column.tolist()]


def _write_parquet(path: Path, columns: Mapping[str, NDArray[Any]], name: str) -> None:
    pyarrow.parquet.write_table(_arrow(columns), path)


def _write_arrow(path: Path, columns: Mapping[str, NDArray[Any]], name: str) -> None:
    table = _arrow(columns)
    with pa.OSFile(str(path), "wb") as opened, pa.ipc.new_file(opened, table.schema) as writer:
        writer.write_table(table)


def _arrow(columns: Mapping[str, NDArray[Any]]) -> pa.Table:
    def array(column: NDArray[Any]) -> pa.Array:
        if column.dtype.kind not in "OUS":
            return pa.array(column, from_pandas=True)
        return pa.array([None if is_missing(value) else as_text(value) for value in column.tolist()], pa.string())

    return pa.table({name: array(np.asarray(column)) for name, column in columns.items()})


_WRITERS: dict[str, Callable[[Path, Mapping[str, NDArray[Any]], str], None]] = {
    "csv": _write_delimited,
    "parquet": _write_parquet,
    "arrow": _write_arrow,
}
