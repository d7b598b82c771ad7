"""Files by their endings: the names of their columns, and the columns in chunks."""

from __future__ import annotations

import csv
import gzip
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fedonce.data.files.parsing import is_text
from fedonce.errors import InputError

DELIMITED = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
BLOCK_BYTES = 4 * 2**20  # of a CSV at a time
HEADER_LIMIT = 2**26  # characters of a CSV's first line
BLOCK_ROWS = 2**17  # of a Parquet column, or of what is written, at a time


def check_ending(path: str | os.PathLike[str]) -> str:
    """Return what a file's name says it is, "csv", "parquet" or "arrow"; raise for another ending.

    Parameters
    ----------
    path : path
        The file.
    """
    name = Path(path).name.lower()
    for form, endings in (("csv", DELIMITED), ("parquet", PARQUET), ("arrow", ARROW)):
        if name.endswith(endings):
            return form
    raise InputError(
        f"The file {path} must end in one of {', '.join(DELIMITED + PARQUET + ARROW)}, by which a table's format is known; "
        "rename or convert it."
    )


class Source(ABC):
    """A file of columns."""

    together = False  # whether columns are read all at once, or one after the other, in less memory
    textual = False  # whether all that it holds is text, and kinds are to be found out

    def __init__(self, path: Path, whose: str, names: Sequence[str]) -> None:
        self.path, self.whose, self.names = path, whose, list(names)
        self.positions = {name: position for position, name in enumerate(self.names)}  # a file may have 100,000 columns
        if len(self.positions) < len(self.names):
            twice, times = Counter(self.names).most_common(1)[0]
            raise InputError(f"The file {whose} has {times} columns {twice!r}; rename them, each name once.")

    @abstractmethod
    def chunks(self, names: Sequence[str]) -> Iterator[list[pa.Array]]:
        """Yield the columns, some rows at a time."""


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
            lines = iter(lambda: text.readline(HEADER_LIMIT), "")  # a file without line ends is not read whole
            first = next(lines, "")
            self.header_bytes = len(first.encode(errors="replace"))
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
        reading = pyarrow.csv.ReadOptions(block_size=max(BLOCK_BYTES, 16 * self.header_bytes))  # of many lines each
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
        texts = [field.name for field in schema if is_text(field.type)]  # few values in many rows are read as the few
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
        options = pa.ipc.IpcReadOptions(included_fields=[self.positions[name] for name in names])
        with pa.OSFile(str(self.path)) as opened:
            reader = self.opening(opened, options=options)
            batches = reader if self.together else map(reader.get_batch, range(reader.num_record_batches))
            for batch in batches:
                batch.validate(full=True)  # offsets beyond a buffer would end the process, not raise
                yield [batch.column(name) for name in names]


SOURCES: dict[str, Callable[[Path, str], Source]] = {"csv": _Delimited, "parquet": _Parquet, "arrow": _Arrow}
