"""Deflated bytes of another party, inflated only as far as they are asked for."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from fedonce.messages.codecs.base import Fail

PIECE = 2**14  # bytes at a time: a few bytes may announce gigabytes


class Tables:
    """Bytes taken from the front; more than there are cannot be taken, and no more is inflated than is taken."""

    def __init__(self, deflated: bytes, fail: Fail) -> None:
        self._deflated, self._at, self._fail = deflated, 0, fail
        self._inflating = zlib.decompressobj()
        self._ready, self._taken = b"", 0

    def take(self, size: int) -> NDArray[np.uint8]:
        """Return the next bytes."""
        while len(self._ready) - self._taken < size:
            more = self._more()
            if not more:
                raise self._fail("its tables end too early")
            self._ready, self._taken = self._ready[self._taken :] + more, 0
        start, self._taken = self._taken, self._taken + size
        return np.frombuffer(self._ready[start : self._taken], np.uint8)

    def end(self) -> None:
        """Raise unless all bytes were taken."""
        left = self._taken < len(self._ready) or self._more() or self._at < len(self._deflated)
        if left or not self._inflating.eof or self._inflating.unused_data:
            raise self._fail("its tables go on beyond their end, or are cut off")

    def _more(self) -> bytes:
        while True:
            given = self._inflating.unconsumed_tail
            if not given:
                given = self._deflated[self._at : self._at + PIECE]
                self._at += len(given)
            try:
                found = self._inflating.decompress(given, PIECE)
            except zlib.error:
                raise self._fail("its tables cannot be read") from None
            if found or self._inflating.eof or not given:
                return found
