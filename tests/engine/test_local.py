from __future__ import annotations

import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor

from fedonce import Guest
from fedonce.data.table import Table
from fedonce.engine.local import LocalEngine
from tests.conftest import as_sent, make_table


def engine(names, n_jobs=None, learner="nat", present=None):
    X, _ = make_table()
    columns = {"shop": [0, 1, 2], "telco": [3, 4, 5], "post": [6, 7]}
    guests = {name: Guest(name, learner, 2, 8, epochs=3, random_state=5) for name in names}
    return LocalEngine(guests, {name: Table.of(X[:, columns[name]]) for name in names}, present or {}, n_jobs)


@pytest.mark.parametrize("learner", ["nat", "autoencoder", "pca", "random"])
def test_guests_are_independent_to_the_bit(learner):
    everyone = as_sent(engine(["shop", "telco", "post"], learner=learner).learn())
    for names in (["post", "shop", "telco"], ["telco", "shop"], ["shop"]):
        fewer = as_sent(engine(names, learner=learner).learn())
        assert all(fewer[name] == everyone[name] for name in names)


def test_processes_give_the_same_messages():
    try:
        side_by_side = engine(["shop", "telco"], n_jobs=2)
        assert as_sent(side_by_side.learn()) == as_sent(engine(["shop", "telco"]).learn())
        assert side_by_side.represent().keys() == {"shop", "telco"}  # the fitted guests came back
    finally:
        get_reusable_executor().shutdown(wait=True)


def test_a_guest_sees_only_the_rows_that_it_has():
    mask = np.arange(300) % 3 == 0
    absent = engine(["shop", "telco"], present={"shop": mask, "telco": np.zeros(300, bool)})
    messages = absent.learn()
    assert list(messages) == ["shop"]
    X, _ = make_table()
    alone = Guest("shop", "nat", 2, 8, epochs=3, random_state=5).learn(X[mask][:, [0, 1, 2]], mask)
    assert as_sent(messages)["shop"] == alone.to_bytes()
    assert list(absent.represent()) == ["shop"]
