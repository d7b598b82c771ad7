"""Guests that lack many of the host's rows: a second network does without them, and trial says which to trust where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from fedonce.hostmodels.base import Examples
from fedonce.hostmodels.length import MANY_ROWS
from fedonce.hostmodels.network import Train
from fedonce.hostmodels.recipe import Recipe
from fedonce.training.loop import Rows
from fedonce.training.losses import LabelLoss

ENOUGH_OVERLAP = 0.9  # a guest with fewer of the host's rows is also done without, by a second model
TRUSTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # in the model with such guests
LEAST_HELD = 20  # rows on which trust can be tried


class ByOverlap(nn.Module):
    """Two models, where some guests lack many rows: one with those guests and one without them, and how much each is trusted.

    One model alone would learn to do without such a guest from few rows, and with it from few others. `trust` is that in the
    model with all guests, on rows that none of the partial guests has, and on rows that one of them has.
    """

    def __init__(self, without: nn.Module, with_all: nn.Module, partial: Sequence[bool]) -> None:
        super().__init__()
        self.without, self.with_all = without, with_all
        self.partial: Tensor
        self.trust: Tensor
        self.register_buffer("partial", torch.tensor([float(each) for each in partial]), persistent=False)
        self.register_buffer("trust", torch.tensor([0.0, 1.0]))

    def forward(self, own: Tensor, values: Tensor, present: Tensor) -> Tensor:
        """Mix what both models give."""
        with_all, without, has = self.both(own, values, present)
        trust = torch.where(has, self.trust[1], self.trust[0]).to(with_all.dtype)
        return trust * with_all + (1 - trust) * without

    def both(self, own: Tensor, values: Tensor, present: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what the model with all guests gives, what the other gives, and which rows a partial guest has."""
        partial = self.partial.to(present.dtype)
        has = (present * partial).amax(dim=1, keepdim=True) > 0
        return self.with_all(own, values, present), self.without(own, values, present * (1 - partial)), has

    @torch.no_grad()
    def choose_trust(self, rest: Examples) -> None:
        """Choose by rows that neither model was trained on."""
        arrays = (rest.own, rest.values, rest.present)
        with_all, without, has = self.eval().both(*(torch.from_numpy(array).to(self.trust.dtype) for array in arrays))
        target = torch.from_numpy(rest.target)
        weight = None if rest.weight is None else torch.from_numpy(rest.weight)
        counts = torch.ones(len(target), dtype=torch.bool) if weight is None else weight > 0
        for regime, rows in enumerate((~has[:, 0] & counts, has[:, 0] & counts)):
            if int(rows.sum()) >= LEAST_HELD:
                own = None if weight is None else weight[rows]
                losses = [
                    float(LabelLoss().mean(trust * with_all[rows] + (1 - trust) * without[rows], target[rows], own))
                    for trust in TRUSTS
                ]
                self.trust[regime] = TRUSTS[int(np.argmin(losses))]


def partial_guests(present: Rows) -> tuple[bool, ...]:
    """Tell which guests lack so many of the training rows that a model without them pays."""
    return tuple(bool(0 < share < ENOUGH_OVERLAP) for share in present.mean(axis=0, dtype=np.float64))


def with_and_without(
    examples: Examples, with_all: nn.Module, recipe: Recipe, train: Train, rng: np.random.Generator
) -> ByOverlap:
    """Add a model without the partial guests; with tables that are not too large, try how much each is to be trusted."""
    partial = partial_guests(examples.present)

    def without(part: Examples) -> Examples:
        return replace(part, present=part.present * ~np.array(partial))

    both = ByOverlap(train(without(examples), recipe, rng)[0], with_all, partial)
    if len(examples.own) < MANY_ROWS:
        held, kept = np.split(rng.permutation(len(examples.own)), [len(examples.own) // 6])
        part, one = examples.take(kept), replace(recipe, members=1)
        trial = ByOverlap(train(without(part), one, rng)[0], train(part, one, rng)[0], partial)
        trial.choose_trust(examples.take(held))
        both.trust.copy_(trial.trust)
    return both
