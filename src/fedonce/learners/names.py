"""The learners by name, and what is known of each without importing it: torch is slow, and many a check does without."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fedonce.system.registry import BuiltIn, Registry


@dataclass(frozen=True)
class Facts:
    """What a learner can do.

    Parameters
    ----------
    trains : bool
        Whether it takes epochs; a guest's policy limits them.
    private : bool
        Whether it can keep a privacy budget.
    exports : bool
        Whether it gives a network to export.
    images_only : bool
        Whether it learns from images alone.
    readable : bool
        Whether its values are the columns themselves, to be read by whoever holds the message.
    on_steps : bool
        Whether its values lie on steps of their own, beside which there is no room for values learnt from hints.
    """

    trains: bool = True
    private: bool = False
    exports: bool = False
    images_only: bool = False
    readable: bool = False
    on_steps: bool = False


def _ours(home: str, facts: Facts) -> BuiltIn[Facts]:
    return BuiltIn(f"fedonce.learners.{home}", facts)


# A test compares the facts with those that the classes state themselves.
LEARNERS: Registry[Any, Facts] = Registry(
    "learner",
    "fedonce.learners",
    "fedonce.learners.base:Learner",
    {
        "auto": _ours("auto:Auto", Facts(private=True, exports=True)),
        "nat": _ours("nat:NAT", Facts(exports=True)),
        "pca": _ours("pca:PCA", Facts(trains=False, private=True, exports=True)),
        "autoencoder": _ours("autoencoder:Autoencoder", Facts(private=True, exports=True)),
        "patches": _ours("patches:Patches", Facts(trains=False, exports=True, images_only=True)),
        "cells": _ours("cells:Cells", Facts(trains=False, on_steps=True)),
        "cooccurrence": _ours("cooccurrence:Cooccurrence", Facts(trains=False)),
        "quantiles": _ours("quantiles:Quantiles", Facts(trains=False, exports=True, readable=True, on_steps=True)),
        "hinted": _ours("hinted:Hinted", Facts()),
        "random": _ours("random:Random", Facts(trains=False, private=True, exports=True)),
        "signs": _ours("signs:Signs", Facts(trains=False, on_steps=True)),
    },
)
OURS = tuple(LEARNERS.built_in)


UNREADABLE = tuple(name for name in OURS if not LEARNERS.facts(name).readable)


def private_ones() -> str:
    """Return the learners that can keep a privacy budget, as a choice."""
    return LEARNERS.which("private")


PROTECTION = '"cells:" and how many rows at least share a message, as in "cells:20"'


STATED = "protect "  # before a protection in a message's note


def protection_in(note: str) -> str:
    """Return the protection that a message's note states, as in "cells:20"; empty where it states none.

    >>> protection_in("protect cells:20 (training rows)")
    'cells:20'
    """
    stated = (part.removeprefix(STATED).split(" ")[0] for part in note.split("; ") if part.startswith(STATED))
    return next(filter(is_protection, stated), "")


def is_protection(given: object) -> bool:
    """Tell whether it names a protection: what a guest does so that less can be read in its message."""
    return isinstance(given, str) and re.fullmatch(r"cells:[1-9][0-9]{0,8}", given) is not None
