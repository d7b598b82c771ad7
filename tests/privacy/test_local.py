from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedonce import Guest
from fedonce.data.table import Table
from fedonce.privacy import LocalNoise
from fedonce.privacy.local import FINE
from fedonce.rows.ids import Naming
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


def test_noise_has_its_scale_and_is_new_every_time(rng):
    values = rng.standard_normal((20_000, 3)).astype(np.float32)
    noise = LocalNoise(1.5)
    noise.fit(values)
    first, second = (noise.noisy(values, None, "") - noise.clip(values) for _ in range(2))
    assert first.std() == pytest.approx(1.5, rel=0.02)
    assert first.mean() == pytest.approx(0, abs=0.05)
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.05


def test_values_that_do_not_vary_stay_finite():
    noise = LocalNoise(0.1)
    noise.fit(np.ones((10, 2), np.float32))
    assert np.isfinite(noise.noisy(np.ones((4, 2), np.float32), None, "")).all()


@pytest.mark.parametrize("bits", [32, 8])
def test_a_guest_blurs_what_it_sends_at_training_and_at_prediction(bits):
    X, _ = make_table(2000)
    quiet, noisy = (Guest("shop", "pca", 3, bits, noise=scale) for scale in (0.0, 1.0))
    for send in ("learn", "represent"):
        plain, blurred = (getattr(guest, send)(X[:, :4]) for guest in (quiet, noisy))
        clipped = noisy.noise.clip(plain.values)
        assert (plain.noise, blurred.noise) == (0.0, 1.0)
        assert (blurred.values - clipped).std() == pytest.approx(1.0, rel=0.06)


def keyed(values, scale=1.0):
    noise = LocalNoise(scale, key=b"k" * 32)
    noise.fit(values)
    return noise


def names_of(n):
    return [f"row {i}" for i in range(n)]


def test_with_a_key_a_row_has_the_same_noise_in_any_message(rng, monkeypatch):
    monkeypatch.setattr("fedonce.privacy.local.BLOCK", 700)
    values = rng.standard_normal((2000, 3)).astype(np.float32)
    noise, names = keyed(values, 1.5), names_of(2000)
    first = noise.noisy(values, names, "model")
    some = np.array([1500, 3, 900])
    again = noise.noisy(values[some], [names[i] for i in some], "model")
    np.testing.assert_array_equal(again, first[some])
    drawn = first - noise.clip(values)
    assert drawn.std() == pytest.approx(1.5, rel=0.05)
    assert np.abs(np.corrcoef(drawn.T) - np.eye(3)).max() < 0.1


def test_what_is_sent_lies_on_a_grid_that_no_row_decides(rng):
    values = rng.standard_normal((500, 2)).astype(np.float32)
    noise = keyed(values, 0.5)
    for rows in (None, names_of(500)):
        steps = noise.noisy(values, rows, "model").astype(np.float64) * FINE / 0.5
        np.testing.assert_allclose(steps, np.rint(steps), atol=1e-4)


def test_values_that_round_to_the_same_get_the_same(rng):
    """Columns that hardly matter cannot be changed from message to message to have the noise drawn again."""
    values = rng.standard_normal((500, 2)).astype(np.float32)
    noise, names = keyed(values), names_of(500)
    moved = values + np.float32(1e-6)
    same = (noise.noisy(values, names, "model") == noise.noisy(moved, names, "model")).all(axis=1)
    assert same.mean() > 0.99


@pytest.mark.parametrize(
    "change", [{"scale": 1.001}, {"radius": 0.9}, {"centre": np.ones(3, np.float32)}, {"key": b"j" * 32}, {}]
)
def test_another_scale_centre_or_model_has_noise_of_its_own(rng, change):
    """The same noise, scaled otherwise, could be solved for."""
    values = rng.standard_normal((2000, 3)).astype(np.float32)
    noise, names = keyed(values), names_of(2000)
    other = replace(noise, **change)
    drawn = [
        (each.noisy(values, names, model) - each.clip(values)).ravel()
        for each, model in ((noise, "model"), (other, "model" if change else "another"))
    ]
    assert abs(np.corrcoef(*drawn)[0, 1]) < 0.1


def test_a_row_that_changes_shows_neither_the_change_nor_by_averaging_the_rest(rng):
    values = (rng.standard_normal((2000, 2)) / 3).astype(np.float32)
    noise, names = keyed(values), names_of(2000)
    shifts = [np.float32([[night / 100, 0]]) for night in range(50)]
    nights = [noise.noisy(values + shift, names, "model") - noise.clip(values + shift) for shift in shifts]
    assert (nights[49] - nights[0]).std() == pytest.approx(1.0, rel=0.05)
    assert np.mean(nights, axis=0).std() > np.sqrt(0.5) * 0.95


def test_a_guest_with_a_key_gives_a_row_the_same_noise_alone_and_in_company():
    X, _ = make_table(300)
    own = replace(Table.of(X), ids=np.array([f"k{i}" for i in range(300)], dtype=object))

    def guest(seed):
        return Guest("shop", "autoencoder", 3, 32, epochs=2, noise=1.0, random_state=seed, naming=Naming("hashed"))

    first, key = guest(0), b"k" * 32
    learnt, alone = first.learn(own, noise_key=key), first.represent(own.take(np.array([17])))
    place = np.flatnonzero((learnt.ids == alone.ids[0]).all(axis=1))
    np.testing.assert_array_equal(alone.values, learnt.values[place])
    other = guest(1).learn(own, noise_key=key)
    assert abs(np.corrcoef(other.values.ravel(), learnt.values.ravel())[0, 1]) < 0.3
