"""A temperature for all logits, and how far confidence and accuracy are apart."""

from __future__ import annotations

import numpy as np
import pytest

from fedonce.hostmodels.calibration import calibration_error, crossfitted, helps, log_losses, temperature
from fedonce.hostmodels.holding import chances


def rows(n=4000, seed=0, sharpness=1.0):
    """Logits, and classes drawn from the probabilities of those logits divided by their sharpness."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((n, 3)) * 1.5
    target = (chances(logits).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return logits * sharpness, np.minimum(target, 2)


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 4.0])
def test_the_temperature_is_how_much_too_sure_logits_are(sharpness):
    logits, target = rows(sharpness=sharpness)
    assert temperature(logits, target) == pytest.approx(sharpness, rel=0.1)


def test_it_lowers_the_loss_of_fresh_rows():
    found = temperature(*rows(sharpness=4.0))
    assert found > 1
    logits, target = rows(seed=1, sharpness=4.0)
    assert log_losses(logits / found, target).mean() < log_losses(logits, target).mean() - 0.1
    np.testing.assert_array_equal((logits / found).argmax(axis=1), logits.argmax(axis=1))


def test_it_helps_where_logits_are_too_sure_and_not_where_they_are_right():
    assert helps(*rows(sharpness=4.0))
    assert helps(*rows(sharpness=0.3))
    assert sum(helps(*rows(n=500, seed=seed)) for seed in range(10)) <= 3
    logits, target = rows(n=29, sharpness=50.0)
    assert not helps(logits, target)  # too few to tell


def test_rows_count_by_their_weight():
    (sure, first), (right, second) = rows(sharpness=4.0), rows(seed=1)
    logits, target = np.concatenate([sure, right]), np.concatenate([first, second])
    weight = np.repeat([0.0, 2.0], 4000)
    assert temperature(logits, target, weight) == pytest.approx(1, rel=0.1)
    assert temperature(logits, target, weight[::-1]) == pytest.approx(4, rel=0.1)
    nothing = np.zeros(8000)
    assert temperature(logits, target, nothing) == temperature(logits, target)
    assert calibration_error(chances(logits), target, nothing) == calibration_error(chances(logits), target)


def test_each_half_gets_the_temperature_of_the_other():
    logits, target = rows(sharpness=4.0)
    scale = (logits / crossfitted(logits, target))[:, 0]
    assert len(np.unique(scale.round(6))) == 2
    assert scale == pytest.approx(4, rel=0.15)
    assert logits[0, 0] == rows(sharpness=4.0)[0][0, 0]  # what was given stays


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_very_few_rows(n):
    logits, target = np.arange(2.0 * n).reshape(n, 2), np.arange(n) % 2
    assert crossfitted(logits, target).shape == (n, 2)
    assert np.isfinite(crossfitted(logits, target)).all()
    assert 0 < temperature(logits, target) < 100
    assert not helps(logits, target)
    assert 0 <= calibration_error(chances(logits) if n else logits, target) <= 1


def test_a_calibration_error_by_hand():
    probabilities = np.array([[0.9, 0.1]] * 10 + [[0.4, 0.6]] * 10)
    target = np.array([0] * 8 + [1] * 2 + [1] * 6 + [0] * 4)
    assert calibration_error(probabilities, target) == pytest.approx(0.05)  # 0.9 is right 8 times of 10, 0.6 6 times
    weight = np.repeat([2.0, 0.0], 10)
    assert calibration_error(probabilities, target, weight) == pytest.approx(0.1)
    assert calibration_error(np.array([[1.0, 0.0]]), np.array([1])) == 1
