"""Tests that a privacy claim could fail: of the learners' arithmetic, of one training, and of released models.

Passing proves nothing: an audit finds faults, and a guarantee is a proof. What each test can and cannot see is said with it.

1. `coupled_check`: two trainings with the same weights and the same coins, of which one lacks a row. Every sum that is about to
   be made noisy may differ by what the row itself may add, and by nothing where the row was not drawn. Exact; it finds NAT.
2. `one_run`: many canaries, rows whose gradient lies in a coordinate of its own, are put into one training or not, by coin;
   how many coins can be guessed from what was released bounds epsilon from below (Steinke, Nasr and Jagielski, 2023).
3. `membership`: who was in the training rows of a released model? By the loss, by the likelihood ratio of models that
   were trained with and without the row (Carlini et al., 2022), and by RMIA (Zarifzadeh et al., 2024).
4. `check_bits`: could a neighbouring sum have made the very bits that were released? A float with noise on it can tell.
5. `told_labels`: labels are drawn by coin and hinted at; how many can be told, from the hints themselves or from an encoder that
   was trained on them, bounds the label epsilon of hints from below.
"""

from __future__ import annotations

from fedonce.assess.audit.attacks import Membership, Model, membership
from fedonce.assess.audit.bits import Bits, check_bits, told_by_bits
from fedonce.assess.audit.canaries import (
    OneRun,
    best_guesses,
    count_correct,
    epsilon_bound,
    gaussian_strength,
    one_run,
    p_value,
)
from fedonce.assess.audit.coupling import TOLERANCE, Coupled, Train, check_learner, coupled_check
from fedonce.assess.audit.hints import ToldLabels, told_labels

PROVES_NOTHING = "Passing proves nothing: an audit can find that a claim is false, never that it is true."

__all__ = [
    "PROVES_NOTHING",
    "TOLERANCE",
    "Bits",
    "Coupled",
    "Membership",
    "Model",
    "OneRun",
    "ToldLabels",
    "Train",
    "best_guesses",
    "check_bits",
    "check_learner",
    "count_correct",
    "coupled_check",
    "epsilon_bound",
    "gaussian_strength",
    "membership",
    "one_run",
    "p_value",
    "told_by_bits",
    "told_labels",
]
