"""Steps for numbers: standardised, between public bounds, or pixels; some rows at a time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.data.preparation.stored import Stored, plain_names
from fedonce.errors import FedOnceWarning, InputError

BLOCK = 2**21  # numbers at a time: bounds the memory beyond input and output
CLIP = 4.0  # standard deviations; what lies further out is set to this, so that rare values do not carry a row away


@dataclass
class NumberStep:
    """Numbers: standardised; missing ones become the mean, and a mark where training rows had some."""

    party: str
    names: tuple[Hashable, ...]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    marked: NDArray[np.intp]

    @property
    def takes(self) -> int:
        """How many columns it takes."""
        return len(self.mean)

    @property
    def width(self) -> int:
        """How many columns it gives."""
        return len(self.mean) + len(self.marked)

    @classmethod
    def fit(cls, matrix: NDArray[Any], names: tuple[Hashable, ...], party: str) -> NumberStep:
        """Learn from a party's training rows."""
        width = matrix.shape[1]
        count, total, square = np.zeros(width), np.zeros(width), np.zeros(width)
        origin: NDArray[np.float64] | None = None  # squares around a value in the data keep their digits
        for block in _blocks(matrix, names, party):
            known = ~np.isnan(block)
            if origin is None:
                origin = np.where(known.any(axis=0), block[known.argmax(axis=0), np.arange(width)], 0.0)
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
                filled = np.where(known, block - origin, 0.0)
                count += known.sum(axis=0)
                total += filled.sum(axis=0)
                square += np.square(filled).sum(axis=0)
        empty = ", ".join(repr(name) for name, seen in zip(names, count, strict=True) if not seen)
        if empty:
            warnings.warn(
                f"Party {party!r} has no value at all in column {empty}; it is set to zero.",
                FedOnceWarning,
                stacklevel=2,
            )
        if not np.isfinite(square).all():
            large = names[int(np.argmin(np.isfinite(square)))]
            raise InputError(
                f"Party {party!r} has numbers too large to scale in column {large!r}; divide the column by a constant."
            )
        shift = total / np.maximum(count, 1)
        variance = np.maximum(square / np.maximum(count, 1) - shift**2, 0)
        mean = shift + (0.0 if origin is None else origin)
        spread = np.sqrt(variance)
        scale = np.where(spread > 1e-12 * np.abs(mean), spread, np.inf)  # less is rounding: a constant column, zero
        return cls(party, names, mean, scale, np.flatnonzero(count < len(matrix)))

    def write(self, matrix: NDArray[Any], out: NDArray[np.float32]) -> None:
        """Write the prepared rows to `out`."""
        start = 0
        for block in _blocks(matrix, self.names, self.party):
            rows = slice(start, start + len(block))
            missing = np.isnan(block)
            scaled = np.where(missing, 0.0, (block - self.mean) / self.scale)
            out[rows, : matrix.shape[1]] = np.clip(scaled, -CLIP, CLIP)
            out[rows, matrix.shape[1] :] = missing[:, self.marked]
            start += len(block)

    def to_json(self) -> dict[str, Any]:
        """Return it in the types of JSON."""
        return {
            "party": self.party,
            "names": plain_names(self.names, self.party),
            "mean": self.mean.tolist(),
            "scale": [None if math.isinf(scale) else scale for scale in self.scale.tolist()],
            "marked": self.marked.tolist(),
        }

    @classmethod
    def from_json(cls, stored: Stored) -> NumberStep:
        """Return a stored step, checked."""
        names, marked = stored.names("names"), stored.integers("marked", 0)
        mean, scale = stored.numbers("mean", len(names)), stored.numbers("scale", len(names), unbounded=True)
        stored.check("scale", bool((scale > 0).all()))
        stored.check("marked", marked == sorted(set(marked)) and max(marked, default=-1) < len(names))
        return cls(stored.text("party"), names, mean, scale, np.array(marked, np.intp))


