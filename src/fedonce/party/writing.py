"""How a guest's values are written: which codec, fitted when it has learnt, and what that is handed."""

from __future__ import annotations

import numpy as np
import torch

from fedonce.errors import parameter_error
from fedonce.learners import Learner
from fedonce.messages.codecs import Codec, Coded
from fedonce.messages.codecs.budget import within, worth
from fedonce.messages.codecs.coded import COLUMNS_LIMIT, coded_by
from fedonce.messages.codecs.integers import Integers4, Integers8
from fedonce.training.loop import Rows

CODED = (
    Integers8,
    Integers4,
)  # encodings that are written in fewer bytes: of others one may rely on how they are written


def check_bits(owner: str, encoding: type[Codec], bytes_per_row: float | None) -> None:
    """Raise where values would be written in another way than the bytes ask for."""
    if bytes_per_row is not None and encoding is not Integers8:
        wanted = "8 with bytes_per_row, by which each value gets the bits that it is worth, eight at most"
        raise parameter_error(owner, "bits", wanted, encoding.choice())


def fitted(encoding: type[Codec], values: Rows, learner: Learner | None, bytes_per_row: float | None) -> Codec:
    """Return the codec for values: of the learner's own steps where it has some, else the encoding, fitted to them.

    With eight bits, values of one scale get steps of one length, so that one which hardly varies takes hardly any bytes.
    `learner` is None where the values are no longer as it gave them.
    """
    steps = None if learner is None else learner.steps
    if steps is None and bytes_per_row is not None:
        steps = within(values, bytes_per_row)
    elif steps is None and learner is not None and learner.one_scale and encoding is Integers8:
        steps = worth(values)
    if steps is not None and encoding in CODED and int(steps.levels.max()) < 2**encoding.bits:
        return coded_by(steps)
    return _shortest(encoding.fit(values), values.shape[1])


def _shortest(codec: Codec, dim: int) -> Codec:
    return codec.coded if dim <= COLUMNS_LIMIT and type(codec) in CODED else codec


def laid_out(codec: Codec | None, learner: Learner, rows: Rows, values: Rows, device: torch.device) -> Rows:
    """Return the values of prepared rows as the codec takes them: in layers, where they are sums."""
    layered = isinstance(codec, Coded) and codec.steps.layers > 1
    return np.asarray(learner.transform_in_layers(rows, device), dtype=np.float32) if layered else values
