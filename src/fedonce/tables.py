"""Tables in memory, whatever the library: numpy, scipy.sparse, pandas, polars and other data frames, as one type."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray
from scipy import sparse

from fedonce.errors import InputError

Numbers = NDArray[Any]
Categories = NDArray[np.object_]


@dataclass(frozen=True)
class Table:
    """Rows and columns of one party or of all of them.

    Either `matrix` is set (all columns are numbers, dense or sparse), or `columns` is: a float array (NaN is missing)
    or an object array of text (None is missing) a column.
    """

    names: tuple[Hashable, ...]
    matrix: Any = None
    columns: tuple[Numbers | Categories, ...] = ()

    @classmethod
    def of(cls, data: Any) -> Table:
        """Take a table from whatever library it comes, without copying more than needed."""
        if isinstance(data, Table):
            return data
        if sparse.issparse(data):
            return cls._of_matrix(sparse.csr_array(data))
        try:
            frame = nw.from_native(data, eager_only=True, pass_through=True)
        except DuplicateError as error:
            raise InputError(f"The table's column names must be unique; rename one of each. {error}") from None
        if isinstance(frame, nw.DataFrame):
            return cls._of_frame(frame)
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
        names = tuple(getattr(frame.to_native(), "columns", frame.columns))
        columns = [frame[:, j] for j in range(len(names))]
        return cls(
            names,
            columns=tuple(_from_series(column, name) for column, name in zip(columns, names, strict=True)),
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if self.matrix is not None:
            return int(self.matrix.shape[0])
        return len(self.columns[0]) if self.columns else 0

    def select(self, positions: Sequence[int]) -> Table:
        """Return some of the columns."""
        names = tuple(self.names[j] for j in positions)
        if self.matrix is None:
            return Table(names, columns=tuple(self.columns[j] for j in positions))
        contiguous = list(positions) == list(range(positions[0], positions[0] + len(positions))) if positions else False
        key = slice(positions[0], positions[0] + len(positions)) if contiguous else list(positions)
        return Table(names, matrix=self.matrix[:, key])

    def take(self, rows: NDArray[np.bool_] | slice) -> Table:
        """Return some of the rows."""
        if self.matrix is None:
            return Table(self.names, columns=tuple(column[rows] for column in self.columns))
        return Table(self.names, matrix=self.matrix[rows])


def _from_series(series: nw.Series[Any], name: Hashable) -> Numbers | Categories:
    dtype = series.dtype
    if dtype == nw.Boolean or dtype.is_numeric():
        if not dtype.is_float() and series.null_count() == 0:
            return np.asarray(series.to_numpy())
        numbers = series.cast(nw.Float64) if not dtype.is_float() else series
        return np.asarray(numbers.fill_null(float("nan")).to_numpy())
    if isinstance(dtype, nw.String | nw.Categorical | nw.Enum) or dtype in (nw.Object, nw.Unknown):
        return _from_objects(np.asarray(series.to_list(), dtype=object), name)
    raise InputError(f"Column {name!r} has type {dtype}; use numbers, booleans or categories (text), or drop it.")


def _from_objects(values: NDArray[Any], name: Hashable) -> Numbers | Categories:
    """Sort out a column of Python objects: all numbers, or categories."""
    objects = values.astype(object)
    missing = np.fromiter((_is_missing(value) for value in objects), dtype=bool, count=len(objects))
    known = objects[~missing]
    for value in known:
        if not isinstance(value, str | bytes | bool | int | float | np.generic):
            raise TypeError(
                f"Column {name!r} holds a {type(value).__name__}; "
                "each value, like a function's argument, must be a string or a number."
            )
    if len(known) == 0 or not any(isinstance(value, str | bytes) for value in known):
        numbers = np.full(len(objects), np.nan)
        numbers[~missing] = known.astype(np.float64)
        return numbers
    categories = np.empty(len(objects), dtype=object)
    categories[~missing] = [_text(value) for value in known]
    return categories


def _is_missing(value: object) -> bool:
    """Tell None, NaN and pandas' NA, which are the values that do not equal themselves."""
    if value is None:
        return True
    equal = value == value
    return not isinstance(equal, bool | np.bool_) or not equal


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
