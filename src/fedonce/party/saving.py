"""What guests and hosts on disk have in common; `saving_guest` and `saving_host` have the rest, `storage` the files."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.data.preparation import Preparation
from fedonce.errors import FedOnceError, InputError
from fedonce.hostmodels import HostModel
from fedonce.learners import Learner
from fedonce.party import storage
from fedonce.party.storage import Stored, Tensors
from fedonce.privacy.budget import Purse
from fedonce.privacy.ledger import Ledger, from_text, to_text
from fedonce.privacy.noise import SecretRandom
from fedonce.system.registry import Registry
from fedonce.training.randomness import torch_seeded

_DAMAGE = (
    LookupError,
    ValueError,
    TypeError,
    RuntimeError,
    AttributeError,
    ArithmeticError,
    StopIteration,
    MemoryError,
)
_ROW_LIMIT = 2**24  # numbers of a prepared row; or as many as there are weights


@contextmanager
def opened(folder: str | Path, kind: str) -> Iterator[Stored]:
    """Read a party's folder; what goes wrong while it is made into a party, and tried, is damage of the folder."""
    stored = storage.load(folder, kind)
    try:
        with torch_seeded(np.random.default_rng(0)):  # weights drawn on the way are replaced at once
            yield stored
    except FedOnceError:
        raise
    except _DAMAGE as error:
        raise storage.damaged(folder, error) from None


def one_row(preparation: Preparation, weights: Tensors) -> NDArray[np.float32]:
    """Return a prepared row of zeros, to try a model with."""
    width = math.prod(preparation.row_shape)
    if width > max(_ROW_LIMIT, sum(value.size for value in weights.values())):
        raise ValueError(f"its rows have {width} numbers")
    return np.zeros((1, *preparation.row_shape), np.float32)


def check_registered(registry: Registry[Any, Any], thing: Learner | HostModel, owner: str, room: str) -> None:
    """Refuse what could not be loaded, or would be loaded as another one of the same name."""
    if registry.get(thing.name) is not type(thing):
        raise InputError(
            f"{owner} cannot be saved: {type(thing).__name__} is not known by that name, so nobody could load it; give it a "
            f"name of its own, and call fedonce.{room}.register with it first."
        )


def ledger_json(ledger: Ledger, parties: Sequence[str]) -> dict[str, Any]:
    """Return a ledger as JSON values, by party."""
    entries = {
        party: json.loads(to_text([entry for entry in ledger.entries if entry.party == party])) for party in parties
    }
    return {"delta": ledger.delta, "accountant": ledger.accountant, "division": ledger.division, "entries": entries}


def ledger_from(content: Mapping[str, Any]) -> Ledger:
    """Read what `ledger_json` gave."""
    entries = [
        entry
        for party, lines in content["entries"].items()
        for entry in from_text(json.dumps(lines), party, "its ledger")
    ]
    return Ledger(content["delta"], content["accountant"], content["division"], entries)


def empty_purse(party: str, ledger: Ledger) -> Purse:
    """Return a purse from which all is spent: a model that comes from disk represents and predicts, and learns no more."""
    return Purse(
        party, (), ledger, SecretRandom(), used={entry.what for entry in ledger.entries if entry.party == party}
    )
