"""The messages of rounds: values of a batch's rows from a guest, gradients back to it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedonce.messages.representation import Representation, row_digest
from fedonce.messages.scale import SCALES_LIMIT, Scale
from fedonce.training.loop import Batch, Rows


def batch_digest(batch: Batch) -> str:
    """Return the name of a batch: of its rows, in their order."""
    return row_digest(len(batch), np.ascontiguousarray(batch, dtype="<i8").view(np.uint8))


def range_of(values: Rows, bits: int) -> Scale:
    """Return the range of one message's values."""
    if bits > 8:
        return Scale.fit(values, bits)
    columns = scaled_together(values)
    if not len(columns):
        columns = np.zeros((1, columns.shape[1]), np.float32)
    return Scale(columns.min(axis=0), columns.max(axis=0))


def symmetric_range(values: Rows, bits: int) -> Scale:
    """Return a range around zero in which zero is a code of its own: the gradient of a dropped guest is zero."""
    half = 2 ** (bits - 1)
    most = np.abs(scaled_together(values)).max(axis=0, initial=0).astype(np.float32)
    return Scale(-most * np.float32(half / (half - 1)), most) if bits <= 8 else Scale.fit(values, bits)


def scaled_together(values: Rows) -> Rows:
    """Return columns that have a scale each; beyond a limit all values share one."""
    return values if values.shape[1] <= SCALES_LIMIT else values.reshape(-1, 1)


def wire_message(
    values: Rows,
    bits: int,
    scale: Scale,
    party: str,
    run: str,
    rows: str,
    kind: str,
    present: NDArray[np.bool_] | None,
) -> Representation:
    """Return a message of rounds, of values or of gradients: its note says which."""
    return Representation.encode(
        values, bits=bits, scale=scale, party=party, run=run, rows=rows, present=present, learner="rounds", note=kind
    )
