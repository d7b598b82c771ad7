"""X and y as scikit-learn's users give them: checked as it does, with errors that show no rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import column_or_1d, validate_data

from fedonce.data.table import TOO_LARGE, Table
from fedonce.errors import InputError, shown


def table_of(estimator: BaseEstimator, X: Any, reset: bool) -> Table:
    """Check X for an estimator, and take it as a table; `reset`: the estimator remembers its columns."""
    frame = not isinstance(X, np.ndarray | list | tuple) and not sparse.issparse(X) and hasattr(X, "columns")
    if not frame:
        return Table.of(_array(estimator, X, reset))
    table = Table.of(X)
    if not table.n_rows or not table.names:
        raise InputError(
            f"Found a table with {table.n_rows} rows and {len(table.names)} columns; at least one of each is needed."
        )
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return table


def _array(estimator: BaseEstimator, X: Any, reset: bool) -> Any:
    """Check an array as scikit-learn does, whose error on the dimensions prints the array: ours must not show rows."""
    said = ""
    try:
        return validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype=None, ensure_all_finite=False)
    except ValueError as error:
        said, printed, _ = str(error).partition(":\narray=")
        if not printed:
            raise
    raise InputError(
        f"{said}: {shown(X)}. Reshape your data to rows and columns: array.reshape(-1, 1) of one column, "
        "array.reshape(1, -1) of one row, pandas.DataFrame(records) of records."
    )


def labels_of(y: Any, owner: str, dtype: type | None = None) -> NDArray[Any]:
    """Take labels as one array; errors say what they are, not their values."""
    if y is None:
        raise InputError(f"{owner} requires y to be passed, but the target y is None.")
    check_one_column(y)
    try:
        return np.asarray(column_or_1d(y, dtype=dtype, warn=True))
    except OverflowError:
        raise InputError(f"The labels y of {owner} have {TOO_LARGE}; divide them by a constant.") from None
    except ValueError as error:
        if "with a sequence" in str(error):
            raise InputError(f"The labels y of {owner} must be single values, one per row. Got lists.") from None
        if "could not convert" not in str(error):
            raise
    raise InputError(f"The labels y of {owner} must be numbers. Got text among them; use a classifier for classes.")


def check_one_column(y: Any) -> None:
    """Refuse tables of labels; some libraries' own errors come from far below."""
    shape = getattr(y, "shape", ())
    if isinstance(shape, tuple) and not sparse.issparse(y) and shape[1:] not in ((), (1,)):
        raise InputError(f"y should be a 1d array, one label per row. Got {shown(y)}; name one column.")
