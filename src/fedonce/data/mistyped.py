"""Columns of text that were meant as something else: nearly all values are numbers, dates or booleans, and a few are not.

One typo makes a whole column categories. The owner of the table is told so, with one cell of it, cut short: these words are for
the owner's own screen or log, and nothing sends them to another party.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.errors import FedOnceWarning, quoted

ALMOST = 0.9  # the share of values from which on a column was meant to hold what they are
SAMPLE = 1000  # different texts that tell most columns of true categories apart
_LIKE = {
    "number": re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*"),
    "date": re.compile(r"\s*\d{4}-\d\d-\d\d([ T]\d.*)?\s*"),
    "boolean": re.compile(r"\s*(true|false)\s*", re.IGNORECASE),
}


def misfits(texts: Sequence[str], counts: NDArray[np.int64]) -> tuple[str, NDArray[np.bool_]] | None:
    """Return what nearly all values of a column are, and which of its different texts are not; None: there is no such thing.

    >>> misfits(["1", "2", "3O"], np.array([10, 20, 1]))
    ('number', array([False, False,  True]))
    """
    for kind, pattern in _LIKE.items():
        every = max(1, len(texts) // SAMPLE)
        for some in (slice(None, None, every), slice(None)):
            fits = np.array([pattern.fullmatch(text) is not None for text in texts[some]], bool)
            if fits.all() or counts[some][fits].sum() < ALMOST * counts[some].sum():
                break
        else:
            return kind, ~fits
    return None


def warn_if_mistyped(where: str, codes: NDArray[Any], texts: Sequence[str], remedy: Callable[[str], str]) -> None:
    """Warn of a column of categories that was probably meant otherwise.

    Parameters
    ----------
    where : str
        The column, and whose it is.
    codes : array of int
        Which of the texts a row has; -1: none, it is missing.
    texts : list of str
        The different texts.
    remedy : callable
        Says what to do about it, by what the column was probably meant to be.
    """
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    found = misfits(texts, counts)
    if found is None:
        return
    kind, bad = found
    row = int((bad[codes] & (codes >= 0)).argmax())
    good, total = int(counts[~bad].sum()), int(counts.sum())
    text = (
        f"{where}: {good:,} of {total:,} values are {kind}s; row {row + 1:,} is {quoted(texts[codes[row]])}, so the whole column "
        f"is read as text (categories). {remedy(kind)}"
    )
    warnings.warn(FedOnceWarning(text, parameter="types"), stacklevel=3)
