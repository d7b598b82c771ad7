"""Learners by name: `make("pca")`, and `register` to add one's own."""

from __future__ import annotations

import copy
from difflib import get_close_matches

from fedonce.errors import parameter_error
from fedonce.learners.auto import Auto
from fedonce.learners.autoencoder import Autoencoder
from fedonce.learners.base import Learner, NetworkLearner
from fedonce.learners.nat import NAT
from fedonce.learners.patches import Patches
from fedonce.learners.pca import PCA
from fedonce.learners.random import Random

__all__ = [
    "LEARNERS",
    "NAT",
    "PCA",
    "Auto",
    "Autoencoder",
    "Learner",
    "NetworkLearner",
    "Patches",
    "Random",
    "make",
    "register",
]

LEARNERS: dict[str, type[Learner]] = {
    learner.name: learner for learner in (Auto, NAT, PCA, Autoencoder, Patches, Random)
}


def register(learner: type[Learner]) -> type[Learner]:
    """Add a learner to the table of names; works as a decorator."""
    LEARNERS[learner.name] = learner
    return learner


def make(learner: object, epochs: int | None = None, owner: str = "make") -> Learner:
    """Return a fresh learner from a name or from an object, which is copied; `epochs` overrides its own."""
    if isinstance(learner, Learner):
        made = copy.deepcopy(learner)
    elif isinstance(learner, str) and learner in LEARNERS:
        made = LEARNERS[learner]()
    else:
        close = get_close_matches(str(learner), LEARNERS, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise parameter_error(owner, "learner", f"one of {', '.join(LEARNERS)} or a Learner object{hint}", learner)
    if epochs is not None and hasattr(made, "epochs"):
        made.epochs = epochs
    return made
