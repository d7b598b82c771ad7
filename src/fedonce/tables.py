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
    named: bool = False  # whether names are the user's own, or mere positions
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
            return Table(names, self.named, columns=tuple(self.columns[j] for j in positions))
        contiguous = list(positions) == list(range(positions[0], positions[0] + len(positions))) if positions else False
        key = slice(positions[0], positions[0] + len(positions)) if contiguous else list(positions)
        return Table(names, self.named, matrix=self.matrix[:, key])

    def take(self, rows: NDArray[np.bool_] | slice) -> Table:
        """Return some of the rows."""
        if self.matrix is None:
            return Table(self.names, self.named, columns=tuple(column[rows] for column in self.columns))
        return Table(self.names, self.named, matrix=self.matrix[rows])


def _from_series(series: nw.Series[Any], name: Hashable) -> Numbers | Categories:
    dtype = series.dtype
    if dtype == nw.Boolean or dtype.is_numeric():
        if not dtype.is_float() and series.null_count() == 0:
            return np.asarray(series.to_numpy())
        numbers = series.cast(nw.Float64) if not dtype.is_float() else series
        return np.asarray(numbers.fill_null(float("nan")).to_numpy())
    if isinstance(dtype, nw.String | nw.Categorical | nw.Enum):
        return np.array([None if is_missing(value) else as_text(value) for value in series.to_list()], dtype=object)
    if dtype in (nw.Object, nw.Unknown):
        values = np.empty(len(series), dtype=object)
        values[:] = series.to_list()
        return _from_objects(values, name)
    raise InputError(f"Column {name!r} has type {dtype}; use numbers, booleans or categories (text), or drop it.")


def _from_objects(values: NDArray[Any], name: Hashable) -> Numbers | Categories:
    """Sort out a column of Python objects: all numbers, or categories."""
    objects = values.astype(object)
    missing = np.fromiter((is_missing(value) for value in objects), dtype=bool, count=len(objects))
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
    categories[~missing] = [as_text(value) for value in known]
    return categories


def is_missing(value: object) -> bool:
    """Tell None, NaN and pandas' NA, which are the values that do not equal themselves."""
    if value is None:
        return True
    equal = value == value
    return not isinstance(equal, bool | np.bool_) or not equal


def as_text(value: object) -> str:
    """Return a category's name: 2 and 2.0 are "2", whatever type the column has at training and at prediction."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | int | float | np.generic) and np.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value)
