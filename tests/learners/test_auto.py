from __future__ import annotations

import numpy as np
import pytest
import torch

from fedonce import Guest
from fedonce.learners import PCA, Auto, Autoencoder, Cells, Patches, Quantiles
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


@pytest.mark.parametrize(
    ("n", "most", "readable", "kind"),
    [
        (2000, 0.5, False, Cells),
        (2000, 2.0, False, PCA),
        (200, 0.5, False, PCA),  # a message too short to say where cells are
        (2000, 0.5, True, Quantiles),
        (2000, None, True, Quantiles),
        (10, 2.0, True, PCA),  # too few rows for bins of twenty
    ],
)
def test_choice_by_the_bytes_of_a_row_and_whether_it_may_be_read(n, most, readable, kind):
    assert isinstance(choose(low_rank(n, 4, 4, 1.0), 8, most, readable), kind)


def test_cells_that_auto_takes_keep_their_promise():
    """Most rows are alike, so that there are bytes left for finer cells, which would part the others."""
    rows = low_rank(6000, 3, 6, 0.1)
    rows[:4200] = rows[0]
    message = Guest("shop", bytes_per_row=0.9).learn(rows)
    assert message.learner == "cells"
    assert np.unique(message.values, axis=0, return_counts=True)[1].min() >= 20


def test_what_auto_took_with_bytes_is_read_back(tmp_path):
    rows = low_rank(2000, 4, 6, 0.5)
    for most in (0.5, 2.0):
        guest = Guest("shop", Auto(readable=most > 1), bytes_per_row=most)
        guest.learn(rows)
        again = Guest.load(guest.save(tmp_path / str(most)))
        assert again.represent(rows[:50]).to_bytes() == guest.represent(rows[:50]).to_bytes()
