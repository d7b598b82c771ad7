"""How a guest's values are written: which codec, fitted when it has learnt, and what that is handed."""

from __future__ import annotations

import numpy as np
import torch

from fedonce.learners import Learner
from fedonce.messages.codecs import Codec, Coded
from fedonce.messages.codecs.budget import within
from fedonce.messages.codecs.coded import coded_by
from fedonce.training.loop import Rows

MOST_VALUES = 64  # per row, where the guest is told bytes and not how many values


def fitted(encoding: type[Codec], values: Rows, learner: Learner | None, bytes_per_row: float | None) -> Codec:
    """Return the codec for values: of the learner's own steps where it has some, else the encoding, fitted to them.

    `learner` is None where the values are no longer as it gave them.
    """
    steps = None if learner is None else learner.steps
    if steps is None and bytes_per_row is not None:
        steps = within(values, bytes_per_row)
    if steps is not None and (bytes_per_row is not None or int(steps.levels.max()) < 2**encoding.bits):
        return coded_by(steps)
    return encoding.fit(values).coded


def public(encoding: type[Codec], bound: float, dim: int) -> Codec:
    """Return the codec for values within bounds that are known without looking at a row."""
    return encoding.public(bound, dim).coded


def written(codec: Codec | None, learner: Learner, rows: Rows, values: Rows, device: torch.device) -> Rows:
    """Return the values of prepared rows as the codec takes them: in layers, where they are sums."""
    layered = isinstance(codec, Coded) and codec.steps.layers > 1
    return np.asarray(learner.in_layers(rows, device), dtype=np.float32) if layered else values
