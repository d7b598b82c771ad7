"""Who holds a released model tells which rows it was trained on: the audit's attacks, as findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedonce.assess.attacks.base import Attack, Exposed, Finding, share_interval
from fedonce.assess.attacks.names import ATTACKS, Facts
from fedonce.assess.audit.attacks import membership


@dataclass(frozen=True)
class MembershipOfModel(Attack):
    """Count the members that are found at a low rate of others that are taken for members.

    Parameters
    ----------
    models : int
        How many models are trained, each on half of the rows; each serves the attacks on the others.
    false_rate : float
        The share of rows that were not trained on and may be taken for members.
    """

    name: ClassVar[str] = "membership"
    facts: ClassVar[Facts] = ATTACKS.built_in["membership"].facts

    models: int = 16
    false_rate: float = 0.01

    def run(self, exposed: Exposed, rng: np.random.Generator) -> Sequence[Finding]:
        """Attack by each way; the control are the rows that a model was not trained on."""
        assert exposed.train is not None
        seed = int(rng.integers(2**31))
        found = membership("model", exposed.train, exposed.n_rows, models=self.models, seed=seed)
        members = self.models * exposed.n_rows // 2
        findings = []
        for way in found.curves:
            score = found.caught(way, self.false_rate)
            note = f"members found where {100 * self.false_rate:g} % of others are taken for members; area {found.area(way):.3f}"
            interval = share_interval(score, members)
            rate = self.false_rate
            findings.append(
                Finding(self.name, None, "member", score, rate, rate, *interval, members, way=way, note=note)
            )
        return findings
