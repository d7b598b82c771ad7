from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from fedonce.training.closedform import ClosedForm
from fedonce.training.networks import cnn0, mlp

CPU = torch.device("cpu")
NETWORKS = {
    "one layer": lambda: nn.Sequential(nn.Linear(5, 3)),
    "mlp": lambda: mlp(5, (8, 7), 3),
    "tanh outputs": lambda: nn.Sequential(*mlp(5, (8, 7), 3), nn.Tanh()),
    "autoencoder": lambda: nn.Sequential(*mlp(5, (8,), 2), *mlp(2, (8,), 3)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_equal_autograd(name, float64):
    torch.manual_seed(0)
    network = NETWORKS[name]()
    reference = copy.deepcopy(network)
    x, weights = torch.randn(11, 5), torch.randn(11, 3)
    expected = reference(x)
    (expected * weights).sum().backward()
    form = ClosedForm(network)
    np.testing.assert_allclose(form.forward(x.numpy()), expected.detach().numpy(), atol=1e-12)
    form.backward(weights.numpy())
    flat = torch.cat([parameter.grad.reshape(-1) for parameter in reference.parameters()])
    torch.testing.assert_close(form.parameter.grad, flat, atol=1e-12, rtol=1e-12)


def test_the_network_follows_the_flat_parameter():
    network = mlp(5, (8,), 3)
    form = ClosedForm(network)
    form.parameter.data.zero_()
    assert not any(parameter.any() for parameter in network.parameters())


@pytest.mark.parametrize(
    "network",
    [
        cnn0((1, 8, 8), 2),
        nn.Linear(3, 2),
        mlp(3, (4,), 2, dropout=0.5),
        nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Tanh()),
    ],
)
def test_other_networks_are_left_to_autograd(network):
    assert not ClosedForm.supports(network, CPU)


@pytest.mark.parametrize("name", NETWORKS)
def test_supported(name):
    assert ClosedForm.supports(NETWORKS[name](), CPU)
    assert not ClosedForm.supports(NETWORKS[name](), torch.device("cuda"))


@pytest.mark.parametrize(
    ("kind", "name"), [(torch.optim.Adam, "adam"), (torch.optim.AdamW, "adamw"), (torch.optim.SGD, "sgd")]
)
def test_an_optimizer_equals_torch_s(kind, name, float64):
    torch.manual_seed(0)
    form = ClosedForm(mlp(5, (8,), 3))
    reference = nn.Parameter(form.parameter.detach().clone())
    optimizer = kind([reference], lr=0.02, weight_decay=0.1)
    update = form.update(name, weight_decay=0.1)
    for _ in range(20):
        gradient = torch.randn_like(reference)
        reference.grad = gradient.clone()
        form.parameter.grad.copy_(gradient)
        optimizer.step()
        update(0.02)
    torch.testing.assert_close(form.parameter.detach(), reference.detach(), atol=1e-12, rtol=1e-12)
