from __future__ import annotations

import numpy as np

from fedonce.assess.attacks.base import Exposed
from fedonce.assess.mending import advice, remedy
from fedonce.data.table import Table


def test_advice_says_what_stays_readable_in_coarser_messages():
    X = np.random.default_rng(0).standard_normal((1500, 4))
    told = advice(Exposed(X, Table.of(X)))
    assert told[0].startswith("Readable with 1 % of the rows known, or none: 4 of 4 columns.")
    assert any("2 of 4 values (dim): 2 stay readable" in line for line in told)
    assert any("noise of 1 standard deviations (noise): none stays readable" in line for line in told)


def test_there_is_no_advice_where_nothing_is_readable():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 3))
    assert advice(Exposed(rng.standard_normal((800, 2)), Table.of(X))) == ()


def exposed(values, **more):
    return Exposed(values, Table.of(np.zeros((len(values), 2))), **more)


def test_a_remedy_is_one_that_the_message_leaves_open():
    fine = np.random.default_rng(0).standard_normal((300, 3))
    for name in ("dim", "bits", "bytes_per_row", "learner", "protect", "drop", "noise", "local_epsilon"):
        assert f"({name})" in remedy(exposed(fine))
    coarse = np.round(fine[:, :1])
    assert "(dim)" not in remedy(exposed(coarse))  # one value is the fewest
    assert "(bits)" not in remedy(exposed(coarse))
    assert "(bits)" not in remedy(exposed(fine, learner="cells"))  # cells have steps of their own
    numbers = remedy(exposed(coarse, learner="cells", protect="cells:20"))
    assert "(drop)" in numbers
    assert not any(f"({name})" in numbers for name in ("dim", "bits", "bytes_per_row", "noise", "learner", "protect"))
    assert "smaller epsilon" in remedy(exposed(fine, blurred="local_epsilon"))
    assert "in place of hints (protect)" in remedy(exposed(fine, learner="hinted"))
    assert "add more noise (noise)" in remedy(exposed(fine, blurred="noise"))


def test_what_is_tried_is_what_a_guest_could_send():
    rng = np.random.default_rng(0)
    steps = rng.integers(0, 16, (1500, 2)) / 4  # four bits already
    told = advice(Exposed(steps, Table.of(steps)))
    assert not any("4 bits" in line for line in told)
    assert any("2 bits each (bytes_per_row=0.5)" in line for line in told)
    assert not any("bits" in line for line in advice(Exposed(steps, Table.of(steps), learner="cells")))


def test_numbers_of_cells_are_not_rounded():
    numbers = np.repeat(np.arange(3.0), 400)[:, None]
    told = advice(Exposed(numbers, Table.of(numbers), learner="cells", protect="cells:20"))
    assert len(told) == 2
    assert "(drop)" in told[1]
