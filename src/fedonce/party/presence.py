"""Who has which rows; and whether enough guests are there for a prediction: one that is missing is told, not quietly zeros."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedonce.errors import AbsentPartyError, InputError, parameter_error, shown

Present = Mapping[str, "ArrayLike | bool"] | None  # which rows each guest has; who is not listed has all
HALF = 0.5  # of its share of the rows in training, which a guest must have at prediction


def masks(present: Present, guests: Collection[str], n_rows: int, owner: str) -> dict[str, NDArray[np.bool_]]:
    """Check the `present` parameter of an owner and return a boolean per row for each guest that it lists."""
    if present is None:
        return {}
    if not isinstance(present, Mapping) or not set(present) <= set(guests):
        wanted = f"a dict of guests ({', '.join(map(repr, guests))}) to a boolean or a boolean per row"
        got = list(present) if isinstance(present, Mapping) else type(present).__name__
        raise parameter_error(owner, "present", wanted, got)
    return {name: _mask(given, name, n_rows, owner) for name, given in present.items()}


def _mask(given: ArrayLike | bool, guest: str, n_rows: int, owner: str) -> NDArray[np.bool_]:
    mask = np.full(n_rows, given) if isinstance(given, bool | np.bool_) else np.asarray(given)
    if mask.dtype != bool or mask.shape != (n_rows,):
        wanted = f"False, or {n_rows} booleans, one per row, for guest {guest!r}"
        raise parameter_error(owner, "present", wanted, f"{mask.dtype} {mask.shape}")
    return mask


@dataclass(frozen=True)
class Needed:
    """Who must be there for a prediction.

    Parameters
    ----------
    min_guests : int, optional
        How many guests of the training. None: all of them.
    min_overlap : float, optional
        Which share of the rows a guest must have, to be there. None: half of its share in training.
    allow_absent : bool
        Whether any guest may be missing, all of them included.
    """

    min_guests: int | None = None
    min_overlap: float | None = None
    allow_absent: bool = False

    def __post_init__(self) -> None:
        if self.min_guests is not None and self.min_guests < 0:
            raise parameter_error("Needed", "min_guests", "an integer of at least 0, or None", self.min_guests)
        if self.min_overlap is not None and not 0 <= self.min_overlap <= 1:
            raise parameter_error("Needed", "min_overlap", "a share from 0 to 1, or None", self.min_overlap)
        if self.allow_absent and (self.min_guests is not None or self.min_overlap is not None):
            raise InputError(
                "Let any guest be missing (allow_absent), or say how many must be there (min_guests), with which share of the "
                "rows (min_overlap); not both.",
                parameter=("allow_absent", "min_guests", "min_overlap"),
            )

    def share_of(self, trained: float) -> float:
        """Return the share of the rows that a guest must have, by its share in training."""
        return HALF * trained if self.min_overlap is None else self.min_overlap


def check_present(
    trained: Mapping[str, float],
    now: Mapping[str, float],
    needed: Needed | None = None,
    reasons: Mapping[str, str] | None = None,
) -> None:
    """Raise where too few guests of the training are there, or have too few of the rows.

    Parameters
    ----------
    trained : dict
        Guests of the training, and which share of the rows each had: `Host.trained_overlap`.
    now : dict
        Guests that sent a message for the prediction, and which share of its rows each has: `Prediction.overlap`.
    needed : Needed, optional
        What is enough. None: every guest, with half of its share in training at least.
    reasons : dict, optional
        Why guests are missing, where that is known.
    """
    needed = needed or Needed()
    if needed.allow_absent:
        return
    least = len(trained) if needed.min_guests is None else needed.min_guests
    if least > len(trained):
        raise InputError(
            f"At least {least} guests (min_guests) cannot be there: the model was trained with {len(trained)} "
            f"({', '.join(trained) or 'the host alone'}).",
            parameter="min_guests",
        )
    missing = {name: share for name, share in trained.items() if name not in now or now[name] < needed.share_of(share)}
    if len(trained) - len(missing) < least:
        raise AbsentPartyError(
            _too_few(least, missing, trained, now, needed, reasons or {}),
            parameter=("min_guests", "min_overlap", "allow_absent"),
        )


def _too_few(
    least: int,
    missing: Mapping[str, float],
    trained: Mapping[str, float],
    now: Mapping[str, float],
    needed: Needed,
    reasons: Mapping[str, str],
) -> str:
    share = needed.min_overlap
    rows = "half of its share of the rows in training" if share is None else f"{_percent(share)} of the rows"
    there = len(trained) - len(missing)
    each = [_why(name, trained[name], now.get(name), reasons.get(name, "")) for name in missing]
    files = [f"{file} was refused: {_sentence(reason)}" for file, reason in reasons.items() if file not in trained]
    return (
        f"At least {least} guest{'' if least == 1 else 's'} of the training ({', '.join(trained)}) must be there, with {rows} or "
        f"more, and {there} {'is' if there == 1 else 'are'}; nothing was written. {' '.join([*each, *files])} Ask for the "
        f"messages for these rows; or allow fewer guests (min_guests={there}), fewer rows (min_overlap) or any to be "
        "missing (allow_absent): zeros are then in their place, and predictions are worse."
    )


def _why(name: str, trained: float, now: float | None, reason: str) -> str:
    what = "has sent no message" if now is None else f"has {_percent(now)} of the rows"
    reason = reason or ("are these other rows, or is it the message of the training?" if now == 0 else "")
    return f"{name!r} {what} ({_percent(trained)} in training){f': {_sentence(reason)}' if reason else '.'}"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def held_rows(party: str, n_rows: int, present: ArrayLike | None) -> NDArray[np.bool_] | None:
    """Return which agreed rows a guest's table holds; raise unless it is a boolean for each, and as many as the table has."""
    if present is None:
        return None
    mask = np.asarray(present)
    marked = int(mask.sum()) if mask.dtype == bool and mask.ndim == 1 else None
    if marked != n_rows:
        what = f"is {shown(present)}" if marked is None else f"marks {marked}"
        raise InputError(
            f"Party {party!r} has a table of {n_rows} rows, and 'present' {what}; it must be a boolean for each agreed row, "
            "and the table must hold the marked rows and no others."
        )
    return mask
