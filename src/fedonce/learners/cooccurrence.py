"""Categories by what they occur with: a vector for each value of a column that has many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from fedonce.data.preparation import Coding
from fedonce.errors import InputError, parameter_error
from fedonce.learners.base import Learner, Tensors
from fedonce.learners.names import Facts
from fedonce.learners.pca import PCA, principal
from fedonce.training.loop import Rows
from fedonce.training.settings import Epoch
from fedonce.training.stored import added_later
from fedonce.training.threads import product_work, threads_for

# Of the randomised decomposition. For a million rows and 10^5 values it takes a third of the time of scipy's `svds`, which is
# exact also in the last singular values: those hardly differ from what chance gives, and the host does not miss them.
ITERATIONS = 7
# Where bytes are given. Chosen on validation rows of MovieLens (`benchmarks.few_bytes_categories`).
VALUES_PER_BYTE = 2.0

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(eq=False)
class Cooccurrence(Learner):
    """Vectors for the values of categories that have many (a customer, a film), and principal components of the other columns.

    The first entry of a value's vector is the logarithm of its count. The others are its place in the singular vectors of the
    matrix that counts how often it shares a row with each value of the other such columns, divided by the square roots of its
    margins (correspondence analysis). Where there is no other such column, the components of the rest take their place. A
    row's values are the vectors of its own; a value that is missing, or was not seen, has a vector of zeros.

    Parameters
    ----------
    bytes_per_row : float, optional
        Bytes that a row's values may take in the message, on average: fewer entries are sent then, so that something is left of
        each when it is rounded.
    values_per_byte : float, optional
        How many entries are sent for each of these bytes, at most; one for each category of many values at least. None: 2.
    """

    name: ClassVar[str] = "cooccurrence"
    facts: ClassVar[Facts] = Facts(trains=False)
    coding: ClassVar[Coding | None] = Coding()
    bytes_per_row: float | None = added_later()
    values_per_byte: float | None = added_later()
    coded_: tuple[int, ...] = field(default=(), init=False, repr=False)  # columns of codes, by position
    vectors_: list[Rows] = field(default_factory=list, init=False, repr=False)  # by code, for each of these columns
    rest_: PCA | None = field(
        default=None, init=False, repr=False
    )  # of the other columns, where there is room for them

    def fit(
        self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device, coded: Sequence[int] = ()
    ) -> list[Epoch]:
        """Find vectors and components; of all their entries, keep the `dim` that add most."""
        self.coded_, self.vectors_, self.rest_ = tuple(coded), [], PCA()
        if not coded:
            return self.rest_.fit(rows, dim, rng, device)
        dim = self._most(dim, len(coded))
        flat = rows.reshape(len(rows), prod(rows.shape[1:]))
        rest = np.delete(flat, self.coded_, axis=1)
        pca, shares = _components(rest, dim)
        scores = pca.transform(rest, device) if len(coded) == 1 and len(shares) else None
        tables = _tables([_codes(flat[:, j]) for j in self.coded_], scores, dim, int(rng.integers(2**31)))
        of_rest, *kept = _shared_out([shares, *(table.adds for table in tables)], dim)
        self.vectors_ = [table.vectors[:, :n].astype(np.float32) for table, n in zip(tables, kept, strict=True)]
        pca.directions_ = None if pca.directions_ is None else pca.directions_[:of_rest]
        self.rest_ = pca if of_rest else None
        return []

    def _most(self, dim: int, categories: int) -> int:
        """Return how many entries to keep of so many that are allowed."""
        per_byte = VALUES_PER_BYTE if self.values_per_byte is None else self.values_per_byte
        if not per_byte > 0:
            raise parameter_error("Cooccurrence", "values_per_byte", "a number above 0", per_byte)
        return dim if self.bytes_per_row is None else min(dim, max(categories, round(per_byte * self.bytes_per_row)))

    def transform(self, rows: Rows, device: torch.device) -> Rows:
        """Look up the vectors of a row's values, and project its rest."""
        if self.rest_ is None and not self.vectors_:
            raise InputError("This Cooccurrence has not learnt yet; call fit first.")
        parts = []
        for position, vectors in zip(self.coded_, self.vectors_, strict=True):
            codes = _codes(rows[:, position])
            parts.append(vectors[np.where(codes < len(vectors), codes, 0)])
        if self.rest_ is not None:
            parts.append(self.rest_.transform(np.delete(rows, self.coded_, axis=1) if self.coded_ else rows, device))
        return np.concatenate(parts, axis=1)

    def state(self) -> Tensors:
        """Return the vectors, their columns, and the components of the rest."""
        rest = {} if self.rest_ is None else self.rest_.state()
        vectors = {f"vectors.{position}": each for position, each in zip(self.coded_, self.vectors_, strict=True)}
        coded = np.array(self.coded_, np.int64)
        return {"coded": coded, **vectors, **{f"rest.{name}": value for name, value in rest.items()}}

    def restore(self, tensors: Tensors) -> None:
        """Take them back, checked: a file may be forged."""
        coded = tensors["coded"]
        if coded.ndim != 1 or coded.dtype != np.int64 or (coded < 0).any() or (np.diff(coded) <= 0).any():
            raise ValueError("its columns of codes must be ascending positions")
        self.coded_ = tuple(int(position) for position in coded)
        self.vectors_ = [_checked(tensors[f"vectors.{position}"]) for position in self.coded_]
        rest = {name.removeprefix("rest."): value for name, value in tensors.items() if name.startswith("rest.")}
        self.rest_ = PCA() if rest else None
        if self.rest_ is not None:
            self.rest_.restore(rest)


