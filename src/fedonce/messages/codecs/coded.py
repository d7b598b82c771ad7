"""Integers on steps, written in as few bytes as they need; what is read is equal to the bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedonce.messages.codecs.base import VALUE_LIMIT, Codec, Fail, Tensors, Values, expect
from fedonce.messages.codecs.packing import most_bytes, most_memory, pack, unpack
from fedonce.messages.codecs.scale import Scale, n_scales
from fedonce.messages.codecs.steps import MOST_LAYERS, Steps

COLUMNS_LIMIT = 2**16  # each is read on its own, which takes time: a short message may announce many


@dataclass(frozen=True)
class Coded(Codec):
    """Values rounded to steps, and the integers that stand for them by a range coder (`packing`).

    Where there are steps for a multiple of the columns that are read, these are layers, such as a cell and a finer one within
    it: what is read is their sum.

    Attributes
    ----------
    steps : Steps
        What the integers stand for.
    """

    steps: Steps
    writes: ClassVar[tuple[str, ...]] = ("coded",)
    keeps: ClassVar[tuple[str, ...]] = ("steps",)

    @classmethod
    def levels(cls) -> int:
        """Return the largest integer."""
        return int(2**cls.bits) - 1

    @classmethod
    def fit(cls, values: Values) -> Self:
        """Choose the range with the least squared rounding error."""
        return cls(Steps.of(Scale.fit(values, cls.levels()), cls.levels()))

    @classmethod
    def public(cls, bound: float, dim: int) -> Self:
        """Take the range of the bounds."""
        bounds = np.full(n_scales(dim), bound, np.float32)
        return cls(Steps.between(-bounds, bounds, cls.levels()))

    @classmethod
    def most_payload(cls, rows: int, dim: int) -> int:
        """Return what integers that do not repeat would take."""
        return MOST_LAYERS * most_bytes(rows, dim, cls.bits)

    @classmethod
    def most_state(cls, dim: int) -> int:
        """Return the bytes of the steps."""
        return MOST_LAYERS * 4 * 4 * dim

    @classmethod
    def most_memory(cls, rows: int, dim: int) -> int:
        """Return the bytes of the values, and what it takes to find them, layer by layer."""
        return super().most_memory(rows, dim) + most_memory(rows, dim)

    def decoded_dim(self, columns: int) -> int:
        """Return the columns of one layer."""
        return columns // self.steps.layers

    def encode(self, values: Values) -> Tensors:
        """Round values to steps, layer by layer, and pack the integers."""
        return {"coded": pack(self.steps.encode(values), *self.steps.columns(values.shape[1]))}

    def decode(self, tensors: Mapping[str, NDArray[Any]], rows: int, dim: int, fail: Fail) -> Values:
        """Return the values that packed integers stand for."""
        data = tensors["coded"]
        if data.dtype != np.uint8 or data.ndim != 1:
            raise fail(f"its 'coded' are {data.dtype} of shape {data.shape}, and must be bytes")
        values = np.zeros((rows, dim), np.float32)
        for column, codes in unpack(data, rows, *self.steps.columns(self.steps.layers * dim), fail):
            values[:, column % dim] += self.steps.decode(codes, column)
        return values

    def state(self) -> Tensors:
        """Return the steps: a row each for where they begin, how long they are, how many there are, and their group."""
        steps = self.steps
        groups = np.zeros(len(steps.low), np.float32) if steps.groups is None else steps.groups
        return {"steps": np.stack([steps.low, steps.step, steps.levels, groups]).astype(np.float32)}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], dim: int, fail: Fail) -> Self:
        """Return the codec that has these steps."""
        found = state["steps"]
        layers = found.shape[1] // dim if found.ndim == 2 and found.shape[1] >= dim else 1
        width = n_scales(dim) if layers == 1 and found.shape != (4, dim) else layers * dim
        expect(state, "steps", np.float32, (4, width), fail)
        if layers * dim > COLUMNS_LIMIT:
            raise fail(f"it has {layers * dim:,} columns of coded integers, and {COLUMNS_LIMIT:,} are the most")
        if layers > MOST_LAYERS:
            raise fail(f"its values have {layers} layers, and {MOST_LAYERS} are the most")
        low, step, levels, groups = found
        for whole, most in ((levels, cls.levels()), (groups, width - 1)):
            if not ((whole >= 0) & (whole <= most) & (whole == np.floor(whole))).all():
                raise fail("its steps are not as many as its bits allow, or belong to groups that there are not")
        if not (step > 0).all():
            raise fail("its steps have no length")
        for numbers in (low, low.astype(np.float64) + levels * step.astype(np.float64)):
            if not (np.abs(numbers) <= VALUE_LIMIT / layers).all():  # NaN is not, either
                raise fail("its steps are not numbers of a range")
        if len(np.unique(groups * layers + np.arange(width) // dim)) != len(np.unique(groups)):
            raise fail("its steps have groups that are in several layers")
        return cls(Steps(low, step, levels.astype(np.uint16), groups.astype(np.uint16), layers))


class Coded4(Coded):
    """At most 16 steps per column."""

    name, bits = "coded4", 4


class Coded8(Coded):
    """At most 256 steps per column."""

    name, bits = "coded8", 8


class Coded12(Coded):
    """At most 4,096 steps per column."""

    name, bits = "coded12", 12


def coded_by(steps: Steps) -> Coded:
    """Return the codec for values that lie on steps: the one of the fewest bits."""
    most = int(steps.levels.max(initial=0))
    return next(kind for kind in (Coded4, Coded8, Coded12) if most <= kind.levels())(steps)
