"""Ways of writing values, by what they are chosen by: `find(8)`, and `register` to add one's own."""

from __future__ import annotations

import re
from numbers import Integral
from typing import TypeGuard, TypeVar

from fedonce.errors import InputError, parameter_error
from fedonce.messages.codecs.base import VALUE_LIMIT, Codec, Fail, Tensors, Values, expect
from fedonce.messages.codecs.coded import Coded, Coded4, Coded8, Coded12
from fedonce.messages.codecs.floats import Float16, Float32
from fedonce.messages.codecs.integers import Integers4, Integers8

__all__ = [
    "BITS",
    "CODECS",
    "VALUE_LIMIT",
    "Codec",
    "Coded",
    "Fail",
    "Tensors",
    "Values",
    "announced",
    "choices",
    "expect",
    "find",
    "known",
    "most_state",
    "register",
]

CODECS: dict[int | str, type[Codec]] = {each.choice(): each for each in (Float32, Float16, Integers8, Integers4)}
# How integers are written in the one message, in fewer bytes: no choice of the user's, and known by their names.
CODED: dict[str, type[Codec]] = {each.name: each for each in (Coded4, Coded8, Coded12)}
BITS = tuple(each.bits for each in CODECS.values())  # of ours, which every party has
RESERVED = {"present", "ids"}  # what else a message may carry
TENSORS_LIMIT = 4  # a header has no room to describe more

C = TypeVar("C", bound=type[Codec])


def register(codec: C) -> C:
    """Add an encoding of one's own, which has a name; works as a decorator. Who reads its messages must have it, too.

    Parameters
    ----------
    codec : type
        A subclass of `Codec` with a `name`.
    """
    tensors = (*codec.writes, *codec.keeps)
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,39}", codec.name):
        raise InputError(
            f"The encoding {codec.__name__} must have a 'name' of its own: a small letter, then small letters, digits and '-', "
            f"40 at most. Got {codec.name!r}."
        )
    if codec.name in CODED:
        raise InputError(f"The name {codec.name!r} is that of an encoding of fedonce's own; choose another.")
    if len(set(tensors) - RESERVED) != len(tensors) or not 1 <= len(tensors) <= TENSORS_LIMIT:
        raise InputError(
            f"The encoding {codec.name!r} must write 1 to {TENSORS_LIMIT} tensors, each of another name, and none of "
            f"{', '.join(sorted(RESERVED))}. Got {', '.join(tensors)}."
        )
    CODECS[codec.name] = codec
    return codec


def known(bits: object) -> TypeGuard[int | str]:
    """Tell whether there is an encoding of so many bits, or of this name.

    Parameters
    ----------
    bits : int or str
        Bits per value, or an encoding's name.
    """
    return isinstance(bits, Integral | str) and not isinstance(bits, bool) and bits in CODECS


def choices() -> str:
    """Return what there is to choose from, in words."""
    return ", ".join(map(str, CODECS))


def find(bits: object, owner: str = "find", more: str = "") -> type[Codec]:
    """Return an encoding by its number of bits or its name; `owner` is whose parameter `bits` is, `more` what else it may be."""
    if not known(bits):
        raise parameter_error(owner, "bits", f"one of {choices()}{more}", bits)
    return CODECS[bits]


def announced(bits: int, name: str | None) -> type[Codec] | None:
    """Return the encoding that a message's header tells of; None: it is not known here.

    Parameters
    ----------
    bits : int
        Bits per value.
    name : str or None
        The encoding's name, where the header has one.
    """
    if name is not None:
        return CODED.get(name) or (CODECS[name] if known(name) else None)
    return CODECS[bits] if known(bits) else None


def most_state(dim: int) -> int:
    """Return how many bytes the state of any encoding has, at most.

    Parameters
    ----------
    dim : int
        Values per row.
    """
    return max(each.most_state(dim) for each in (*CODECS.values(), *CODED.values()))
