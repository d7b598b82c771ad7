"""A party's table in a file, and the labels in it: where it is, which of it is used, and whether it can be."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.data.files import read_table
from fedonce.data.preparation import Public
from fedonce.data.preparation.public import kind_of_values
from fedonce.data.schema import Reading
from fedonce.data.table import Table, did_you_mean, is_missing
from fedonce.errors import FedOnceWarning, InputError, quoted
from fedonce.jobs.weighing import Weighing

MOST_CLASSES = 20  # whole numbers with more values than this are a quantity
LEAST_IDS = 20  # rows below which values that all differ are no sign of ids


@dataclass(frozen=True)
class TableSource:
    """A table in a file.

    Parameters
    ----------
    path : path
        CSV, TSV, Parquet or Arrow, by its ending.
    id : str, optional
        The column of ids; None: rows are known by position, the same in every party's table.
    columns : sequence of str, optional
        The columns to use; None: all of them.
    drop : sequence of str
        Columns to leave out.
    types : dict by column
        "number", "category", "boolean" or "date", where the guess is wrong.
    """

    path: str | Path
    id: str | None = None
    columns: Sequence[str] | None = None
    drop: Sequence[str] = ()
    types: Mapping[str, str] = field(default_factory=dict)

    def read(
        self,
        party: str,
        label: str | None = None,
        weighing: Weighing | None = None,
        public: Public | None = None,
        classes: Sequence[Any] | None = None,
    ) -> tuple[Table, Reading]:
        """Read the table, and say how, so that it is read alike at prediction. Label and weights are the last columns.

        Under a privacy budget or a local epsilon what is `public` of the table, and the public `classes` or bounds of its labels,
        say what columns hold: a guess would depend on rows, and be released with the model.
        """
        weighing = weighing or Weighing()
        weighing.check_column(self.id, label)
        last = [name for name in (label, weighing.column) if name is not None]
        wanted = None if self.columns is None else [*self.columns, *(each for each in last if each not in self.columns)]
        table = read_table(self.path, id=self.id, columns=wanted, types=self.types, party=party)
        places = {str(name): position for position, name in enumerate(table.names)}
        for name in (*self.drop, *last):
            if name not in places:
                raise InputError(f"The file {self.path} has no column {name!r}{did_you_mean(name, table.names)}")
        dropped = {*self.drop, *last}
        kept = [name for name in places if name not in dropped]
        if not kept:
            raise InputError(f"{self.path} has no column to learn from, besides {self.id!r} and {label!r}.")
        if public is not None:
            labels: dict[Any, str] = {} if label is None or classes is None else {label: kind_of_values(classes)}
            _check_public(public, list(table.names), party)
            known = public.kinds(kept) | labels | dict(self.types)
            undeclared = [name for name in kept if name not in known]
            if undeclared:
                raise InputError(
                    f"What column {undeclared[0]!r} of party {party!r} holds is not declared, and nothing may be read off the "
                    "rows for it: give its bounds or categories (public), or its type (types): number, category, boolean or "
                    "date.",
                    parameter=("public", "types"),
                )
            if any(table.kinds[name] != kind for name, kind in known.items()):
                table = read_table(self.path, id=self.id, columns=wanted, types=known, party=party)
        table = table.select([places[name] for name in (*kept, *last)])
        if self.id is None:
            _warn_of_ids(table, kept, self.path)
        kinds = {str(name): kind for name, kind in table.kinds.items()}
        return table, Reading(self.id, tuple(kept), kinds, label, weighing.column, weighing.classes)

    def check_reads_alike(self, reading: Reading, label: str | None, weight: str | None = None) -> None:
        """Refuse to read a table in another way than the model that is trained again did."""
        same = {
            "id": self.id in (None, reading.id),
            "label": label in (None, reading.label),
            "weight": weight in (None, reading.weight),
            "columns": self.columns is None or list(self.columns) == list(reading.columns),
            "drop": not set(self.drop) & set(reading.columns),
            "types": all(reading.types.get(name) == kind for name, kind in self.types.items()),
        }
        for parameter, alike in same.items():
            if not alike:
                raise InputError(
                    f"The table is read as before where a model is trained again (refit): leave this out ({parameter}). To read "
                    "it otherwise, train into another folder.",
                    parameter=(parameter, "refit"),
                )


def _check_public(public: Public, names: Sequence[Any], party: str) -> None:
    """Refuse public knowledge of a column that is not there, and nearly is: with a slip of the pen it would serve none."""
    bounds = public.bounds if isinstance(public.bounds, Mapping) else {}
    known = {*bounds, *public.categories}
    for name in known - set(names):  # one that is like no column may be another party's, or left out here
        left = [str(each) for each in names if each not in known]
        if meant := get_close_matches(str(name), left, 1):
            raise InputError(
                f"The public knowledge of party {party!r} names column {name!r}, and the table has no such column; did you mean "
                f"{meant[0]!r}?",
                parameter="public",
            )


def _warn_of_ids(table: Table, names: Sequence[str], path: str | Path) -> None:
    """Say so where nobody named ids, and a column looks like them."""
    columns = dict(zip(table.names, table.columns, strict=True))
    found = [name for name in names if looks_like_ids(columns[name])]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        text = (
            f"Column {found[0]!r}{more} of {path} is different in every row and looks like ids: name it as the column of ids "
            "(id), or leave it out (drop)."
        )
        warnings.warn(FedOnceWarning(text, parameter=("id", "drop")), stacklevel=3)


def looks_like_ids(column: NDArray[Any]) -> bool:
    """Tell whether text or whole numbers are all there and all different; a part of the rows tells most columns apart."""
    if column.dtype.kind not in "Oiu" or len(column) < LEAST_IDS:
        return False
    for part in (column[:1000], column):
        values = part.tolist()
        if None in values or len(set(values)) < len(values):
            return False
    return True


@dataclass(frozen=True)
class LabelledTable:
    """A table that was read, its labels, how it was read, and what its column of weights says, where there is one."""

    table: Table
    label: NDArray[Any]
    reading: Reading
    weight: NDArray[Any] | None = None

    def weights(self, task: str, path: str | Path) -> NDArray[np.float64] | None:
        """Return how much each row counts; None: all alike."""
        return Weighing(self.reading.weight, self.reading.class_weight).weights(self.weight, self.label, task, path)


def read_labelled(
    source: TableSource,
    label: str | None,
    party: str,
    before: Reading | None = None,
    weighing: Weighing | None = None,
    public: Public | None = None,
    classes: Sequence[Any] | None = None,
) -> LabelledTable:
    """Read a training table and its labels; where a model is trained again, as it was read before; see `TableSource.read`."""
    weighing = weighing or Weighing()
    if before is not None:
        source.check_reads_alike(before, label, weighing.column)
        reading = before if weighing.classes is None else replace(before, class_weight=weighing.classes)
        table = reading.read(source.path, party, with_label=True, with_weight=True)
    elif label is None:
        raise InputError("Say which column is to be predicted (label).", parameter="label")
    else:
        table, reading = source.read(party, label, weighing, public, classes)
    y, table = table.pop(reading.label or "")
    check_label(y, f"Column {reading.label!r} of {source.path}")
    weight = None
    if reading.weight is not None:
        weight, table = table.pop(reading.weight)
    return LabelledTable(table, y, reading, weight)


def check_label(y: NDArray[Any], column: str) -> None:
    """Refuse labels with gaps, and dates."""
    if y.dtype.kind == "M":
        raise InputError(
            f"{column} holds dates, which cannot be predicted; name another column (label), or make it numbers.",
            parameter="label",
        )
    gaps = np.flatnonzero([is_missing(value) for value in y.tolist()])
    if len(gaps):
        first = f"first in row {gaps[0] + 1}"
        raise InputError(f"{column} has no label in {len(gaps)} of {len(y)} rows, {first}; train without these rows.")


def check_task(task: str, y: NDArray[Any], column: str | None) -> None:
    """Raise where numbers are to be predicted, and labels are text."""
    if task == "regression" and y.dtype.kind == "O":
        raise InputError(
            f"The labels, column {column!r}, are text ({quoted(str(y[0]))}), and regression needs numbers; take another task.",
            parameter="task",
        )


def infer_task(y: NDArray[Any]) -> str:
    """Return the task that labels ask for: text, booleans and few whole numbers are classes."""
    if y.dtype.kind in "Ob":
        return "classification"
    known = y[np.isfinite(y)] if y.dtype.kind == "f" else y
    whole = bool((known == np.rint(known)).all())
    return "classification" if whole and len(np.unique(known)) <= MOST_CLASSES else "regression"
