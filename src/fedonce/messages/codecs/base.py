"""What a way of writing values is: the contract of every encoding, and the checks that they share.

An encoding is a class; a codec is one of its objects: fitted once, when the guest has learnt, and frozen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

VALUE_LIMIT = 1e12  # representations are of moderate size; larger numbers would upset the host's arithmetic

Values = NDArray[np.float32]
Tensors = dict[str, NDArray[Any]]
Fail = Callable[[str], Exception]  # makes the error that says what is wrong


class Codec(ABC):
    """A way of writing values: values of shape (rows, dim) to named tensors and back.

    What it learnt from values (a range, a table of frequencies) is its state, which travels with every message. A row's values
    must not depend on the rows that are sent with it.

    Attributes
    ----------
    name : str
        What it is chosen by, in `bits=` and in a message's header; empty: it is chosen by `bits`.
    bits : int
        Bits per value, at most: what a guest's policy limits.
    writes, keeps : tuple of str
        Names of the tensors that hold values, and of those that hold the state. A message has all of them and no others.
    """

    name: ClassVar[str] = ""
    bits: ClassVar[int]
    writes: ClassVar[tuple[str, ...]] = ("values",)
    keeps: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def choice(cls) -> int | str:
        """Return what it is chosen by."""
        return cls.name or cls.bits

    @classmethod
    @abstractmethod
    def fit(cls, values: Values) -> Self:
        """Return a codec for values like those of the training rows."""

    @classmethod
    @abstractmethod
    def public(cls, bound: float, dim: int) -> Self:
        """Return a codec for values from -bound to bound: known without looking at any row."""

    @classmethod
    def spanning(cls, values: Values) -> Self:
        """Return a codec for these very values and no others, there may be none: a message of rounds has one of its own."""
        return cls.fit(values)

    @classmethod
    def around_zero(cls, values: Values) -> Self:
        """Return a codec for these very values, which keeps zero at zero: the gradient of a dropped guest is zero."""
        return cls.spanning(values)

    @classmethod
    def most_payload(cls, rows: int, dim: int) -> int:
        """Return how many bytes the tensors of so many values have, at most; asked before anything of a message is read."""
        return ceil(rows * dim * cls.bits / 8)

    @classmethod
    def most_state(cls, dim: int) -> int:
        """Return how many bytes the tensors of the state have, at most."""
        return 0

    @classmethod
    def most_memory(cls, rows: int, dim: int) -> int:
        """Return how many bytes decoding takes, at most, the values included."""
        return 4 * rows * dim

    @abstractmethod
    def encode(self, values: Values) -> Tensors:
        """Write values, which are finite: the tensors named in `writes`."""

    @abstractmethod
    def decode(self, tensors: Mapping[str, NDArray[Any]], rows: int, dim: int, fail: Fail) -> Values:
        """Return the values that tensors stand for.

        They come from another party, and so do `rows` and `dim`: every type, shape and range is checked, and sizes before
        memory is taken for them. What is wrong raises `fail(what)`.
        """

    @property
    def coded(self) -> Codec:
        """The codec that writes the same numbers in fewer bytes, where there is one; else this."""
        return self

    def decoded_dim(self, columns: int) -> int:
        """Return how many values per row are read where so many columns are written: as many, unless some are added up."""
        return columns

    def state(self) -> Tensors:
        """Return what was fitted: the tensors named in `keeps`."""
        return {}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], dim: int, fail: Fail) -> Self:
        """Return the codec that has this state, which comes from another party or from disk, and is checked like values."""
        return cls()


def expect(tensors: Mapping[str, NDArray[Any]], name: str, dtype: Any, shape: tuple[int, ...], fail: Fail) -> None:
    """Raise unless a tensor is of the announced type and shape.

    Parameters
    ----------
    tensors : mapping of str to array
        Those of a message.
    name : str
        Which one.
    dtype, shape
        What it must be.
    fail : callable
        Makes the error of a text.
    """
    found = tensors[name]
    if found.dtype != dtype or found.shape != shape:
        raise fail(
            f"its {name!r} are {found.dtype} of shape {found.shape}, announced were {np.dtype(dtype)} of shape {shape}"
        )
