"""One budget for all parties: the plan, and what each party may spend of it."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import nn

from fedonce.data.preparation import Preparation
from fedonce.data.table import Table
from fedonce.hostmodels import HostModel
from fedonce.hostmodels.plan import plan as make_plan
from fedonce.learners import Learner
from fedonce.privacy.budget import Plan, Purse
from fedonce.privacy.dpsgd import check_clippable
from fedonce.privacy.settings import Privacy


def divide(
    privacy: Privacy,
    host: str,
    model: HostModel,
    task: str,
    guests: Mapping[str, Learner],
    rows: Mapping[str, int],
    owner: str,
) -> tuple[dict[str, Purse], Plan]:
    """Return a purse for each party that has rows, and the plan that they spend by.

    Parameters
    ----------
    model, task
        What the host trains, and for what: "classification" or "regression".
    guests : dict by guest
        How each guest learns.
    rows : dict by party
        How many rows each party has, the host included. (Row counts are public.)
    owner : str
        Who asks, for the error messages.
    """
    assert privacy.epsilon is not None
    taking = {name: learner for name, learner in guests.items() if rows[name]}
    shares = privacy.budget_shares
    if isinstance(shares, Mapping):  # whoever is absent spends nothing
        shares = {name: share for name, share in shares.items() if name not in guests or name in taking}
    plan = make_plan(
        host,
        model,
        task,
        rows[host],
        taking,
        {name: rows[name] for name in taking},
        float(privacy.epsilon),
        privacy.delta_for(rows[host], owner),
        privacy.accountant,
        privacy.division,
        shares,
        privacy.unsound_paper_reproduction,
    )
    ledger = plan.ledger()
    return {
        name: Purse(name, plan.of(name), ledger, privacy.random_of(name), privacy.clip) for name in (host, *taking)
    }, plan


def row_shape(preparation: Preparation, table: Table) -> tuple[int, ...]:
    """Return the shape of a party's prepared rows, from its bounds alone; raise where a bound is missing."""
    nothing = table.take(slice(0, 0))
    return copy.copy(preparation).fit(nothing).transform(nothing).shape[1:]


def check_network(preparation: Preparation, table: Table, learner: object) -> None:
    """Look for bounds, and for a guest's network that cannot be private, before anything is spent."""
    shape, network = row_shape(preparation, table), getattr(learner, "network", None)
    if isinstance(network, nn.Module):
        check_clippable(copy.deepcopy(network), [torch.zeros(1, *shape)], f"guest {preparation.party!r}")
