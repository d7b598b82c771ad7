from __future__ import annotations

import numpy as np
import pytest
import torch

from fedonce.learners import PCA, Auto, Autoencoder, Patches
from fedonce.learners.auto import choose
from fedonce.learners.pca import principal


def low_rank(n, rank, columns, noise, seed=0):
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal((n, rank)) @ rng.standard_normal((rank, columns))
        + noise * rng.standard_normal((n, columns))
    ).astype(np.float32)


@pytest.mark.parametrize(
    ("rows", "dim", "kind"),
    [
        (low_rank(200, 3, 20, 0.05), 8, PCA),
        (low_rank(500, 60, 60, 1.0), 8, Autoencoder),
        (low_rank(200, 4, 4, 1.0), 8, PCA),
        (low_rank(200, 4, 144, 1.0).reshape(200, 1, 12, 12), 16, Patches),
        (low_rank(200, 4, 144, 1.0).reshape(200, 1, 12, 12), 8, PCA),
        (low_rank(200, 4, 16, 1.0).reshape(200, 1, 4, 4), 16, PCA),
    ],
)
def test_choice_by_the_party_s_own_rows(rows, dim, kind):
    assert isinstance(choose(rows, dim), kind)


def test_epochs_reach_what_was_chosen():
    auto = Auto(epochs=2)
    history = auto.fit(low_rank(500, 60, 60, 1.0), 4, np.random.default_rng(0), torch.device("cpu"))
    assert len(history) == 2


def test_an_autoencoder_is_not_taken_where_it_is_hardly_better():
    """Seven columns of which three components keep 60 %, as phishing's."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2000, 7)).astype(np.float32)
    rows[:, :3] *= 1.3
    _, variances, _, total = principal(rows, 3)
    assert 0.5 < variances.sum() / total < 0.65
    assert isinstance(choose(rows, 3), PCA)
