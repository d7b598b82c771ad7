"""Who holds which columns: even blocks, image tiles, views, a biased division, or as the user names them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedonce.data.table import Table
from fedonce.errors import InputError, parameter_error
from fedonce.messages.names import MUST_BE, is_party_name, why_not


@dataclass(frozen=True)
class Pixels:
    """Columns that form an image: `columns` lists them in the order channel, row, column of `shape`.

    >>> Pixels((0, 1, 2, 3), (2, 2)).shape
    (1, 2, 2)
    """

    columns: tuple[Hashable, ...]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        shape = tuple(int(side) for side in self.shape)
        if len(shape) == 2:
            shape = (1, *shape)
        if len(shape) != 3 or min(shape) < 1 or prod(shape) != len(self.columns):
            raise parameter_error(
                "Pixels",
                "shape",
                f"(rows, columns) or (channels, rows, columns) with {len(self.columns)} pixels",
                self.shape,
            )
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "shape", shape)

    def __repr__(self) -> str:
        return f"Pixels(<{len(self.columns)} columns>, shape={self.shape})"


@dataclass(frozen=True)
class Block:
    """A party's columns by position, and their image shape where they are pixels."""

    positions: tuple[int, ...]
    shape: tuple[int, ...] | None = None


Parties = Mapping[str, "Pixels | Sequence[Hashable]"] | int | None


def even(n_columns: int, k: int) -> dict[str, list[int]]:
    """Divide `n_columns` columns into `k` contiguous blocks of nearly equal size.

    >>> even(5, 2)
    {'party1': [0, 1, 2], 'party2': [3, 4]}
    """
    if not 1 <= k <= n_columns:
        raise parameter_error("even", "k", f"between 1 and the number of columns ({n_columns})", k)
    blocks = np.array_split(np.arange(n_columns), k)
    return {f"party{j}": block.tolist() for j, block in enumerate(blocks, start=1)}


def tiles(shape: Sequence[int], grid: tuple[int, int]) -> dict[str, Pixels]:
    """Divide an image into a grid of tiles, one per party, row by row.

    Parameters
    ----------
    shape : (rows, columns) or (channels, rows, columns)
        The image's.
    grid : (rows, columns)
        How many tiles there are, down and across.

    >>> [tile.columns for tile in tiles((2, 4), (1, 2)).values()]
    [(0, 1, 4, 5), (2, 3, 6, 7)]
    """
    image = np.arange(prod(shape)).reshape((1, *shape) if len(shape) == 2 else tuple(shape))
    if grid[0] < 1 or grid[1] < 1 or image.shape[1] % grid[0] or image.shape[2] % grid[1]:
        raise parameter_error("tiles", "grid", f"two divisors of the image's sides {image.shape[1:]}", grid)
    pieces = [piece for row in np.split(image, grid[0], axis=1) for piece in np.split(row, grid[1], axis=2)]
    return {f"party{j}": Pixels(tuple(p.ravel().tolist()), p.shape) for j, p in enumerate(pieces, start=1)}


def views(widths: Mapping[str, int]) -> dict[str, list[int]]:
    """Divide columns into contiguous blocks by their `widths`, a named party each: data that come in several views.

    >>> views({"colour": 2, "texture": 3})
    {'colour': [0, 1], 'texture': [2, 3, 4]}
    """
    starts = np.cumsum([0, *widths.values()]).tolist()
    return {
        name: list(range(start, start + width)) for start, (name, width) in zip(starts, widths.items(), strict=False)
    }


