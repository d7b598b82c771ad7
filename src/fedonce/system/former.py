"""Module names from before the rooms that keep answering: those that were documented, and FLARE's class paths in jobs.

The class paths are a wire format: a job of any version names them, and a guest allows these and no others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

FORMER = {
    "fedonce.alignment": "fedonce.rows.alignment",
    "fedonce.crypto": "fedonce.messages.keys",
    "fedonce.partition": "fedonce.data.partition",
    "fedonce.preparation": "fedonce.data.preparation",
    "fedonce.privacy.audit": "fedonce.assess.audit",
    # Class paths in jobs.
    "fedonce.federation.guest_app": "fedonce.federation.flare.guest_app",
    "fedonce.federation.server_app": "fedonce.federation.flare.server_app",
}


def moved_names(moved: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module from which names have moved, listed by the module of today.

    Pickles know a class by the module where it was.
    """
    home = {name: module for module, names in moved.items() for name in names}

    def answer(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"there is no {name!r} here, nor has there been")
        return getattr(import_module(home[name]), name)

    return answer


class FormerNames(MetaPathFinder, Loader):
    """Finds a module by its former name: the very same module, not a copy."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a former name; None for every other."""
        return ModuleSpec(fullname, self) if fullname in FORMER else None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of today in the place of the empty one that was made."""
        sys.modules[module.__name__] = import_module(FORMER[module.__name__])


def answer_former_names() -> None:
    """Let former names be imported, beside the modules that are there."""
    if not any(isinstance(finder, FormerNames) for finder in sys.meta_path):
        sys.meta_path.insert(
            0, FormerNames()
        )  # first: a folder of an older version that was left over is a package, too
