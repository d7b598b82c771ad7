"""Values as integers of few bits, which stand for steps of a range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedonce.messages.codecs.base import VALUE_LIMIT, Codec, Fail, Tensors, Values, expect
from fedonce.messages.codecs.coded import coded_by
from fedonce.messages.codecs.scale import Scale, columns_of, n_scales
from fedonce.messages.codecs.steps import Steps

Codes = NDArray[np.uint8]


@dataclass(frozen=True)
class Integers(Codec):
    """Values rounded to evenly spaced steps of a range per column; what lies outside goes to its edge."""

    scale: Scale
    keeps: ClassVar[tuple[str, ...]] = ("low", "high")

    @classmethod
    def levels(cls) -> int:
        """Return the largest integer."""
        return int(2**cls.bits) - 1

    @classmethod
    def fit(cls, values: Values) -> Self:
        """Choose the range with the least squared rounding error."""
        return cls(Scale.fit(values, cls.levels())) if len(values) else cls.spanning(values)

    @classmethod
    def public(cls, bound: float, dim: int) -> Self:
        """Take the range of the bounds."""
        width = n_scales(dim)
        return cls(Scale(np.full(width, -bound, np.float32), np.full(width, bound, np.float32)))

    @classmethod
    def spanning(cls, values: Values) -> Self:
        """Take the full range of the values."""
        columns = columns_of(values)
        if not len(columns):
            columns = np.zeros((1, columns.shape[1]), np.float32)
        return cls(Scale(columns.min(axis=0), columns.max(axis=0)))

    @classmethod
    def around_zero(cls, values: Values) -> Self:
        """Take a range in which zero is a code of its own."""
        half = 2 ** (cls.bits - 1)
        most = np.abs(columns_of(values)).max(axis=0, initial=0).astype(np.float32)
        return cls(Scale(-most * np.float32(half / (half - 1)), most))

    @classmethod
    def most_state(cls, dim: int) -> int:
        """Return the bytes of the range."""
        return 2 * 4 * n_scales(dim)

    def encode(self, values: Values) -> Tensors:
        """Round values to integers."""
        return {"values": self.pack(self.scale.encode(values, self.levels()))}

    def decode(self, tensors: Mapping[str, NDArray[Any]], rows: int, dim: int, fail: Fail) -> Values:
        """Return the values that integers stand for."""
        return self.scale.decode(self.unpack(tensors, rows, dim, fail), self.levels())

    @property
    def coded(self) -> Codec:
        """The codec that writes the same steps by how often each occurs."""
        return coded_by(Steps.of(self.scale, self.levels()))

    def pack(self, codes: Codes) -> Codes:
        """Return integers, one per byte, as they lie in the file."""
        return codes

    def unpack(self, tensors: Mapping[str, NDArray[Any]], rows: int, dim: int, fail: Fail) -> Codes:
        """Return integers of the file, checked, one per byte."""
        expect(tensors, "values", np.uint8, (rows, dim), fail)
        return tensors["values"]

    def state(self) -> Tensors:
        """Return the ends of the range."""
        return {"low": self.scale.low, "high": self.scale.high}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], dim: int, fail: Fail) -> Self:
        """Return the codec of a range."""
        for name in cls.keeps:
            expect(state, name, np.float32, (n_scales(dim),), fail)
        low, high = state["low"], state["high"]
        if not ((np.abs(low) <= VALUE_LIMIT).all() and (np.abs(high) <= VALUE_LIMIT).all() and (low <= high).all()):
            raise fail("its scale is not a range")
        return cls(Scale(low, high))


class Integers8(Integers):
    """A byte per value."""

    bits = 8


class Integers4(Integers):
    """Half a byte per value, the first in the upper half."""

    bits = 4

    def pack(self, codes: Codes) -> Codes:
        """Put two integers into each byte."""
        flat = codes.ravel()
        if flat.size % 2:
            flat = np.append(flat, np.uint8(0))
        packed: Codes = (flat[::2] << np.uint8(4)) | flat[1::2]
        return packed

    def unpack(self, tensors: Mapping[str, NDArray[Any]], rows: int, dim: int, fail: Fail) -> Codes:
        """Take two integers out of each byte."""
        expect(tensors, "values", np.uint8, (ceil(rows * dim / 2),), fail)
        packed = tensors["values"]
        if rows * dim % 2 and packed[-1] & 15:
            raise fail("half a byte beyond its last value is not zero")
        return np.stack([packed >> 4, packed & 15], axis=-1).ravel()[: rows * dim].reshape(rows, dim)