@dataclass
class BoundedStep:
    """Numbers with public bounds: between -1 and 1; missing ones are in the middle."""

    party: str
    names: tuple[Hashable, ...]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @property
    def takes(self) -> int:
        """How many columns it takes."""
        return len(self.low)

    width = takes

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]], names: tuple[Hashable, ...], party: str) -> BoundedStep:
        """Take what is public."""
        low, high = np.array(pairs, dtype=np.float64).T
        return cls(party, names, low, high)

    def write(self, matrix: NDArray[Any], out: NDArray[np.float32]) -> None:
        """Write the prepared rows to `out`."""
        start, step = 0, max(1, BLOCK // max(1, matrix.shape[1]))
        beyond = np.zeros(matrix.shape[1], bool)
        while start < len(matrix):
            block = matrix[start : start + step].astype(np.float64)
            beyond |= ((block < self.low) | (block > self.high)).any(axis=0)
            kept = np.clip(block, self.low, self.high)  # before scaling: a huge number must not overflow
            scaled = 2 * (kept - self.low) / (self.high - self.low) - 1
            out[start : start + len(block)] = np.where(np.isnan(scaled), 0.0, scaled)
            start += len(block)
        if beyond.any():  # that it happened, and not how often: the count is a figure of private rows
            column = self.names[int(beyond.argmax())]
            more = " and in others" if beyond.sum() > 1 else ""
            warnings.warn(
                f"Party {self.party!r} has values beyond the bounds given in column {column!r}{more}; they were set to the "
                "bounds.",
                FedOnceWarning,
                stacklevel=2,
            )

    def to_json(self) -> dict[str, Any]:
        """Return it in the types of JSON."""
        names = plain_names(self.names, self.party)
        return {"party": self.party, "names": names, "low": self.low.tolist(), "high": self.high.tolist()}

    @classmethod
    def from_json(cls, stored: Stored) -> BoundedStep:
        """Return a stored step, checked."""
        names = stored.names("names")
        low, high = stored.numbers("low", len(names)), stored.numbers("high", len(names))
        stored.check("low", bool((low < high).all()))
        return cls(stored.text("party"), names, low, high)


@dataclass
class PixelStep:
    """Pixels: centred and scaled by one mean and one deviation for the whole image."""

    party: str
    mean: float
    scale: float
    width: int

    @property
    def takes(self) -> int:
        """How many columns it takes."""
        return self.width

    @classmethod
    def fit(cls, matrix: NDArray[Any], party: str) -> PixelStep:
        """Learn from a party's training rows."""
        step = cls(party, 0.0, 1.0, matrix.shape[1])
        step._check(matrix)
        deviation = float(np.std(matrix, dtype=np.float64))
        mean = float(np.mean(matrix, dtype=np.float64))
        return cls(party, mean, deviation if deviation > 0 else 1.0, matrix.shape[1])

    def write(self, matrix: NDArray[Any], out: NDArray[np.float32]) -> None:
        """Write the prepared rows to `out`."""
        self._check(matrix)
        out[:] = matrix
        out -= np.float32(self.mean)
        out /= np.float32(self.scale)

    def to_json(self) -> dict[str, Any]:
        """Return it in the types of JSON."""
        return {"party": self.party, "mean": self.mean, "scale": self.scale, "width": self.width}

    @classmethod
    def from_json(cls, stored: Stored) -> PixelStep:
        """Return a stored step, checked."""
        mean, scale = stored.number("mean"), stored.number("scale")
        stored.check("scale", scale > 0)
        return cls(stored.text("party"), mean, scale, stored.integer("width", 1))

    def _check(self, matrix: NDArray[Any]) -> None:
        if matrix.dtype.kind == "f" and not (np.abs(matrix) < 1e30).all():
            raise InputError(
                f"Pixels have no missing values, and party {self.party!r} has NaN, infinity or a number beyond 1e30 "
                "in rows that are present. Fill them, or mark the rows as absent with 'present'."
            )


def _blocks(matrix: NDArray[Any], names: tuple[Hashable, ...], party: str) -> Any:
    """Yield the rows as blocks of float64, refusing infinity."""
    rows = max(1, BLOCK // max(1, matrix.shape[1]))
    for start in range(0, len(matrix), rows):
        block = matrix[start : start + rows].astype(np.float64)
        if np.isinf(block).any():
            column = names[int(np.isinf(block).any(axis=0).argmax())]
            raise InputError(
                f"Input X contains infinity: party {party!r}, column {column!r}. Use NaN for a missing value."
            )
        yield block
