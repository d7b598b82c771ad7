"""A guest's tables, looked at before it starts: files that are there, columns that they have."""

from __future__ import annotations

from pathlib import Path

from fedonce.data.table import did_you_mean
from fedonce.errors import InputError
from fedonce.federation.policy import Policy
from fedonce.federation.tables import GuestTables


def check_tables(tables: GuestTables, policy: Path) -> None:
    """Raise where a file is missing, or a table has not the columns that are named. Only the head of a table is read.

    `policy` is the file where the guest's tables name no other.
    """
    for name in ("data", "predict", "secret", "public", "policy"):
        path = getattr(tables, name)
        if path is not None and not path.is_file():
            raise InputError(f"There is no file {path} ({name} of this guest); check its name and folder.")
    for table in (tables.data, tables.predict):
        if table is None:
            continue
        columns = _columns(table)
        if tables.id not in columns:
            raise InputError(f"The file {table} has no id column {tables.id!r}{did_you_mean(tables.id, columns)}")
        if table == tables.data:
            _check_columns(tables, tables.policy or policy, columns)


def _check_columns(tables: GuestTables, policy: Path, columns: list[str]) -> None:
    for name in (*tables.drop, *tables.types):
        if name not in columns:
            raise InputError(f"The file {tables.data} has no column {name!r}{did_you_mean(name, columns)}")
    Policy.read(policy).check_columns(columns, policy)


def _columns(path: Path) -> list[str]:
    from fedonce.data.files.sources import SOURCES, check_ending

    try:
        return list(SOURCES[check_ending(path)](path, str(path)).names)
    except (OSError, EOFError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"The file {path} cannot be read as what its ending says ({error}); export it again."
        ) from None
