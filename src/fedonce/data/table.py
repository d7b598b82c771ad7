"""Tables in memory, whatever the library: numpy, scipy.sparse, pandas, polars and other data frames, as one type."""

from __future__ import annotations

import datetime
import difflib
import sys
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray
from scipy import sparse

from fedonce.data.mistyped import warn_if_mistyped
from fedonce.errors import InputError

Numbers = NDArray[Any]
Categories = NDArray[np.object_]
Dates = NDArray[np.datetime64]
KINDS = ("number", "category", "boolean", "date")
DATES = np.dtype("datetime64[us]")


@dataclass(frozen=True)
class Table:
    """Rows and columns of one party or of all of them.

    Either `matrix` is set (all columns are numbers, dense or sparse), or `columns` is, an array a column: numbers or
    booleans (NaN is missing), objects that are text (None is missing), or datetime64[us] in UTC (NaT is missing).
    `ids` says who each row is, where that is known.
    """

    names: tuple[Hashable, ...]
    named: bool = False  # whether names are the user's own, or mere positions
    matrix: Any = None
    columns: tuple[Numbers | Categories | Dates, ...] = ()
    ids: NDArray[np.object_] | None = None
    booleans: frozenset[Hashable] = (
        frozenset()
    )  # columns of booleans, also where they are floats since some are missing

    @classmethod
    def of(cls, data: Any) -> Table:
        """Take a table from whatever library it comes, without copying more than needed."""
        if isinstance(data, Table):
            return data
        if sparse.issparse(data):
            return cls._of_matrix(sparse.csr_array(data))
        try:
            frame = nw.from_native(data, pass_through=True)
        except DuplicateError as error:
            raise InputError(f"The table's column names must be unique; rename one of each. {error}") from None
        if isinstance(frame, nw.DataFrame):
            return cls._of_frame(frame)
        if isinstance(frame, nw.LazyFrame):
            raise InputError("A lazy table has no rows yet; call .collect() first.")
        matrix = np.asarray(data)
        if matrix.ndim != 2:
            raise InputError(
                f"A table must have two dimensions, rows and columns. Got an array of shape {matrix.shape}."
            )
        if matrix.dtype.kind in "OUS":
            return cls(
                tuple(range(matrix.shape[1])),
                columns=tuple(_from_objects(matrix[:, j], j) for j in range(matrix.shape[1])),
            )
        if matrix.dtype.kind == "M":
            columns = (_in_microseconds(matrix[:, j], j) for j in range(matrix.shape[1]))
            return cls(tuple(range(matrix.shape[1])), columns=tuple(columns))
        return cls._of_matrix(matrix)

    @classmethod
    def _of_matrix(cls, matrix: Any) -> Table:
        if matrix.dtype.kind not in "fiub":
            raise InputError(
                f"A numeric table must hold real numbers or booleans. Got {matrix.dtype}; convert the columns first."
            )
        return cls(tuple(range(matrix.shape[1])), matrix=matrix)

    @classmethod
    def _of_frame(cls, frame: nw.DataFrame[Any]) -> Table:
        native = frame.to_native()
        # pandas may name columns by anything, and narwhals gives text.
        names = tuple(native.columns) if nw.dependencies.is_pandas_dataframe(native) else tuple(frame.columns)
        columns = [frame[:, j] for j in range(len(names))]
        return cls(
            names,
            named=True,
            columns=tuple(_from_series(column, name) for column, name in zip(columns, names, strict=True)),
            booleans=frozenset(name for column, name in zip(columns, names, strict=True) if column.dtype == nw.Boolean),
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if self.matrix is not None:
            return int(self.matrix.shape[0])
        if self.columns:
            return len(self.columns[0])
        return 0 if self.ids is None else len(self.ids)

    @property
    def kinds(self) -> dict[Hashable, str]:
        """What each column holds: "number", "category", "boolean" or "date"."""
        if self.matrix is not None:
            return dict.fromkeys(self.names, "boolean" if self.matrix.dtype == bool else "number")
        pairs = zip(self.names, self.columns, strict=True)
        return {name: "boolean" if name in self.booleans else kind_of(column) for name, column in pairs}

    def select(self, positions: Sequence[int]) -> Table:
        """Return some of the columns."""
        names = tuple(self.names[j] for j in positions)
        if self.matrix is None:
            return replace(self, names=names, columns=tuple(self.columns[j] for j in positions))
        contiguous = list(positions) == list(range(positions[0], positions[0] + len(positions))) if positions else False
        key = slice(positions[0], positions[0] + len(positions)) if contiguous else list(positions)
        return replace(self, names=names, matrix=self.matrix[:, key])

    def take(self, rows: NDArray[np.bool_] | NDArray[np.integer[Any]] | slice) -> Table:
        """Return some of the rows: those that are marked, or those at the positions given, in that order."""
        ids = None if self.ids is None else self.ids[rows]
        if self.matrix is None:
            return replace(self, columns=tuple(column[rows] for column in self.columns), ids=ids)
        return replace(self, matrix=self.matrix[rows], ids=ids)

    def pop(self, name: Hashable) -> tuple[NDArray[Any], Table]:
        """Return a column's values, as the label's, and the table without it."""
        if name not in self.names:
            raise InputError(f"The table has no column {name!r}{did_you_mean(name, self.names)}")
        position = self.names.index(name)
        rest = self.select([j for j in range(len(self.names)) if j != position])
        if self.matrix is None:
            return self.columns[position], rest
        values = self.matrix[:, [position]]
        return np.asarray(values.toarray() if sparse.issparse(values) else values).ravel(), rest


def kind_of(column: NDArray[Any]) -> str:
    """Return what an array holds, one of KINDS.

    >>> kind_of(np.array([True])), kind_of(np.array(["x"], dtype=object))
    ('boolean', 'category')
    """
    return {"O": "category", "M": "date", "b": "boolean"}.get(column.dtype.kind, "number")


def did_you_mean(name: Hashable, names: Iterable[Hashable]) -> str:
    """Return the end of a message on a column that is not there: what is, and what was perhaps meant.

    >>> did_you_mean("agge", ["age", "city"])
    "; did you mean 'age'? It has 'age', 'city'."
    """
    every = list(names)
    close = difflib.get_close_matches(str(name), [str(other) for other in every], n=1)
    listed = ", ".join(map(repr, every[:20])) + (f" and {len(every) - 20} more" if len(every) > 20 else "")
    return (f"; did you mean {close[0]!r}? It has " if close else "; it has ") + (listed or "none") + "."


def in_microseconds(dates: NDArray[np.datetime64]) -> tuple[Dates, int]:
    """Return dates in microseconds, and how many of them are too far from 1970 for that: some 290,000 years.

    numpy does not tell: a second or a day that is too far comes out as another date.
    """
    converted = dates.astype(DATES)
    if np.datetime_data(dates.dtype)[0] not in _COARSE:
        return converted, 0
    return converted, int((~np.isnat(dates) & (converted.astype(dates.dtype) != dates)).sum())


_COARSE = ("Y", "M", "W", "D", "h", "m", "s", "ms")


def too_far(column: str, count: int | None = None) -> InputError:
    """Return the error about dates or times that nothing here can hold."""
    many = "a value" if count is None else f"{count:,} value{'' if count == 1 else 's'} or more"
    return InputError(
        f"{column} has {many} too far away for a date or a time; correct them, leave them empty, or make the column numbers."
    )


def _in_microseconds(dates: NDArray[np.datetime64], name: Hashable) -> Dates:
    converted, lost = in_microseconds(dates)
    if lost:
        raise too_far(f"Column {name!r}", lost)
    return converted


def _from_series(series: nw.Series[Any], name: Hashable) -> Numbers | Categories | Dates:
    try:
        return _array(series, name)
    except OverflowError:  # what Python says of dates beyond its own
        raise too_far(f"Column {name!r}") from None


def _array(series: nw.Series[Any], name: Hashable) -> Numbers | Categories | Dates:
    dtype = series.dtype
    if dtype == nw.Boolean or dtype.is_numeric():
        if not dtype.is_float() and dtype != nw.Decimal and series.null_count() == 0:
            return np.asarray(series.to_numpy())
        numbers = series.cast(nw.Float64) if not dtype.is_float() else series
        return np.asarray(numbers.fill_null(float("nan")).to_numpy())
    if dtype == nw.Datetime:
        zone = getattr(dtype, "time_zone", None)
        local = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if zone else series
        return _in_microseconds(np.asarray(local.to_numpy()), name)
    if dtype == nw.Duration:
        return _seconds(np.asarray(series.to_numpy()))
    if isinstance(dtype, nw.String | nw.Categorical | nw.Enum):
        texts = np.array([None if is_missing(value) else as_text(value) for value in series.to_list()], dtype=object)
        if dtype == nw.String:
            _warn_if_mistyped(texts, name)
        return texts
    if dtype in (nw.Object, nw.Unknown, nw.Date, nw.Time):
        values = np.empty(len(series), dtype=object)
        values[:] = series.to_list()
        return _dates(values, _missing(values)) if dtype == nw.Date else _from_objects(values, name)
    raise InputError(
        f"Column {name!r} has type {dtype}; use numbers, booleans, dates or categories (text), or drop it."
    )


def _seconds(durations: NDArray[Any]) -> Numbers:
    known = ~np.isnat(durations)
    seconds = np.full(len(durations), np.nan)
    seconds[known] = durations[known] / np.timedelta64(1, "s")
    return seconds


def _missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.fromiter((is_missing(value) for value in values), dtype=bool, count=len(values))


def _from_objects(values: NDArray[Any], name: Hashable) -> Numbers | Categories | Dates:
    """Sort out a column of Python objects: all numbers, all dates, or categories."""
    objects = values.astype(object)
    missing = _missing(objects)
    known = objects[~missing]
    for value in known:
        if not isinstance(value, _TEXT | _NUMBERS | _DATES | np.generic):
            raise TypeError(
                f"Column {name!r} holds a {type(value).__name__}; "
                "each value, like a function's argument, must be a string or a number."
            )
        if is_too_large(value):
            raise InputError(f"Column {name!r} has {TOO_LARGE}; divide the column by a constant, or make it text.")
    if len(known) and all(isinstance(value, _DATES) for value in known):
        try:
            return _dates(objects, missing)
        except OverflowError:
            raise too_far(f"Column {name!r}") from None
    if not any(isinstance(value, _TEXT | _DATES) for value in known):
        numbers = np.full(len(objects), np.nan)
        numbers[~missing] = [_number(value) for value in known]
        return numbers
    categories = np.empty(len(objects), dtype=object)
    categories[~missing] = [as_text(value) for value in known]
    _warn_if_mistyped(categories, name)
    return categories


def _warn_if_mistyped(categories: Categories, name: Hashable) -> None:
    """Tell the caller where nearly all of a column of text is something else."""
    codes: dict[str | None, int] = {None: -1}
    rows = np.fromiter((codes.setdefault(text, len(codes) - 1) for text in categories), np.int64, len(categories))

    def remedy(kind: str) -> str:
        return f"Convert the column to {kind}s first, a missing value in place of what is none; or make it a categorical type."

    warn_if_mistyped(f"column {name!r}", rows, [text for text in codes if text is not None], remedy)


_TEXT = str | bytes
_DATES = datetime.date | np.datetime64  # a datetime is a date, and pandas' a datetime
_NUMBERS = bool | int | float | Decimal | datetime.timedelta | datetime.time


def _dates(objects: NDArray[Any], missing: NDArray[np.bool_]) -> Dates:
    dates = np.full(len(objects), "NaT", dtype=DATES)
    dates[~missing] = [as_date(value) for value in objects[~missing]]
    return dates


def as_date(value: Any) -> np.datetime64:
    """Return a date or datetime as one of numpy's, in UTC where it has a time zone."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, np.datetime64) and in_microseconds(np.array([value]))[1]:
        raise OverflowError(value)
    return np.datetime64(value, "us")


def _number(value: Any) -> float:
    """Return a number; of a duration the seconds, of a time of day those since midnight."""
    if isinstance(value, datetime.time):
        value = datetime.timedelta(0, value.second, value.microsecond, 0, value.minute, value.hour)
    if isinstance(value, np.timedelta64):
        return float(value / np.timedelta64(1, "s"))
    return value.total_seconds() if isinstance(value, datetime.timedelta) else float(value)


TOO_LARGE = "a whole number beyond 1.8e308, which nothing here can hold"


def is_too_large(value: object) -> bool:
    """Tell a whole number that is no float: Python's have no limit."""
    return isinstance(value, int) and abs(value) > sys.float_info.max


def is_missing(value: object) -> bool:
    """Tell None, NaN and pandas' NA, which are the values that do not equal themselves."""
    if value is None:
        return True
    try:
        equal = value == value
    except InvalidOperation:
        raise InputError(
            "There is a Decimal('sNaN') among the values, which cannot be compared; write None or NaN where a value is missing."
        ) from None
    return not isinstance(equal, bool | np.bool_) or not equal


def as_text(value: object) -> str:
    """Return a category's name: 2 and 2.0 are "2", whatever type the column has at training and at prediction."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, np.timedelta64):  # numpy's durations are whole numbers, and cannot be compared with one
        return str(value)
    if isinstance(value, float | np.generic) and np.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value)
