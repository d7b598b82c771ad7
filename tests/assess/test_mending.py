from __future__ import annotations

import numpy as np

from fedonce.assess.attacks.base import Exposed
from fedonce.assess.mending import advice
from fedonce.data.table import Table


def test_advice_says_what_stays_readable_in_coarser_messages():
    X = np.random.default_rng(0).standard_normal((1500, 4))
    told = advice(Exposed(X, Table.of(X)))
    assert told[0].startswith("Readable by who knows 1 % of the rows or none: 4 of 4 columns.")
    assert any("2 of 4 values (dim): 2 stay readable" in line for line in told)
    assert any("noise of 1 standard deviations (noise): none stays readable" in line for line in told)


def test_there_is_no_advice_where_nothing_is_readable():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 3))
    assert advice(Exposed(rng.standard_normal((800, 2)), Table.of(X))) == ()
