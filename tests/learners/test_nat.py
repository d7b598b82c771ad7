from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fedonce.learners import NAT

CPU = torch.device("cpu")


def rows_of(n=500, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 5)).astype(np.float32)


def test_loss_falls_and_outputs_approach_the_sphere():
    nat = NAT(epochs=40, batch=50, rate=3e-3)
    history = nat.fit(rows_of(), 3, np.random.default_rng(0), CPU)
    assert history[-1]["loss"] < 0.3 * history[0]["loss"]
    norms = np.linalg.norm(nat.transform(rows_of(), CPU), axis=1)
    assert np.abs(norms - 1).mean() < 0.35


def test_losses_equal_the_plain_loop_with_uncentred_cost(by_hand, float64):
    x, expected = rows_of(300), []
    by_hand.learn_without_labels(torch.tensor(x).double(), 3, 11, "shop", epochs=4, history=expected)
    nat = NAT(epochs=4)
    history = nat.fit(x, 3, by_hand.generator(11, "shop"), CPU)
    np.testing.assert_allclose([line["loss"] for line in history], expected, rtol=1e-9)


def test_autograd_and_closed_form_agree(float64):
    """The user's own network goes through autograd; the same weights must learn the same."""
    x = rows_of(200)
    torch.manual_seed(0)
    own = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2), nn.Tanh())
    closed = NAT(network=own, epochs=3, batch=20)
    through_autograd = NAT(network=nn.Sequential(nn.Identity(), *own), epochs=3, batch=20)
    for nat in (closed, through_autograd):
        nat.fit(x, 2, np.random.default_rng(0), CPU)
    np.testing.assert_allclose(closed.transform(x, CPU), through_autograd.transform(x, CPU), atol=1e-6)


@pytest.mark.parametrize("every", [1, 3])
def test_targets_are_assigned_every_f_epochs(monkeypatch, every):
    from fedonce.learners import nat as module

    calls = []
    monkeypatch.setattr(module, "assign", lambda outputs, targets: (calls.append(1), np.arange(len(targets)))[1])
    NAT(epochs=6, batch=100, update_every=every).fit(rows_of(), 3, np.random.default_rng(0), CPU)
    assert len(calls) == 5 * 6 / every


def test_tables_end_in_tanh_and_images_do_not():
    assert isinstance(NAT().build((5,), 3)[-1], nn.Tanh)
    assert not isinstance(NAT().build((1, 8, 8), 3)[-1], nn.Tanh)
