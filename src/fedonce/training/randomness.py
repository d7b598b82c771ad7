"""Where random numbers come from: one seed, a generator per party by its name.

A party's generator depends on the seed and on the party's own name alone. Adding, removing or reordering parties
therefore changes nobody else's numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def party_generator(seed: int, party: str) -> np.random.Generator:
    """Return the random generator of one party.

    >>> bool(party_generator(0, "shop").random() == party_generator(0, "shop").random())
    True
    """
    name = np.frombuffer(hashlib.sha256(party.encode()).digest(), dtype="<u4")
    return np.random.default_rng([seed, *name.tolist()])


@contextmanager
def torch_seeded(rng: np.random.Generator) -> Iterator[None]:
    """Draw torch's own random numbers (initial weights, dropout) from `rng`, and leave the global state as it was."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(rng.integers(2**63)))
        yield
