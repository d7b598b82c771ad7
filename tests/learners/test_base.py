from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fedonce import InputError
from fedonce.learners import NAT, Autoencoder, Random
from fedonce.learners.base import epochs_for

CPU = torch.device("cpu")


@pytest.mark.parametrize(("n", "expected"), [(100, 100), (1280, 100), (12_800, 10), (128_000, 10), (7_680, 17)])
def test_epochs_make_about_so_many_steps(n, expected):
    assert epochs_for(n, 128, 1000, 10, 100) == expected


@pytest.mark.parametrize("kind", [NAT, Autoencoder, Random])
@pytest.mark.parametrize(
    "network",
    [
        nn.Linear(5, 2, bias=False),
        nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.Linear(8, 2)),
        nn.Sequential(nn.Linear(5, 2, bias=False)),
    ],
    ids=["no bias", "other activation", "sequence without bias"],
)
def test_the_user_s_own_network(kind, network, rng):
    rows = rng.standard_normal((60, 5)).astype(np.float32)
    before = [parameter.clone() for parameter in network.parameters()]
    learner = kind(network=network) if kind is Random else kind(network=network, epochs=2)
    learner.fit(rows, 2, rng, CPU)
    assert learner.transform(rows, CPU).shape == (60, 2)
    for old, new in zip(before, network.parameters(), strict=True):
        torch.testing.assert_close(old, new)  # the user's own module is left alone


def test_frozen_layers_stay_frozen(rng):
    network = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))
    network[0].requires_grad_(False)
    nat = NAT(network=network, epochs=3)
    nat.fit(rng.standard_normal((60, 5)).astype(np.float32), 2, rng, CPU)
    torch.testing.assert_close(nat.network_[0].weight, network[0].weight)
    assert not torch.equal(nat.network_[2].weight, network[2].weight)


@pytest.mark.parametrize("learner", [NAT(rate=1e30, epochs=3), Autoencoder(rate=1e30, epochs=3)])
def test_divergence_is_said(learner, rng):
    with pytest.raises(InputError, match="diverged"), np.errstate(all="ignore"):
        learner.fit(rng.standard_normal((300, 5)).astype(np.float32), 2, rng, CPU)
