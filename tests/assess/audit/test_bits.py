from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from fedonce.assess.audit import Bits, check_bits, told_by_bits
from fedonce.learners import PCA, Autoencoder
from fedonce.privacy import grid
from fedonce.privacy.budget import Purse, calibrate
from fedonce.privacy.noise import SecretRandom


def rows(n=200, width=12):
    return np.random.default_rng(0).choice([-1.0, 1.0], size=(n, width)).astype(np.float32)


def spending(learner, n, kind=Purse):
    tasks = [replace(task, party="audited") for task in learner.private_tasks(n, 1.0)]
    plan = calibrate(tasks, 0.5, 1e-5, "rdp")
    return kind("audited", plan.of("audited"), plan.ledger(), SecretRandom())


def training(learner):
    def train(own, purse):
        learner.fit_private(own, 3, np.random.default_rng(0), torch.device("cpu"), purse)

    return train


class Float(SecretRandom):
    """Noise as it was before whole numbers: Box and Muller's, in floats."""

    def float_normals(self, count):
        half = (count + 1) // 2
        radius, angle = np.sqrt(-2 * np.log(self.uniforms(half))), 2 * np.pi * self.uniforms(half)
        return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]


@dataclass
class FloatPurse(Purse):
    """The release as it was before whole numbers: a float sum plus float noise."""

    def release(self, what, total, sensitivity):
        entry = self.take(what, object)
        scale = entry.event.noise * sensitivity
        released = total + scale * Float().float_normals(total.size).reshape(total.shape)
        self.witness(what, total.astype(np.float64), released, scale)
        return released


@pytest.mark.parametrize("learner", [PCA(), Autoencoder(hidden=(8,), epochs=2, private_batch=50)])
def test_bits_of_private_learners_tell_nothing(learner):
    found = check_bits(learner.name, training(learner), rows(), spending(learner, 200))
    assert found.passed
    assert found.numbers > 200


def test_float_noise_is_told_by_its_bits():
    found = check_bits("pca", training(PCA()), rows(), spending(PCA(), 200, FloatPurse))
    assert not found.passed
    assert found.told > 40
    assert found.off_grid > 200


def test_float_noise_tells_one_flag_of_one_person():
    data, noise, told = rows(1000), Float(insecure_test_seed=0), 0
    other = data.copy()
    other[0, 0] *= -1
    sums = data.sum(axis=0, dtype=np.float64), other.sum(axis=0, dtype=np.float64)
    for run in range(40):
        released = sums[run % 2] + 77 * noise.float_normals(12)
        told += told_by_bits("sum", released, sums, 77.0).told
    assert 28 < told <= 40  # one pair of a run has sums that differ; now and then both can have made it


def test_what_a_purse_returns_is_as_possible_with_either_sum():
    data = rows(1000)
    other = data.copy()
    other[0, 0] *= -1
    sums = [grid.whole_rows(each.astype(float), np.sqrt(12)).sum(axis=0).astype(np.int64) for each in (data, other)]
    purse = spending(PCA(), 1000)
    scale = purse.planned[0].event.noise * grid.STEPS
    released = purse.release("PCA: mean", sums[1], grid.STEPS)
    assert np.abs(released - sums[1]).max() < 10 * scale
    assert told_by_bits("mean", released, tuple(sums), scale, 1 / grid.parts(grid.STEPS)) == Bits("mean", 12, 0, 0)


def test_numbers_off_the_grid_are_counted():
    sums = np.arange(6), np.arange(6) + 1
    released = sums[0] + np.array([3, 4.5, -2, 0.25, 7, 0])
    assert told_by_bits("sum", released, sums, 5.0).off_grid == 2
    assert told_by_bits("sum", released, sums, 5.0, step=0.25).off_grid == 0
