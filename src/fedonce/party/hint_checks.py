"""What can be published as hints, checked: labels, public classes, ids and the key, before anything is drawn."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedonce.data.table import as_text
from fedonce.errors import InputError, parameter_error, shown
from fedonce.messages.hints import MOST_CLASSES
from fedonce.messages.keys import LEAST_SECRET
from fedonce.rows.ids import Ids, as_ids

OWNER = "publish"


def checked_labels(label: ArrayLike) -> NDArray[Any]:
    """Return labels as an array; raise where they are not one per row."""
    try:
        values = np.asarray(label)
    except ValueError:  # lists of different lengths
        raise InputError("The labels are no array; give one label per row (label).", parameter="label") from None
    if values.ndim != 1 or not len(values):
        raise InputError(
            f"The labels have shape {values.shape}; give one label per row, in one dimension (label).",
            parameter="label",
        )
    return values


def checked_public(public: ArrayLike | None, edges: object) -> NDArray[Any] | None:
    """Return public classes, each once and in order; None where none are given."""
    if public is None:
        return None
    if edges is not None:
        raise InputError(
            "The labels are told in bins, which are their classes; leave out one of the two (edges, public).",
            parameter=("edges", "public"),
        )
    wanted = f"2 to {MOST_CLASSES} classes, all texts or all numbers, each once"
    given = np.asarray(public, dtype=object)  # as numpy would have it, 1 and "yes" were two texts
    kinds = {isinstance(each, str) for each in given.ravel()}
    try:
        made = np.unique(np.asarray(given.tolist()))
    except (TypeError, ValueError):
        raise parameter_error(OWNER, "public", wanted, public) from None
    distinct = len({as_text(each) for each in made.tolist()})
    if given.ndim != 1 or len(kinds) != 1 or not 2 <= distinct <= MOST_CLASSES or distinct < len(given):
        raise parameter_error(OWNER, "public", wanted, public)
    return made


def check_among(values: NDArray[Any], public: NDArray[Any]) -> None:
    """Raise where labels are none of the public classes; how many are is said, and not which."""
    known = {as_text(value) for value in public.tolist()}
    try:
        counts = Counter(values.tolist())
    except TypeError:  # labels that are lists are refused as such, whatever classes there are
        return
    outside = sum(count for value, count in counts.items() if as_text(value) not in known)
    if outside:
        raise InputError(
            f"{outside:,} of {len(values):,} labels are none of the classes given, {shown(public.tolist())}; give all classes "
            "that a label can have, or drop these rows.",
            parameter=("public", "classes"),
        )


def checked_ids(ids: object, n_labels: int) -> Ids | None:
    """Return ids as texts, as many as there are labels; None where there are none."""
    if ids is None:
        return None
    made = as_ids(ids)
    if len(made) != n_labels:
        raise InputError(
            f"There are {n_labels:,} labels and {len(made):,} ids; give one id per label, in the same order (ids).",
            parameter="ids",
        )
    return made


def check_key(key: object) -> None:
    """Raise unless it is None, or bytes that nobody guesses; no error shows it."""
    if key is None:
        return
    if not isinstance(key, bytes):
        raise InputError(
            f"The 'key' parameter of {OWNER} must be bytes. Got a {type(key).__name__} instead; draw one, once, by "
            "secrets.token_bytes(32), and keep it.",
            parameter="key",
        )
    if len(key) < LEAST_SECRET:
        raise InputError(
            f"The 'key' parameter of {OWNER} must have {LEAST_SECRET} bytes or more. Got {len(key)}; draw one, once, by "
            "secrets.token_bytes(32), and keep it.",
            parameter="key",
        )
