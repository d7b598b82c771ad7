"""Tests that a privacy claim could fail: of the learners' arithmetic, of their noise, of one training, and of released models.

Passing proves nothing: an audit finds faults, and a guarantee is a proof. What each test can and cannot see is said with it, and
how probably it would have seen half the planned noise.

1. `check_training`: two trainings with the same weights and the same coins, of which one lacks a row. Every sum that is about to
   be made noisy may differ by what the row itself may add, and by nothing where the row was not drawn. Exact; it finds NAT. Then
   the noise of each release (what was released, less the exact sum, over the planned scale) must be normal, samples must be
   Poisson samples, a simulation of what was seen must not cost more than the accountant says, and the bits of what was released
   (`check_bits`) must be as possible with a neighbouring sum.
2. `one_run`: many canaries, rows whose gradient lies in a coordinate of its own, are put into one training or not, by coin;
   how many coins can be guessed from what was released shows how much noise there was at most (Mahloujifar, Melis and Chaudhuri,
   2024).
3. `check_answers`: the mechanisms that answer for each row, of local epsilon and of hints: how often answers speak for the truth.
4. `membership`: who was in the training rows of a released model? By the loss, by the likelihood ratio of models that
   were trained with and without the row (Carlini et al., 2022), and by RMIA (Zarifzadeh et al., 2024).
"""

from __future__ import annotations

from fedonce.assess.audit.answers import check_answers
from fedonce.assess.audit.attacks import Membership, Model, membership
from fedonce.assess.audit.bits import Bits, check_bits, told_by_bits
from fedonce.assess.audit.canaries import OneRun, one_run
from fedonce.assess.audit.coupling import TOLERANCE, Checked, check_learner, check_training
from fedonce.assess.audit.measures import LEVEL, Measured, Train

PROVES_NOTHING = "Passing proves nothing: an audit can find that a claim is false, never that it is true."

__all__ = [
    "LEVEL",
    "PROVES_NOTHING",
    "TOLERANCE",
    "Bits",
    "Checked",
    "Measured",
    "Membership",
    "Model",
    "OneRun",
    "Train",
    "check_answers",
    "check_bits",
    "check_learner",
    "check_training",
    "membership",
    "one_run",
    "told_by_bits",
]
