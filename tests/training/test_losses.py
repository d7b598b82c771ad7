from __future__ import annotations

import numpy as np
import pytest
import torch

from fedonce.privacy.response import answers, matrix
from fedonce.training.losses import HintLoss, LabelLoss, SquaredDistance

N = 40


def stated():
    rng = np.random.default_rng(0)
    return {
        "squared distance": (SquaredDistance(), torch.from_numpy(rng.standard_normal((N, 3)))),
        "classes": (LabelLoss(), torch.from_numpy(rng.integers(0, 3, N))),
        "smoothed classes": (LabelLoss(0.3), torch.from_numpy(rng.integers(0, 3, N))),
        "hints": (HintLoss(matrix(3, 1.0)), torch.from_numpy(rng.integers(0, 3, N))),
        "labels as they are": (HintLoss(matrix(3, np.inf)), torch.from_numpy(rng.integers(0, 3, N))),
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


def test_hints_of_infinite_epsilon_are_labels():
    raw = torch.from_numpy(5 * np.random.default_rng(1).standard_normal((N, 4)))
    targets = torch.from_numpy(np.random.default_rng(2).integers(0, 4, N))
    told, labels = HintLoss(matrix(4, np.inf)), LabelLoss()
    torch.testing.assert_close(told.rows(raw, targets), labels.rows(raw, targets))
    for one, other in zip(
        told.slopes(raw.numpy(), targets.numpy()), labels.slopes(raw.numpy(), targets.numpy()), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_loss_of_hints_is_least_where_the_true_classes_are(epsilon):
    """Summed by how probable each answer is, slopes are none at the true chances, and no others have less loss."""
    truth, told = np.array([0.6, 0.3, 0.1]), matrix(3, epsilon)
    loss, chances = HintLoss(told), truth @ told

    def expected(held):
        outputs = np.log(np.tile(held, (3, 1)))
        rows = loss.rows(torch.from_numpy(outputs), torch.arange(3)).numpy()
        return float(chances @ rows), chances @ loss.slopes(outputs, np.arange(3))[0]

    least, slopes = expected(truth)
    np.testing.assert_allclose(slopes, 0, atol=1e-12)
    for other in ([0.5, 0.4, 0.1], [0.65, 0.3, 0.05], [1 / 3] * 3, chances):
        assert expected(np.array(other))[0] > least


def test_outputs_that_are_fitted_to_hints_are_those_of_the_truth():
    truth, n = np.array([0.6, 0.3, 0.1]), 200_000
    rng = np.random.default_rng(0)
    told = torch.from_numpy(answers(rng.choice(3, n, p=truth), 3, 1.0, rng.random((n, 2))))
    counts = torch.bincount(told, minlength=3).to(torch.float64) / n
    outputs = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    loss, steps = HintLoss(matrix(3, 1.0)), torch.optim.LBFGS([outputs], max_iter=200)

    def closure():
        steps.zero_grad()
        total = (counts * loss.rows(outputs.expand(3, 3), torch.arange(3))).sum()
        total.backward()
        return total

    steps.step(closure)
    np.testing.assert_allclose(torch.softmax(outputs[0], 0).detach().numpy(), truth, atol=0.01)


def test_a_row_that_is_far_off_still_has_a_slope():
    loss, far = HintLoss(matrix(2, np.inf)), np.array([[200.0, 0.0]], np.float32)
    raw = torch.from_numpy(far).requires_grad_()
    loss.rows(raw, torch.tensor([1])).sum().backward()
    np.testing.assert_allclose(raw.grad.numpy(), [[1.0, -1.0]])
    slopes, total = loss.slopes(far, np.array([1]))
    assert (slopes.tolist(), total) == ([[1.0, -1.0]], 200.0)


def test_numbers_of_half_the_length_are_summed_in_full():
    """As a network gives them that is trained in mixed precision."""
    rng = np.random.default_rng(0)
    outputs, answers = torch.from_numpy(rng.standard_normal((50, 3))), torch.from_numpy(rng.integers(0, 3, 50))
    short = outputs.to(torch.bfloat16)
    loss = HintLoss(matrix(3, 1.0))
    found = loss.rows(short, answers)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, loss.rows(short.float(), answers))
