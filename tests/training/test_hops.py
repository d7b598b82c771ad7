"""How deep the code is between `fit` of an estimator and one training step: every function of ours on the way counts."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import fedonce
from fedonce import FedOnceClassifier
from fedonce.learners import NAT
from fedonce.training.closedform import FlatAdam
from fedonce.training.settings import TorchUpdate

OURS = Path(fedonce.__file__).parent
MOST = 8


def path_to_here() -> list[str]:
    """Return our functions that are under way, from the outermost to the one that called the test's."""
    frame, names = sys._getframe(2), []
    while frame is not None:
        if OURS in Path(frame.f_code.co_filename).parents:
            names.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}")
        frame = frame.f_back
    return names[::-1]


@pytest.mark.parametrize(("update", "who"), [(FlatAdam, "nat.fit"), (TorchUpdate, "network.train")])
def test_from_fit_to_a_step(monkeypatch, update, who):
    """The loop calls a step and then the update, so that both are equally deep."""
    paths, call = [], update.__call__

    def noted(self, rate):
        paths.append(path_to_here())
        call(self, rate)

    monkeypatch.setattr(update, "__call__", noted)
    X = np.random.default_rng(0).standard_normal((60, 4))
    FedOnceClassifier(2, learner=NAT(epochs=1), host_epochs=1, random_state=0).fit(X, X[:, 0] > 0)
    path = [*paths[0], "step"]
    assert path[0].endswith(".fit")
    assert who in path
    assert len(path) <= MOST, " > ".join(path)