@dataclass(frozen=True)
class _Table:
    """The vectors of a column's values by code, and how much each entry adds, the largest first."""

    vectors: Floats
    adds: Floats


def _codes(column: Rows) -> Codes:
    """Return a prepared column as codes; what cannot be one is 0."""
    return np.nan_to_num(np.maximum(column, 0), posinf=0).astype(np.intp)


def _checked(vectors: NDArray[Any]) -> Rows:
    """Return stored vectors."""
    if vectors.ndim != 2 or not len(vectors) or vectors.dtype != np.float32 or not np.isfinite(vectors).all():
        raise ValueError("the vectors of a column must be a table of finite numbers")
    if vectors[0].any():
        raise ValueError("values that were not seen must have a vector of zeros")
    return vectors


def _components(rest: Rows, dim: int) -> tuple[PCA, Floats]:
    """Return the components of the other columns, and how much each adds: its variance, that of the first being 1."""
    pca = PCA()
    if not rest.shape[1]:
        return pca, np.empty(0)
    pca.mean_, variances, directions, _ = principal(rest, dim)
    varying = int((variances > 1e-9 * max(variances[0], 1e-300)).sum())
    pca.directions_ = directions[:varying]
    return pca, variances[:varying] / max(variances[0], 1e-300)


def _shared_out(adds: Sequence[Floats], dim: int) -> list[int]:
    """Return how many entries of each kind to keep, so that the `dim` that add most are kept.

    >>> _shared_out([np.array([1.0, 0.2]), np.array([1.0, 0.5]), np.array([0.7, 0.1])], 4)
    [1, 2, 1]
    """
    kinds = np.repeat(np.arange(len(adds)), [len(each) for each in adds])
    best = np.argsort(-np.concatenate(adds), kind="stable")[:dim]
    return [int(count) for count in np.bincount(kinds[best], minlength=len(adds))]


def _tables(codes: Sequence[Codes], scores: Rows | None, dim: int, seed: int) -> list[_Table]:
    """Return the vectors of each column's values, by the values of the other columns or by the scores of the rest."""
    counts = [np.bincount(each) for each in codes]
    for count in counts:
        count[0] = 0  # what is missing occurs with nothing
    marks = [_marks(each, count) for each, count in zip(codes, counts, strict=True)]
    n_rows = len(codes[0])
    if len(codes) == 2:  # one matrix for both: its singular vectors on either side
        sides = _singular(marks[0].T @ marks[1], n_rows, dim + 1, seed)
        # The first of them say how common values are, as counts do.
        return [
            _table(count, side[:, 1:], sides[2][1:], sides[3][1:]) for count, side in zip(counts, sides, strict=False)
        ]
    tables = []
    for own, count in enumerate(counts):
        others = [marks[own].T @ each for j, each in enumerate(marks) if j != own]
        if others:
            near = sparse.hstack(others, format="csr") / np.sqrt(len(others))
            vectors, _, strengths, adds = _singular(near, n_rows * len(others), dim + 1, seed)
            tables.append(_table(count, vectors[:, 1:], strengths[1:], adds[1:]))
        elif scores is not None:
            longest = np.sqrt(np.square(scores, dtype=np.float64).sum(axis=0).max())
            vectors, _, strengths, adds = _singular(marks[own].T @ (scores / longest), n_rows, dim, seed)
            tables.append(_table(count, vectors, strengths, adds))
        else:
            tables.append(_table(count, np.empty((len(count), 0)), np.empty(0), np.empty(0)))
    return tables


def _marks(codes: Codes, counts: NDArray[np.integer[Any]]) -> Any:
    """Return a mark per row at its code. Products of such matrices are counts divided by the roots of their margins.

    A count is one more there: a value in a single row says little, and must not stand out.
    """
    weights = np.where(counts > 0, 1 / np.sqrt(counts + 1.0), 0.0)
    return sparse.csr_array((weights[codes], codes, np.arange(len(codes) + 1)), shape=(len(codes), len(counts)))


def _singular(matrix: Any, n_rows: int, most: int, seed: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the singular vectors of both sides, the singular values, and how much each adds.

    That is the singular value less what chance gives, the largest where columns have nothing to do with each other.
    """
    most = min(most, *matrix.shape)
    with threads_for(product_work(max(matrix.shape), most, most)):
        left, strengths, right = randomized_svd(matrix, most, n_iter=ITERATIONS, random_state=seed)
    chance = np.sqrt(np.array(matrix.shape) / n_rows).sum()
    return left, right.T, strengths, np.clip(strengths - chance, 0, None)


def _table(counts: NDArray[np.integer[Any]], vectors: Floats, strengths: Floats, adds: Floats) -> _Table:
    """Put the logarithm of counts before vectors; it adds 1, as the first component of the rest does.

    Entries are about as large as the logarithms, and the stronger an axis is the larger, for models to which that matters.
    """
    entries = vectors * np.sqrt(strengths * len(counts))
    entries[0] = 0
    return _Table(np.column_stack([np.log1p(counts), entries]), np.concatenate([[1.0], adds]))
