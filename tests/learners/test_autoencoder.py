from __future__ import annotations

import numpy as np
import pytest
import torch

from fedonce.learners import Autoencoder

CPU = torch.device("cpu")


@pytest.mark.parametrize("shape", [(9,), (1, 8, 8), (1, 4, 4)])
def test_learns_what_rebuilds_the_rows(rng, shape):
    rows = (rng.standard_normal((400, 2)) @ rng.standard_normal((2, int(np.prod(shape))))).reshape(400, *shape)
    autoencoder = Autoencoder(epochs=15, batch=40)
    history = autoencoder.fit(rows.astype(np.float32), 2, rng, CPU)
    assert history[-1]["loss"] < 0.35 * history[0]["loss"]
    # Two hidden causes made the rows, and both can be read off the two values.
    values = autoencoder.transform(rows.astype(np.float32), CPU)
    design = np.column_stack([values, np.ones(400)])
    flat = rows.reshape(400, -1)
    residual = flat - design @ np.linalg.lstsq(design, flat, rcond=None)[0]
    assert residual.var() < 0.3 * flat.var()