def biased(
    X: Any, y: ArrayLike, alpha: float, p: int, seed: int = 0, task: str | None = None
) -> dict[str, list[Hashable]]:
    """Divide columns between a host and a guest so that a share `alpha` of the `p` most important ones is the host's.

    Importance is XGBoost's (gain), from the rows given: training rows, or the division has seen the test. The other
    columns are drawn so that both parties have equally many (the host one more where the number is odd).

    Parameters
    ----------
    X, y : array-like or table
        Training rows of numbers, and their labels.
    alpha : float
        Share of the dominant columns that the host gets, 0 to 1.
    p : int
        Number of dominant columns.
    seed : int
        Fixes the draw.
    task : str, optional
        "classification" or "regression". None: regression where labels are floating-point numbers.

    Returns
    -------
    dict
        The host's columns ("party1") and the guest's ("party2"): names where the table has some, else positions.
    """
    table = Table.of(X)
    n_columns = len(table.names)
    if not isinstance(alpha, Real) or not 0 <= alpha <= 1:
        raise parameter_error("biased", "alpha", "a number between 0 and 1", alpha)
    if isinstance(p, bool) or not isinstance(p, int | np.integer) or not 1 <= p <= n_columns // 2:
        raise parameter_error("biased", "p", f"an integer from 1 to half of the {n_columns} columns", p)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise parameter_error("biased", "seed", "an integer of at least 0", seed)
    rng = np.random.default_rng(seed)
    order = np.argsort(-importance(table, y, seed, task), kind="stable")
    dominant, others = rng.permutation(order[:p]), rng.permutation(order[p:])
    n_dominant = round(alpha * p)
    host = np.concatenate([dominant[:n_dominant], others[: (n_columns + 1) // 2 - n_dominant]])
    guest = np.setdiff1d(np.arange(n_columns), host)
    return {
        name: [table.names[j] for j in np.sort(own).tolist()] for name, own in (("party1", host), ("party2", guest))
    }


def importance(X: Any, y: ArrayLike, seed: int = 0, task: str | None = None) -> NDArray[np.float64]:
    """Return how much each column gains XGBoost in predicting `y`; the shares sum to 1."""
    try:
        import xgboost
    except ImportError as error:
        raise InputError("A biased division needs XGBoost: pip install xgboost.") from error
    if task not in (None, "classification", "regression"):
        raise parameter_error("biased", "task", "'classification', 'regression' or None", task)
    rows, label = _numbers(Table.of(X)), np.asarray(y)
    if label.shape != (len(rows),) or len(np.unique(label)) < 2:
        raise InputError(
            f"A biased division needs a label for each of {len(rows)} rows, and two different ones at least. "
            f"Got labels of shape {label.shape}, {len(np.unique(label))} different."
        )
    if label.dtype.kind == "f" and not np.isfinite(label).all():
        raise InputError("The labels of a biased division must not contain NaN or infinity; drop such rows.")
    numbers = task == "regression" or (task is None and label.dtype.kind == "f")
    kind = xgboost.XGBRegressor if numbers else xgboost.XGBClassifier
    codes = label if numbers else np.unique(label, return_inverse=True)[1]
    # One thread: sums in a fixed order, so that the division does not depend on the machine's cores.
    model = kind(n_estimators=100, max_depth=6, learning_rate=0.1, random_state=seed, n_jobs=1, importance_type="gain")
    return np.asarray(model.fit(rows, codes).feature_importances_, dtype=np.float64)


def _numbers(table: Table) -> Any:
    """Return a table of numbers as a matrix."""
    if table.matrix is not None:
        return table.matrix
    for column, name in zip(table.columns, table.names, strict=True):
        if column.dtype.kind in "OM":
            raise InputError(
                f"A biased division ranks columns of numbers. Column {name!r} has text or dates; encode it or drop it."
            )
    return np.column_stack(table.columns)


def resolve(parties: Parties, host: str | None, names: Sequence[Hashable], owner: str) -> tuple[dict[str, Block], str]:
    """Turn what the user wrote into positions per party, and find the host.

    Parameters
    ----------
    parties : mapping, int or None
        As in the estimators: names to columns, a number of even blocks, or None for two.
    host : str or None
        The host's name; None is the first party.
    names : sequence
        The table's column names, or its positions where it has none.
    owner : str
        Who asks, for the error messages.
    """
    if parties is None:
        parties = min(2, len(names))
    if isinstance(parties, bool | str) or not isinstance(parties, Mapping | int | np.integer):
        raise parameter_error(owner, "parties", "a dict of name to columns, a number of parties or None", parties)
    if not isinstance(parties, Mapping):
        if not 1 <= parties <= len(names):
            raise parameter_error(owner, "parties", f"between 1 and the number of columns ({len(names)})", parties)
        blocks = {name: Block(tuple(own)) for name, own in even(len(names), int(parties)).items()}
        return blocks, _host(host, blocks, owner)
    if not parties:
        raise parameter_error(owner, "parties", "a dict with at least one party", parties)
    lookup = _positions_by_name(names)
    blocks = {name: _block(name, columns, lookup, len(names), owner) for name, columns in parties.items()}
    _refuse_shared_columns(blocks, names, owner)
    return blocks, _host(host, blocks, owner)


def _host(host: str | None, blocks: Mapping[str, Block], owner: str) -> str:
    if host is not None and host not in blocks:
        raise parameter_error(owner, "host", f"the name of a party ({', '.join(map(repr, blocks))}) or None", host)
    return next(iter(blocks)) if host is None else host


def _positions_by_name(names: Sequence[Hashable]) -> dict[Hashable, int]:
    duplicates = (
        sorted({str(name) for name in names if list(names).count(name) > 1}) if len(set(names)) < len(names) else []
    )
    if duplicates:
        raise InputError(f"The table's column names must be unique. Got {duplicates[0]!r} more than once; rename one.")
    return {name: position for position, name in enumerate(names)}


def _block(party: object, columns: object, lookup: Mapping[Hashable, int], n_columns: int, owner: str) -> Block:
    if not is_party_name(party):
        raise InputError(f"The 'parties' parameter of {owner} must be keyed by names: {MUST_BE}. Got {why_not(party)}.")
    shape = columns.shape if isinstance(columns, Pixels) else None
    listed = columns.columns if isinstance(columns, Pixels) else columns
    if isinstance(listed, slice):
        listed = range(*listed.indices(n_columns))
    if (
        isinstance(listed, Sequence | np.ndarray)
        and len(listed) == n_columns
        and all(isinstance(x, bool | np.bool_) for x in listed)
    ):
        listed = np.flatnonzero(listed).tolist()
    if isinstance(listed, str) or not isinstance(listed, Iterable):
        raise parameter_error(owner, "parties", f"a list of columns for party {party!r}", columns)
    positions = tuple(_position(column, party, lookup, n_columns, owner) for column in listed)
    if not positions:
        raise parameter_error(owner, "parties", f"a list with at least one column for party {party!r}", columns)
    return Block(positions, shape)


def _position(column: object, party: object, lookup: Mapping[Hashable, int], n_columns: int, owner: str) -> int:
    """Find a column by its name, else, for an integer, by its position."""
    if isinstance(column, Hashable) and column in lookup:
        return lookup[column]
    if isinstance(column, int | np.integer) and not isinstance(column, bool) and 0 <= column < n_columns:
        return int(column)
    raise parameter_error(
        owner,
        "parties",
        f"made of the table's columns (names, or positions 0 to {n_columns - 1}); party {party!r} lists one that is not there",
        column,
    )


def _refuse_shared_columns(blocks: Mapping[str, Block], names: Sequence[Hashable], owner: str) -> None:
    holder: dict[int, str] = {}
    for party, block in blocks.items():
        for position in block.positions:
            if position in holder:
                both = sorted({holder[position], party})
                raise parameter_error(
                    owner,
                    "parties",
                    f"a division where each column has one holder; {' and '.join(map(repr, both))} list the same column",
                    names[position],
                )
            holder[position] = party
