from __future__ import annotations

import numpy as np
import pytest

from fedonce import Guest
from fedonce.privacy import LocalNoise
from tests.conftest import make_table


def test_rows_are_clipped_to_the_unit_ball(rng):
    values = rng.standard_normal((1000, 5)).astype(np.float32) * 7 + 3
    noise = LocalNoise(0.5)
    noise.fit(values)
    norms = np.linalg.norm(noise.clip(values), axis=1)
    assert norms.max() <= 1 + 1e-6
    assert np.mean(norms < 0.999) == pytest.approx(0.95, abs=0.01)
    far = np.full((1, 5), 1e6, np.float32)
    assert np.linalg.norm(noise.clip(far)) == pytest.approx(1)


def test_noise_has_its_scale_and_is_drawn_anew(rng):
    values = rng.standard_normal((20_000, 3)).astype(np.float32)
    noise = LocalNoise(1.5)
    noise.fit(values)
    first, second = (noise.blur(values) - noise.clip(values) for _ in range(2))
    assert first.std() == pytest.approx(1.5, rel=0.02)
    assert first.mean() == pytest.approx(0, abs=0.05)
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.05


def test_values_that_do_not_vary_stay_finite():
    noise = LocalNoise(0.1)
    noise.fit(np.ones((10, 2), np.float32))
    assert np.isfinite(noise.blur(np.ones((4, 2), np.float32))).all()


@pytest.mark.parametrize("bits", [32, 8])
def test_a_guest_blurs_what_it_sends_at_training_and_at_prediction(bits):
    X, _ = make_table(2000)
    quiet, noisy = (Guest("shop", "pca", 3, bits, noise=scale) for scale in (0.0, 1.0))
    for send in ("learn", "represent"):
        plain, blurred = (getattr(guest, send)(X[:, :4]) for guest in (quiet, noisy))
        clipped = noisy.noise.clip(plain.values)
        assert (plain.noise, blurred.noise) == (0.0, 1.0)
        assert (blurred.values - clipped).std() == pytest.approx(1.0, rel=0.06)
