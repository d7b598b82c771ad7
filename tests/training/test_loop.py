from __future__ import annotations

import numpy as np
import pytest
import torch

from fedonce import InputError
from fedonce.training.loop import APPLY_BLOCK, Loop, apply, pick_device
from fedonce.training.networks import cnn0, mlp
from fedonce.training.settings import Training

CPU = torch.device("cpu")


def test_every_row_is_visited_once_an_epoch(rng):
    seen, rates = [], []
    training = Training(epochs=2, batch=4, rate=0.1)
    history = Loop(lambda *given: (seen.append(given), 0.5)[1], rates.append, 10, training, rng).run()
    for epoch in (0, 1):
        batches = [rows.tolist() for rows, when in seen if when == epoch]
        assert [len(rows) for rows in batches] == [4, 4, 2]
        assert sorted(sum(batches, [])) == list(range(10))
    assert history == [{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.5}]
    assert rates == [0.1] * 6


def test_loss_is_the_mean_over_rows(rng):
    values = torch.tensor([0.0, 0.0, 0.0, 0.0, 10.0])
    loop = Loop(lambda batch, epoch: values[batch].mean(), lambda rate: None, 5, Training(1, 2, 0.1), rng)
    assert loop.run()[0]["loss"] == pytest.approx(2.0)


def test_a_loss_that_is_no_number_ends_the_training(rng):
    loop = Loop(lambda batch, epoch: float("nan"), lambda rate: None, 5, Training(3, 2, 0.1), rng)
    with pytest.raises(InputError, match="loss of epoch 1 is nan"):
        loop.run()


@pytest.mark.parametrize("threads", [1, 2])  # of images, a block has so many rows for each
@pytest.mark.parametrize(("network", "shape"), [(mlp(20, (64, 64), 8), (20,)), (cnn0((1, 8, 8), 8), (1, 8, 8))])
def test_a_row_s_output_does_not_depend_on_its_company(rng, network, shape, threads, monkeypatch):
    rows = rng.standard_normal((2 * APPLY_BLOCK + 33, *shape)).astype(np.float32)
    whole = apply(network, rows, CPU)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    order = rng.permutation(len(rows))
    np.testing.assert_array_equal(apply(network, rows[order], CPU), whole[order])
    np.testing.assert_array_equal(apply(network, rows[5:6], CPU), whole[5:6])
    np.testing.assert_array_equal(
        np.concatenate([apply(network, rows[i : i + 7], CPU) for i in range(0, 70, 7)]), whole[:70]
    )


def test_apply_leaves_the_network_as_it_was_and_takes_no_rows():
    network = mlp(3, (4,), 2)
    assert apply(network, np.zeros((0, 3), np.float32), CPU).shape == (0, 2)
    assert next(network.parameters()).dtype == torch.float32


def test_device_by_name():
    assert pick_device("cpu") == CPU
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_one_cycle_rises_then_falls_to_nothing():
    training = Training(10, 10, 0.5, schedule="one-cycle")
    rates = [training.rate_at(progress) for progress in (0, 0.1, 0.3, 0.5, 0.9, 1)]
    assert rates[2] == pytest.approx(0.5)
    assert rates[0] < rates[1] < rates[2] > rates[3] > rates[4] > rates[5]
    assert rates[5] < 1e-5
    assert Training(10, 10, 0.5).rate_at(0.9) == 0.5
