"""Values as floating-point numbers, which need no range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedonce.messages.codecs.base import Codec, Fail, Tensors, Values, expect


class Floats(Codec):
    """Values as floats of one type; what is too large for it becomes the largest that it has."""

    dtype: ClassVar[type[np.floating[Any]]]

    @classmethod
    def fit(cls, values: Values) -> Self:
        """Return the codec; there is nothing to fit."""
        return cls()

    @classmethod
    def public(cls, bound: float, dim: int) -> Self:
        """Return the codec; it needs no bounds."""
        return cls()

    def encode(self, values: Values) -> Tensors:
        """Round values to the type, in memory of their own."""
        limits = np.finfo(self.dtype)
        return {"values": np.clip(values, limits.min, limits.max).astype(self.dtype, copy=False)}

    def decode(self, tensors: Mapping[str, NDArray[Any]], rows: int, dim: int, fail: Fail) -> Values:
        """Return the values; float32 are not copied: a message may be as large as the memory that is left."""
        expect(tensors, "values", self.dtype, (rows, dim), fail)
        return tensors["values"].astype(np.float32, copy=False)


class Float32(Floats):
    """Values as they are."""

    bits, dtype = 32, np.float32


class Float16(Floats):
    """Values in half precision."""

    bits, dtype = 16, np.float16
