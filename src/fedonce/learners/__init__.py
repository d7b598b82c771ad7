"""Learners by name: `make("pca")`, and `register` to add one's own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedonce.errors import InputError, parameter_error
from fedonce.learners.names import LEARNERS, Facts

if TYPE_CHECKING:
    from fedonce.learners.auto import Auto
    from fedonce.learners.autoencoder import Autoencoder
    from fedonce.learners.base import Learner, NetworkLearner
    from fedonce.learners.cells import Cells
    from fedonce.learners.cooccurrence import Cooccurrence
    from fedonce.learners.hinted import Hinted
    from fedonce.learners.nat import NAT
    from fedonce.learners.patches import Patches
    from fedonce.learners.pca import PCA
    from fedonce.learners.quantiles import Quantiles
    from fedonce.learners.random import Random
    from fedonce.learners.signs import Signs

__all__ = [
    "LEARNERS",
    "NAT",
    "PCA",
    "Auto",
    "Autoencoder",
    "Cells",
    "Cooccurrence",
    "Facts",
    "Hinted",
    "Learner",
    "NetworkLearner",
    "Patches",
    "Quantiles",
    "Random",
    "Signs",
    "configured",
    "make",
    "register",
]

# Imported when they are first used: names and facts are wanted where torch, which is slow, is not.
_HOME = {
    "Auto": "auto",
    "Autoencoder": "autoencoder",
    "Cells": "cells",
    "Cooccurrence": "cooccurrence",
    "Hinted": "hinted",
    "Learner": "base",
    "NAT": "nat",
    "NetworkLearner": "base",
    "PCA": "pca",
    "Patches": "patches",
    "Quantiles": "quantiles",
    "Random": "random",
    "Signs": "signs",
}


def register(learner: type[Learner]) -> type[Learner]:
    """Add a learner to the table of names; works as a decorator.

    Parameters
    ----------
    learner : type
        A subclass of `Learner` with a `name`.
    """
    return LEARNERS.register(learner)


def make(
    learner: object, epochs: int | None = None, owner: str = "make", bytes_per_row: float | None = None
) -> Learner:
    """Return a fresh learner from a name or from an object, which is copied; `epochs` and `bytes_per_row` override its own.

    Parameters
    ----------
    learner : str or Learner
        A name of `LEARNERS`, or an object.
    epochs, bytes_per_row : optional
        Override the learner's own.
    owner : str
        Who is named in errors.
    """
    from fedonce.learners.base import Learner

    if isinstance(learner, Learner):
        made = copy.deepcopy(learner)
    elif isinstance(learner, str) and learner in LEARNERS:
        made = LEARNERS[learner]()
    else:
        wanted = f"one of {', '.join(LEARNERS)} or a Learner object{LEARNERS.meant(learner)}"
        raise parameter_error(owner, "learner", wanted, learner)
    if epochs is not None and hasattr(made, "epochs"):
        made.epochs = epochs
    if bytes_per_row is not None and hasattr(made, "bytes_per_row"):
        made.bytes_per_row = bytes_per_row
    return made


def configured(name: str, options: Mapping[str, str]) -> Learner:
    """Return a fresh learner with settings of its own, which come as texts: {"least": "50"}.

    Parameters
    ----------
    name : str
        A name of `LEARNERS`.
    options : mapping of str to str
        Settings and their values, as a command line has them.
    """
    made = make(name, owner="configured")
    kinds: dict[str, str] = {each.name: str(each.type) for each in fields(made) if each.init}  # type: ignore[arg-type]
    known = {key: kind.removesuffix(" | None") for key, kind in kinds.items() if key not in ("epochs", "bytes_per_row")}
    known = {key: kind for key, kind in known.items() if kind in _READ}
    for key, text in options.items():
        if key not in known:
            there = ", ".join(sorted(known)) or "none"
            raise InputError(f"The learner {name!r} has no setting {key!r} that can be given; it has: {there}.")
        must_be, read = _READ[known[key]]
        try:
            setattr(made, key, read(text))
        except (ValueError, KeyError):
            raise parameter_error(f"the learner {name!r}", key, must_be, text) from None
    if callable(check := getattr(made, "check", None)):
        check()
    return made


# How settings are read that come as texts, by the types of their fields.
_READ: dict[str, tuple[str, Callable[[str], Any]]] = {
    "int": ("a whole number", int),
    "float": ("a number", float),
    "bool": ("true or false", {"true": True, "false": False}.__getitem__),
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fedonce.learners' has no attribute {name!r}")
    return getattr(import_module(f"fedonce.learners.{_HOME[name]}"), name)
