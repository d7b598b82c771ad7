from __future__ import annotations

import numpy as np
import torch

from fedonce.learners import Random

CPU = torch.device("cpu")


def test_random_looks_at_no_row(rng):
    learner, other = Random(), Random()
    learner.fit(rng.standard_normal((50, 6)).astype(np.float32), 3, np.random.default_rng(0), CPU)
    other.fit(np.zeros((9, 6), np.float32), 3, np.random.default_rng(0), CPU)
    probe = rng.standard_normal((20, 6)).astype(np.float32)
    np.testing.assert_array_equal(learner.transform(probe, CPU), other.transform(probe, CPU))
