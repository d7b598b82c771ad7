from __future__ import annotations

import numpy as np

from fedonce.assess.attacks.base import Exposed
from fedonce.assess.attacks.membership import MembershipOfModel
from fedonce.data.table import Table


def attacked(remembered):
    """Attack models that give rows they were trained on a higher probability, by so much."""
    rng = np.random.default_rng(0)
    hard = rng.normal(1.0, 2.0, 200)

    def train(members):
        inside = np.zeros(200)
        inside[members] = remembered
        return 1 / (1 + np.exp(-(hard + inside + 0.3 * rng.standard_normal(200))))

    exposed = Exposed(np.zeros((200, 1)), Table.of(np.zeros((200, 1))), train=train)
    return {each.way: each for each in MembershipOfModel().run(exposed, np.random.default_rng(0))}


def test_what_a_model_remembers_is_found_at_a_low_rate_of_false_alarms():
    found = attacked(1.5)
    assert set(found) == {"loss", "likelihood ratio", "RMIA"}
    assert found["RMIA"].score > 0.3
    assert found["likelihood ratio"].score > 0.3
    assert found["loss"].score < 0.2  # rows differ more among themselves than by what is remembered
    assert found["RMIA"].guess == 0.01


def test_a_model_that_remembers_nothing_gives_nothing_away():
    assert all(each.score < 0.05 for each in attacked(0.0).values())
