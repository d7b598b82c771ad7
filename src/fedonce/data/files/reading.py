"""A table from a file: which columns are read, and what is said where that fails."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from fedonce.data.files.builders import Builder, Ids, Values
from fedonce.data.files.sources import SOURCES, Source, check_ending
from fedonce.data.table import KINDS, Table, did_you_mean
from fedonce.errors import InputError, parameter_error
from fedonce.system.disk import check_is_file

_INDEX = re.compile(r"__index_level_\d+__")  # what pandas adds to a file is no column of the user's


def read_table(
    path: str | os.PathLike[str],
    *,
    id: str | None = None,
    columns: Sequence[str] | None = None,
    types: Mapping[Any, str] | None = None,
    optional: Collection[str] = (),
    party: str = "",
) -> Table:
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

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     print("customer,age,city", "c1,40,Bern", "c2,31,Zug", sep=chr(10), file=file, flush=True)
    ...     table = read_table(file.name, id="customer")
    >>> table.names, list(table.ids)
    (('age', 'city'), ['c1', 'c2'])
    """
    path = Path(path)
    whose = f"{path}{f' (party {party!r})' if party else ''}"
    if not path.is_dir():  # of which the system tells
        check_is_file(path, "table")
    with _clear_errors(whose):
        source = SOURCES[check_ending(path)](path, whose)
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
    if id is not None and id not in source.positions:
        raise InputError(f"The file {source.whose} has no id column {id!r}{did_you_mean(id, source.names)}")
    seen = set() if id is None else {id}
    for name in names:
        if name not in source.positions and name not in optional:
            raise InputError(f"The file {source.whose} has no column {name!r}{did_you_mean(name, source.names)}")
        if name in seen:
            raise parameter_error("read_table", "columns", "different columns, and none of them the id", name)
        seen.add(name)
    return [name for name in names if name in source.positions]


def _given_kinds(source: Source, types: Mapping[Any, str] | None, optional: Collection[str]) -> dict[str, str]:
    for name, kind in (types or {}).items():
        if kind not in KINDS:
            raise InputError(
                f"Column {name!r} of {source.whose} cannot have the type {kind!r} (types); it can be one of {', '.join(KINDS)}.",
                parameter="types",
            )
        if name not in source.positions and name not in optional:
            hint = did_you_mean(name, source.names)
            raise InputError(
                f"The file {source.whose} has no column {name!r} to give a type (types){hint}", parameter="types"
            )
    return dict(types or {})


def _read(source: Source, wanted: Sequence[str], id: str | None, kinds: Mapping[str, str]) -> dict[str, Builder]:
    """Read all columns; once more those of a CSV that only a later chunk showed to be categories."""
    builders: dict[str, Builder] = {} if id is None else {id: Ids(source, id)}
    builders |= {name: Values(source, name, kinds.get(name)) for name in wanted}
    _fill(source, builders)
    again = {name: Values(source, name, "category", guessed=True) for name, old in builders.items() if old.again}
    _fill(source, again)
    return builders | again


def _fill(source: Source, builders: Mapping[str, Builder]) -> None:
    names = list(builders)
    for group in [names] if source.together and names else [[name] for name in names]:
        for chunks in source.chunks(group):
            for name, chunk in zip(group, chunks, strict=True):
                builders[name].add(chunk)
