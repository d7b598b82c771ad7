"""Rows, purses, and purses that use too little noise behind the back of their plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedonce.privacy.budget import Purse, calibrate
from fedonce.privacy.noise import SecretRandom


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return np.clip(rng.normal(size=(n, 8)) @ rng.normal(size=(8, 8)) * 0.3, -1, 1).astype(np.float32)


def one_purse(tasks, epsilon=2.0, delta=1e-5):
    plan = calibrate([replace(task, party="audited") for task in tasks], epsilon, delta, "rdp")
    return Purse("audited", plan.of("audited"), plan.ledger(), SecretRandom())


def weaken(monkeypatch, factor, only=None):
    """Let every purse use this much of the planned noise, for one line or for all."""
    take = Purse.take

    def weaker(purse, what, kind):
        entry = take(purse, what, kind)
        if only not in (None, what) or entry.event is None:
            return entry
        return replace(entry, event=replace(entry.event, noise=entry.event.noise * factor))

    monkeypatch.setattr(Purse, "take", weaker)
