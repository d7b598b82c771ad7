"""The code in the documentation runs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fedonce.learners import LEARNERS, make
from tests.conftest import ROOT, make_table

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "learners.md").read_text(), re.DOTALL)


@pytest.fixture
def learners_as_before():
    before = dict(LEARNERS)
    yield
    LEARNERS.clear()
    LEARNERS.update(before)


def last_expression(code: str):
    """Run a block of the documentation and return the estimator that its last statement makes."""
    start = code.rindex("FedOnceClassifier(")
    names: dict = {}
    exec(code[:start] + "model = " + code[start:], names)
    return names["model"]


def test_own_learner(learners_as_before):
    X, y = make_table()
    model = last_expression(BLOCKS[0]).set_params(host_epochs=1, random_state=0).fit(X, y)
    assert model.representations_["party2"].learner == "signs"
    learner = make("signs")
    learner.fit(X.astype(np.float32), 3, np.random.default_rng(0), None)
    restored = make("signs")
    restored.restore(learner.state())
    np.testing.assert_array_equal(restored.transform(X, None), learner.transform(X, None))


def test_own_network():
    X, y = make_table()
    model = last_expression(BLOCKS[1]).set_params(host_epochs=1, epochs=1, random_state=0).fit(X[:, :7], y)
    assert model.representations_["shop"].dim == 8


def test_messages_by_hand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = make_table()
    code = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "message.md").read_text(), re.DOTALL)[0]
    tables = {"shop_table": X[:, 4:], "bank_table": X[:, :4], "labels": y}
    tables |= {"new_shop_rows": X[:5, 4:], "new_bank_rows": X[:5, :4]}
    exec(code.replace('Host("bank")', 'Host("bank", epochs=1)'), tables)
    assert (tmp_path / "shop.fedonce").exists()
