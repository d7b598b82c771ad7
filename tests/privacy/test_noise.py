from __future__ import annotations

import copy
import math
import pickle
import secrets
import sys

import numpy as np
import pytest
from scipy import stats

from fedonce.errors import MissingPackageError
from fedonce.privacy.noise import POOL, SecretRandom

SIGMAS = 5  # of the estimate from so many numbers


def test_normals_are_standard_normal():
    count = 200_001
    values = SecretRandom(insecure_test_seed=0).normals(count)
    assert values.shape == (count,)
    assert abs(values.mean()) < SIGMAS / math.sqrt(count)
    assert abs(values.var() - 1) < SIGMAS * math.sqrt(2 / count)
    assert stats.kstest(values, "norm").pvalue > 1e-3


def test_the_two_halves_of_normals_are_independent():
    count = 100_000
    first, second = SecretRandom(insecure_test_seed=1).normals(2 * count).reshape(2, count)
    for power in (1, 2):  # the squares would show a radius that is not Rayleigh's
        assert abs(np.corrcoef(first**power, second**power)[0, 1]) < SIGMAS / math.sqrt(count)


@pytest.mark.parametrize("count", [0, 1, 2, 7, POOL // 4 + 1])
def test_as_many_numbers_as_asked_for(count):
    random = SecretRandom(insecure_test_seed=2)
    assert random.normals(count).shape == random.uniforms(count).shape == (count,)
    assert random.whole_normals(count, 3.0).shape == SecretRandom().whole_normals(count, 3.0).shape == (count,)


def test_uniforms_are_even_in_the_open_interval_and_used_once():
    random = SecretRandom(insecure_test_seed=3)
    values = np.concatenate([random.uniforms(count) for count in (5, 3000, POOL // 8, 20_000, 1)])
    assert values.min() > 0
    assert values.max() < 1
    assert len(np.unique(values)) == len(values)
    assert stats.kstest(values, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("raw", [b"\x00", b"\xff"])
def test_extreme_bytes_give_finite_normals(raw, monkeypatch):
    monkeypatch.setattr(secrets, "token_bytes", lambda count: raw * count)
    random = SecretRandom()
    assert 0 < random.uniforms(1)[0] < 1
    assert np.isfinite(random.normals(3)).all()


def test_rare_lengths_have_bits_of_their_own(monkeypatch):
    """Of 52 bits those of a rare, long pair would be few: its lengths would have gaps, and noise would miss whole numbers."""
    random = SecretRandom(insecure_test_seed=0)
    drawn = iter([np.full(1000, 0.5 * 2.0**-52), random.uniforms(1000), np.full(1000, 0.5 * 2.0**-52)])
    monkeypatch.setattr(random, "uniforms", lambda count: next(drawn))
    lengths = random.normals(2000)[:1000]
    assert lengths.min() > 8.4
    assert len(np.unique(lengths)) == 1000


@pytest.mark.parametrize("scale", [0.7, 5.0, 3.3 * 2**36])
def test_whole_normals_are_the_discrete_gaussian(scale):
    """Compared with its probabilities, and with the normal distribution where single numbers are rare."""
    count = 30_000
    values = SecretRandom().whole_normals(count, scale)
    assert values.dtype == np.int64
    if scale > 1000:
        assert stats.kstest(values / scale, "norm").pvalue > 1e-4
        assert abs(values.var() / scale**2 - 1) < SIGMAS * math.sqrt(2 / count)
        for bit in (0, 1, 20):
            assert abs((values >> bit & 1).mean() - 0.5) < SIGMAS * 0.5 / math.sqrt(count)
        return
    support = np.arange(-60, 61)
    chances = np.exp(-(support**2) / (2 * scale**2))
    chances /= chances.sum()
    expected = count * chances
    common = expected > 5
    counts = np.array([(values == each).sum() for each in support])
    assert ((counts - expected)[common] ** 2 / expected[common]).sum() < stats.chi2.isf(1e-4, common.sum())


def test_whole_normals_of_a_seed_repeat_and_others_do_not():
    first, second = (SecretRandom(insecure_test_seed=8).whole_normals(50, 2.0**36) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.intersect1d(*(SecretRandom().whole_normals(50, 2.0**36) for _ in range(2))).size


def test_without_opendp_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.measurements", None)
    with pytest.raises(MissingPackageError, match=r"needs opendp.*fedonce\[privacy\]"):
        SecretRandom().whole_normals(3, 5.0)


@pytest.mark.parametrize("rate", [0.01, 0.13, 0.9])
def test_rows_are_sampled_independently_at_the_rate(rate):
    n_rows, samples = 40, 10_000
    random = SecretRandom(insecure_test_seed=4)
    chosen = np.zeros((samples, n_rows), bool)
    for row in chosen:
        row[random.poisson_sample(n_rows, rate)] = True
    spread = math.sqrt(rate * (1 - rate) / samples)
    assert np.abs(chosen.mean(axis=0) - rate).max() < SIGMAS * spread
    both = (chosen[:, 1:] & chosen[:, :-1]).mean(axis=0)
    assert np.abs(both - rate**2).max() < SIGMAS * math.sqrt(rate**2 * (1 - rate**2) / samples)
    sizes = chosen.sum(axis=1)
    variance = n_rows * rate * (1 - rate)
    kurtosis = (1 - 6 * rate * (1 - rate)) / variance
    assert abs(sizes.var() / variance - 1) < SIGMAS * math.sqrt((2 + kurtosis) / samples)


@pytest.mark.parametrize(("n_rows", "rate"), [(1, 0.5), (100, 0.99), (100_000, 1e-4), (100_000, 0.3)])
def test_positions_increase_and_are_within_range(n_rows, rate):
    random = SecretRandom(insecure_test_seed=5)
    for _ in range(20):
        rows = random.poisson_sample(n_rows, rate)
        assert rows.dtype == np.intp
        assert (np.diff(rows) > 0).all()
        assert rows.size == 0 or (rows[0] >= 0 and rows[-1] < n_rows)


def test_a_rate_of_one_takes_all_rows_and_no_rows_give_none():
    random = SecretRandom(insecure_test_seed=6)
    np.testing.assert_array_equal(random.poisson_sample(9, 1.0), np.arange(9))
    assert random.poisson_sample(0, 0.5).size == 0


def test_a_sample_far_larger_than_expected_is_drawn_to_its_end(monkeypatch):
    random = SecretRandom(insecure_test_seed=7)
    monkeypatch.setattr(random, "uniforms", lambda count: np.full(count, 1 - 1e-12))  # every gap is one row
    np.testing.assert_array_equal(random.poisson_sample(1000, 0.01), np.arange(1000))


def test_a_seed_repeats_and_says_so():
    first, second = (SecretRandom(insecure_test_seed=8) for _ in range(2))
    assert first.insecure
    np.testing.assert_array_equal(first.normals(100), second.normals(100))


def test_without_a_seed_the_bytes_are_the_operating_system_s(monkeypatch):
    first, second = SecretRandom(), SecretRandom()
    assert not first.insecure
    assert not np.intersect1d(first.normals(100), second.normals(100)).size
    asked = []

    def token_bytes(count):
        asked.append(count)
        return bytes(range(8)) * (count // 8)

    monkeypatch.setattr(secrets, "token_bytes", token_bytes)
    random = SecretRandom()
    values = random.uniforms(3)
    assert asked == [POOL]
    raw = int.from_bytes(bytes(range(8)), "little")
    np.testing.assert_allclose(values, raw / 2**64, rtol=1e-12)
    random.uniforms(POOL)
    assert asked == [POOL, 8 * POOL]


def test_numpy_s_seed_does_not_matter():
    drawn = []
    for _ in range(2):
        np.random.seed(0)
        drawn.append(SecretRandom().normals(10))
    assert not np.intersect1d(*drawn).size


def test_noise_to_come_is_not_stored():
    random = SecretRandom()
    random.uniforms(1)  # leaves many in the pool
    for stored in (pickle.loads(pickle.dumps(random)), copy.deepcopy(random)):
        assert not stored._pool.size
        assert not np.intersect1d(stored.uniforms(100), random.uniforms(100)).size


def test_seeds_for_others_are_secret_and_differ():
    random = SecretRandom()
    seeds = {random.seed() for _ in range(100)}
    assert len(seeds) == 100
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert SecretRandom(3).seed() == SecretRandom(3).seed()
