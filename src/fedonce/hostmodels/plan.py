"""What all parties will do with a privacy budget, before anything is trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedonce.errors import parameter_error
from fedonce.hostmodels.base import HostModel
from fedonce.learners import Learner
from fedonce.privacy.budget import Plan, Task, calibrate


def plan(
    host: str,
    model: HostModel,
    task: str,
    n_rows: int,
    guests: Mapping[str, Learner],
    rows: Mapping[str, int],
    epsilon: float,
    delta: float,
    accountant: str = "pld",
    division: str = "moments",
    shares: Any = None,
    unsound: bool = False,
) -> Plan:
    """Say, before anything is trained, what each party will do with its rows and with how much noise.

    Parameters
    ----------
    model, task
        How the host trains, and for what: "classification" or "regression".
    guests, rows : dict by guest
        How each guest learns, and how many rows it has. (Row counts are public.)
    shares : dict by party, "common" or None
        Parts of the budget; the same noise for all; or by rule: the host's training has `HOST_SHARE` times what a PCA has.
    """
    exact = epsilon == math.inf
    by_party = {host: model.private_tasks(n_rows, task, exact=exact)}
    for name, learner in guests.items():
        by_party[name] = learner.private_tasks(rows[name], 1.0, exact, unsound)
    if isinstance(shares, Mapping):
        by_party = _shared(by_party, shares)
    elif shares not in (None, "common"):
        raise parameter_error("a plan", "budget_shares", "None, 'common' or a dict of parties to shares", shares)
    whole = sum(task.weight for own in by_party.values() for task in own)
    named = [replace(task, party=party, weight=task.weight / whole) for party, own in by_party.items() for task in own]
    return calibrate(named, epsilon, delta, accountant, division, shares == "common")


def _shared(by_party: Mapping[str, list[Task]], shares: Mapping[str, float]) -> dict[str, list[Task]]:
    """Give each party the share that is asked for; within a party, tasks keep their proportions."""
    unknown = [name for name in shares if name not in by_party] + [name for name in by_party if name not in shares]
    if unknown or not all(isinstance(share, int | float) and 0 < share < math.inf for share in shares.values()):
        wanted = f"a dict of every party ({', '.join(by_party)}) to a share above 0"
        raise parameter_error("a plan", "budget_shares", wanted, unknown[0] if unknown else dict(shares))
    given = {}
    for party, own in by_party.items():
        whole = sum(task.weight for task in own) or 1.0
        given[party] = [replace(task, weight=task.weight * shares[party] / whole) for task in own]
    return given
