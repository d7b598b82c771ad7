"""A table to a file, whole or not at all."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from fedonce.data.files.sources import BLOCK_ROWS, check_ending
from fedonce.data.table import as_text, is_missing
from fedonce.errors import InputError, parameter_error
from fedonce.system.disk import whole_file


def write_table(path: str | os.PathLike[str], columns: Mapping[str, NDArray[Any]]) -> Path:
    """Write columns to a file, whole or not at all; its format by its ending.

    Parameters
    ----------
    path : path
        The file: CSV, TSV, Parquet or Arrow by its ending.
    columns : mapping of str to array
        Columns by name.
    """
    path = Path(path)
    form = check_ending(path)
    if len({len(column) for column in columns.values()}) != 1:
        raise parameter_error("write_table", "columns", "of one length", {k: len(v) for k, v in columns.items()})
    try:
        with whole_file(path) as temporary:
            _WRITERS[form](temporary, columns, path.name.lower())
    except OSError as error:
        raise InputError(
            f"The file {path} could not be written ({error.strerror or error}); make room, check the folder and the permission."
        ) from None
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
