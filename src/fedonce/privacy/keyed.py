"""Answers that are drawn once: their randomness follows from a secret, a purpose, a row and what is disclosed of it.

The same truth about the same row always gets the same answer, in every message and after every new start, and nothing has to be
stored for it: there is nothing to average. A row of which something else is disclosed gets an answer of its own, independent of
the first. Without the secret, draws cannot be told from random ones: HMAC-SHA-256 is the pseudo-random function, SHAKE-256
stretches its output.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fedonce.privacy.noise import normals_from, uniforms_from


def uniforms(
    secret: bytes, purpose: str, rows: Iterable[str], disclosed: Iterable[bytes], count: int
) -> NDArray[np.float64]:
    """Return `count` numbers from (0, 1) for each row, shape (rows, count).

    Parameters
    ----------
    secret : bytes
        Known to the party that answers, and to it alone.
    purpose : str
        What the answers are for: mechanism, epsilon, and all else that must not share noise with other answers.
    rows : iterable of str
        The rows' normalised ids.
    disclosed : iterable of bytes
        What is disclosed of each row: its class, its cell or its quantised values, before any noise.
    count : int
        Numbers per row.
    """
    key = hmac.digest(secret, f"fedonce keyed answers\n{purpose}".encode("utf-8", "surrogatepass"), "sha256")
    stretched = (
        hashlib.shake_256(hmac.digest(key, _one(row) + content, "sha256")).digest(8 * count)
        for row, content in zip(rows, disclosed, strict=True)
    )
    return uniforms_from(b"".join(stretched)).reshape(-1, count)


def normals(
    secret: bytes, purpose: str, rows: Iterable[str], disclosed: Iterable[bytes], count: int
) -> NDArray[np.float64]:
    """Return `count` standard normal numbers for each row; see `uniforms`."""
    return normals_from(uniforms(secret, purpose, rows, disclosed, count + count % 2))[:, :count]


def _one(row: str) -> bytes:
    """Return a row's id at one length, so that no id runs into what is disclosed."""
    return hashlib.sha256(row.encode("utf-8", "surrogatepass")).digest()
