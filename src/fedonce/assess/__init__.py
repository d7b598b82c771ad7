"""What a model is worth, and what a message gives away: `what_leaks(message.values, table)`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedonce.assess.leakage import Leakage as Leakage
    from fedonce.assess.leakage import what_leaks as what_leaks

__all__ = ["Leakage", "what_leaks"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fedonce.assess' has no attribute {name!r}")
    return getattr(import_module("fedonce.assess.leakage"), name)
