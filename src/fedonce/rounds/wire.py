"""The messages of rounds: values of a batch's rows from a guest, gradients back to it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedonce.messages.codecs import Codec
from fedonce.messages.representation import Representation, row_digest
from fedonce.training.loop import Batch, Rows


def batch_digest(batch: Batch) -> str:
    """Return the name of a batch: of its rows, in their order."""
    return row_digest(len(batch), np.ascontiguousarray(batch, dtype="<i8").view(np.uint8))


def wire_message(
    values: Rows,
    codec: Codec,
    party: str,
    run: str,
    rows: str,
    kind: str,
    present: NDArray[np.bool_] | None,
) -> Representation:
    """Return a message of rounds, of values or of gradients: its note says which."""
    return Representation.encode(values, codec, party, run=run, rows=rows, present=present, learner="rounds", note=kind)
