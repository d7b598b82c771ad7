"""Preparation: a step for each of a party's columns, or one for all of them together."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import murmurhash3_32

from fedonce.data.preparation.categories import CategoryStep, Coding, as_categories
from fedonce.data.preparation.numbers import BoundedStep, NumberStep, PixelStep
from fedonce.data.preparation.public import Public
from fedonce.data.preparation.steps import FITS, KINDS, MANY, ONE, DateStep, step_of
from fedonce.data.preparation.stored import Stored, plain_names
from fedonce.data.table import DATES, Table, kind_of
from fedonce.errors import InputError, parameter_error

SKETCH_WIDTH = 1024  # columns that a very wide sparse table becomes
SPARSE_LIMIT = SKETCH_WIDTH
WORDS = {"number": "numbers", "boolean": "booleans", "category": "text", "date": "dates"}


@dataclass
class Preparation:
    """A party's own way from its table to an array, fitted on its training rows.

    Parameters
    ----------
    party : str
        Whose columns these are, for messages to the user.
    shape : tuple or None
        (channels, rows, columns) where the columns are pixels.
    embeddings : tuple of int
        For a network with embeddings: their widths, one per column. Those columns become codes 1, 2, ...; a width of 0 is a
        column of numbers.
    public : Public, optional
        With a privacy budget: bounds and categories, in place of what training rows would tell.
    coding : Coding, optional
        For a learner that takes codes: which categories with many values become codes. None: all of them are hashed.
    """

    party: str
    shape: tuple[int, ...] | None = None
    embeddings: tuple[int, ...] = ()
    public: Public | None = None
    names: tuple[Hashable, ...] = ()
    named: bool = False
    sketched: bool = False
    whole: bool = False  # one step for all columns together, or one per column
    steps: list[Any] = field(default_factory=list)
    coding: Coding | None = None

    def fit(self, table: Table) -> Preparation:
        """Learn means, scales and categories from the party's training rows."""
        if not table.names:
            raise InputError(f"Party {self.party!r} has no columns.")
        self.names, self.named = table.names, table.named
        self.whole = not self.embeddings and (self.shape is not None or table.matrix is not None)
        self.sketched = sparse.issparse(table.matrix) and len(table.names) > SPARSE_LIMIT
        if self.public is not None:
            self.steps = self._public_steps(table, self.public)
        elif self.embeddings:
            self.steps = self._coded_steps(table)
        elif self.shape is not None:
            self.steps = [PixelStep.fit(self._dense(table, fitting=True), self.party)]
        elif self.whole:
            names = tuple(range(SKETCH_WIDTH)) if self.sketched else table.names
            self.steps = [NumberStep.fit(self._dense(table, fitting=True), names, self.party)]
        else:
            self.steps = [
                FITS[kind_of(column)](column, name, self.party)
                for column, name in zip(table.columns, table.names, strict=True)
            ]
            if self.coding is not None and (self.coding.alone or len(self.steps) > 1):
                least = self.coding.rows_per_value
                coded = (step.coded(least) if isinstance(step, CategoryStep) else None for step in self.steps)
                self.steps = [step or before for step, before in zip(coded, self.steps, strict=True)]
        return self

    def _public_steps(self, table: Table, public: Public) -> list[Any]:
        """Scale and code by what is public: no row is looked at."""
        if self.embeddings or self.sketched:
            what = "embeddings (NCF)" if self.embeddings else f"a sparse table of more than {SPARSE_LIMIT} columns"
            raise InputError(
                f"Party {self.party!r} has {what}, which has no private version; use numbers and categories."
            )
        coded = self.shape is None and any(name in public.categories for name in table.names)
        self.whole = self.whole and not coded
        if self.whole:
            self._dense(table.take(slice(0, 0)), fitting=True)  # refuses what is not numbers
            pairs = [public.of(name, position, self.party) for position, name in enumerate(table.names)]
            return [BoundedStep.of(pairs, table.names, self.party)]
        steps: list[Any] = []
        columns = table.columns if table.matrix is None else tuple(self._dense(table).T)
        for position, (column, name) in enumerate(zip(columns, table.names, strict=True)):
            bounded = isinstance(public.bounds, Mapping) and name in public.bounds
            kind = kind_of(column)
            if kind == "category" and bounded and name not in public.categories:
                raise InputError(
                    f"Column {name!r} of party {self.party!r} has bounds, and holds text. Make all of it numbers, or give its "
                    f"values with categories={{{name!r}: [...]}}."
                )
            if kind == "date" and name in public.categories:
                raise InputError(
                    f"Column {name!r} of party {self.party!r} has categories, and holds dates. Give it bounds "
                    f"{{{name!r}: (first, last)}}, or make it text."
                )
            if kind == "category" or name in public.categories:
                known = public.categories.get(name)
                hashed = known is None and public.hashes
                steps.append(CategoryStep({}, {}) if hashed else CategoryStep.of(known, name, self.party))
            elif kind == "date":
                pair, timed = public.of_dates(name, position, self.party)
                steps.append(DateStep(BoundedStep.of([pair], (name,), self.party), timed))
            else:
                by_name = public.bounds is None or isinstance(public.bounds, Mapping)
                yes_no = kind == "boolean" and by_name and not bounded
                pair = (0.0, 1.0) if yes_no else public.of(name, position, self.party)
                steps.append(BoundedStep.of([pair], (name,), self.party))
        return steps

    def check_embeddings(self, n_columns: int) -> None:
        """Raise where there are embeddings for other columns than the party has, before anybody spends time."""
        if self.embeddings and len(self.embeddings) != n_columns:
            wanted = f"as long as party {self.party!r} has columns ({n_columns})"
            raise parameter_error("NCF", "embeddings", wanted, self.embeddings)

    def _coded_steps(self, table: Table) -> list[Any]:
        """Make codes of columns that have an embedding; scale the others, which must be numbers."""
        self.check_embeddings(len(table.names))
        steps: list[Any] = []
        columns = table.columns if table.matrix is None else tuple(self._dense(table).T)
        for column, name, width in zip(columns, table.names, self.embeddings, strict=True):
            if width:
                steps.append(CategoryStep.fit(as_categories(column), name, self.party, codes=True))
            else:
                steps.append(FITS["number"](self._numbers(column, name, fitting=True), name, self.party))
        return steps

    def transform(self, table: Table) -> NDArray[np.float32]:
        """Return the party's rows as an array: (n, columns), or (n, channels, rows, columns) for pixels.

        The table may come from another library than the one fitted on; its columns must be the same.
        """
        renamed = table.named and self.named and list(map(str, table.names)) != list(map(str, self.names))
        if renamed or len(table.names) != len(self.names):
            raise InputError(
                f"Party {self.party!r} learnt from {_shown(self.names)}; got {_shown(table.names)}. "
                "Give the same columns in the same order."
            )
        if self.whole:
            matrix = self._dense(table)
            out = np.empty((len(matrix), self.steps[0].width), np.float32)
            self.steps[0].write(matrix, out)
            return out.reshape(len(out), *self.row_shape)
        columns = table.columns if table.matrix is None else tuple(self._dense(table).T)
        out = np.empty((table.n_rows, *self.row_shape), np.float32)
        start = 0
        for step, column, name in zip(self.steps, columns, self.names, strict=True):
            step.write(self._expected(step, column, name), out[:, start : start + step.width])
            start += step.width
        return out

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one prepared row."""
        if not self.steps:
            raise InputError(f"Party {self.party!r} has not learnt how to prepare its columns yet; call fit first.")
        if self.whole and self.shape is not None:
            return self.shape
        return (sum(step.width for step in self.steps),)

    @property
    def code_sizes(self) -> tuple[int, ...]:
        """How many codes each prepared column has that `coding` made, 0 counted; 0 for all other columns."""
        if self.whole or self.embeddings:
            return ()
        sizes = [[len(step.values) + 1] if getattr(step, "codes", False) else [0] * step.width for step in self.steps]
        return tuple(size for each in sizes for size in each)

    @property
    def coded(self) -> tuple[int, ...]:
        """Which prepared columns hold codes that `coding` made."""
        return tuple(j for j, size in enumerate(self.code_sizes) if size)

    @property
    def origins(self) -> NDArray[np.intp] | None:
        """Which of the table's columns each prepared one comes from, by position; None of pixels, and where columns are mixed."""
        if self.sketched or (self.whole and self.shape is not None):
            return None
        if self.whole:
            marked = getattr(self.steps[0], "marked", np.empty(0, np.intp))
            return np.concatenate([np.arange(self.steps[0].takes), marked])
        return np.repeat(np.arange(len(self.steps)), [step.width for step in self.steps])

    def _dense(self, table: Table, fitting: bool = False) -> NDArray[Any]:
        """Return a table of numbers as a dense array; a very wide sparse one as a count sketch of it."""
        matrix = table.matrix
        if matrix is None:
            pairs = zip(table.columns, table.names, strict=True)
            matrix = np.column_stack([self._numbers(column, name, fitting) for column, name in pairs])
        if sparse.issparse(matrix) and not np.isfinite(matrix.data).all():
            raise InputError(
                f"A sparse table has no missing values, and party {self.party!r} has NaN or infinity in it."
            )
        if self.sketched:
            matrix = matrix @ _count_sketch(len(self.names))
        return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix)

    def _expected(self, step: Any, column: NDArray[Any], name: Hashable) -> NDArray[Any]:
        """Return a column as the kind that its step takes; refuse what was something else at training."""
        if isinstance(step, CategoryStep):
            if kind_of(column) == "date" and not self.embeddings:
                raise self._changed(name, "category", "date")
            return as_categories(column)
        if not isinstance(step, DateStep):
            return self._numbers(column, name)[:, None]
        if kind_of(column) != "date" and not _all_missing(column):
            raise self._changed(name, "date", kind_of(column))
        return column if kind_of(column) == "date" else np.full(len(column), "NaT", DATES)

    def _numbers(self, column: NDArray[Any], name: Hashable, fitting: bool = False) -> NDArray[Any]:
        kind = kind_of(column)
        if kind in ("number", "boolean"):
            return column
        if fitting:
            raise InputError(
                f"Column {name!r} of party {self.party!r} must hold numbers, as pixels and columns without an embedding do. "
                f"Got {WORDS[kind]}."
            )
        if not _all_missing(column):
            raise self._changed(name, "number", kind)
        return np.full(len(column), np.nan)

    def _changed(self, name: Hashable, old: str, new: str) -> InputError:
        return InputError(
            f"Column {name!r} of party {self.party!r} was {WORDS[old]} at training and is {WORDS[new]} now; give it as "
            f"{WORDS[old]} again, or train again."
        )

    def to_json(self) -> dict[str, Any]:
        """Return all that `transform` needs, in the types of JSON."""
        return {
            "party": self.party,
            "shape": None if self.shape is None else [int(size) for size in self.shape],
            "embeddings": [int(width) for width in self.embeddings],
            "names": plain_names(self.names, self.party),
            "named": bool(self.named),
            "sketched": bool(self.sketched),
            "whole": bool(self.whole),
            "steps": [{"kind": KINDS[type(step)], **step.to_json()} for step in self.steps],
        }

    @classmethod
    def from_json(cls, content: Any) -> Preparation:
        """Return what `to_json` told of, all of it checked."""
        stored = Stored(content)
        made = cls(
            stored.text("party"),
            tuple(stored.integers("shape", 1)) if stored.given("shape") else None,
            tuple(stored.integers("embeddings", 0)),
            names=stored.names("names"),
            named=stored.flag("named"),
            sketched=stored.flag("sketched"),
            whole=stored.flag("whole"),
            steps=[step_of(step) for step in stored.sequence("steps")],
        )
        wide = SKETCH_WIDTH if made.sketched else len(made.names)
        taken = [wide] if made.whole else [1] * wide
        stored.check("steps", wide > 0 and [step.takes for step in made.steps] == taken)
        stored.check("whole", all(isinstance(step, MANY if made.whole else ONE) for step in made.steps))
        stored.check("sketched", made.whole or not made.sketched)
        stored.check("shape", made.shape is None or not made.whole or math.prod(made.shape) == wide)
        stored.check("embeddings", not made.embeddings or len(made.embeddings) == len(made.names))
        return made


def _shown(names: tuple[Hashable, ...]) -> str:
    return f"{len(names)} columns ({', '.join(map(repr, names[:5]))}{', ...' if len(names) > 5 else ''})"


def _all_missing(column: NDArray[Any]) -> bool:
    if column.dtype == object:
        return all(value is None for value in column)
    return bool((np.isnat(column) if column.dtype.kind == "M" else np.isnan(column)).all())


def _count_sketch(width: int) -> Any:
    """Return a sparse matrix that adds each column, with a sign, to one of SKETCH_WIDTH columns."""
    codes = np.array([murmurhash3_32(j, seed=0, positive=True) for j in range(width)])
    signs = np.where(codes & 1, 1.0, -1.0).astype(np.float32)
    return sparse.csr_array((signs, (np.arange(width), (codes >> 1) % SKETCH_WIDTH)), shape=(width, SKETCH_WIDTH))
