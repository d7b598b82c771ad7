from __future__ import annotations

import numpy as np
import pytest
import torch

from fedonce.training.losses import LabelLoss, SquaredDistance

N = 40


def stated():
    rng = np.random.default_rng(0)
    return {
        "squared distance": (SquaredDistance(), torch.from_numpy(rng.standard_normal((N, 3)))),
        "classes": (LabelLoss(), torch.from_numpy(rng.integers(0, 3, N))),
        "smoothed classes": (LabelLoss(0.3), torch.from_numpy(rng.integers(0, 3, N))),
        "numbers": (LabelLoss(), torch.from_numpy(rng.standard_normal(N))),
    }


def outputs(targets):
    width = 1 if targets.ndim == 1 and targets.is_floating_point() else 3
    return torch.from_numpy(5 * np.random.default_rng(1).standard_normal((N, width)))


@pytest.mark.parametrize("name", stated())
def test_slopes_and_total_are_those_of_autograd(name):
    loss, targets = stated()[name]
    raw = outputs(targets).requires_grad_()
    losses = loss.rows(raw, targets)
    losses.sum().backward()
    slopes, total = loss.slopes(raw.detach().numpy(), targets.numpy())
    np.testing.assert_allclose(slopes, raw.grad.numpy(), rtol=1e-10, atol=1e-12)
    assert total == pytest.approx(losses.sum().item())


@pytest.mark.parametrize("name", stated())
def test_the_mean_is_that_of_rows_and_one_row_s_is_its_own(name):
    loss, targets = stated()[name]
    raw = outputs(targets)
    losses = loss.rows(raw, targets)
    assert losses.shape == (N,)
    torch.testing.assert_close(loss.mean(raw, targets), losses.mean())
    torch.testing.assert_close(loss.mean(raw[3:4], targets[3:4]), losses[3])
    weight = torch.linspace(0, 2, N, dtype=torch.float64)
    torch.testing.assert_close(loss.mean(raw, targets, weight), (losses * weight).mean())


@pytest.mark.parametrize("name", stated())
def test_no_rows(name):
    loss, targets = stated()[name]
    slopes, total = loss.slopes(outputs(targets).numpy()[:0], targets.numpy()[:0])
    assert (len(slopes), total) == (0, 0.0)
