"""Packages that one feature needs: asked for when the feature is used, with the command that installs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fedonce.errors import MissingPackageError


def require(who: str, extra: str, module: str, package: str = "") -> Any:
    """Return a module of an optional package; `who` begins the error where it is missing, as in "Alignment needs".

    >>> require("The demonstration needs", "nothing", "no_such_module")
    Traceback (most recent call last):
    ...
    fedonce.errors.MissingPackageError: The demonstration needs the package no_such_module: pip install 'fedonce[nothing]'.
    """
    try:
        return import_module(module)
    except ImportError:
        said = f"{who} the package {package or module}: pip install 'fedonce[{extra}]'."
        raise MissingPackageError(said) from None
