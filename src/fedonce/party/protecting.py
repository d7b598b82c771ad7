"""Protections by name: what a guest does so that less can be read in its message without knowing its rows."""

from __future__ import annotations

from fedonce.errors import InputError, parameter_error
from fedonce.learners import Auto, Cells, Learner
from fedonce.learners.names import PROTECTION, STATED, is_protection

_ALONE = {  # what each parameter must be beside a protection
    "noise": "0 with protect: numbers of cells are names, and noise on them says nothing",
    "representation_noise": "0 with protect: numbers of cells are names, and noise on them says nothing",
    "local_epsilon": "None with protect: it tells cells in its own way",
    "rounds": "0 with protect: in rounds values leave the guest as they are",
    "epsilon": "None with protect: cells have no private version",
    "purse": "None with protect: cells have no private version",
}


def check_protect(owner: str, given: object, **others: object) -> None:
    """Raise unless it is None, or a protection and nothing is given that has no place beside it."""
    if given is None:
        return
    if not is_protection(given):
        raise parameter_error(owner, "protect", f"{PROTECTION}, or None", given)
    for name, wanted in _ALONE.items():
        if value := others.get(name):
            raise parameter_error(owner, name, wanted, "a purse" if name == "purse" else value)


def protected(owner: str, learner: object, protect: str | None) -> object:
    """Return the learner that a protection stands for; without one, the learner itself."""
    if protect is None:
        return learner
    check_protect(owner, protect)
    if not isinstance(learner, Auto | Cells) and learner not in ("auto", "cells"):
        given = learner.name if isinstance(learner, Learner) else learner
        raise parameter_error(owner, "learner", '"auto" with protect, which says how rows are represented', given)
    cells = learner if isinstance(learner, Cells) else Cells()
    fewest = int(protect.removeprefix("cells:"))
    return Cells(cells=cells.cells, least=fewest, centres=False, shuffled=True)


def stated(learner: Learner) -> str:
    """Return how a learner protects its messages, for their note; empty where it does not.

    The number is about training rows: those of a prediction go to the cells that there are, and may be alone in theirs.
    """
    return f"{STATED}cells:{learner.least} (training rows)" if isinstance(learner, Cells) and learner.shuffled else ""


def check_shared(party: str, learner: Learner, fewest: int) -> None:
    """Raise where only `fewest` rows of a training message share a value, and the learner promises more."""
    if fewest >= learner.shared:
        return
    least, name = learner.shared, "protect" if stated(learner) else "least"
    raise InputError(
        f"The training message of party {party!r} would have a value that {fewest} of its rows share, and {least} or more are "
        f"promised ({name}). Nothing is sent. Send more rows, or promise fewer ({name}).",
        parameter=name,
    )
