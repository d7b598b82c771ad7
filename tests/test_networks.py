from __future__ import annotations

import pytest
import torch
from torch import nn

from fedonce import InputError
from fedonce.networks import cnn0, encoder, mlp


def test_mlp_has_the_widths_of_the_table():
    widths = [(layer.in_features, layer.out_features) for layer in mlp(7, (30, 20), 3) if isinstance(layer, nn.Linear)]
    assert widths == [(7, 30), (30, 20), (20, 3)]


def test_cnn0_is_the_paper_s():
    kinds = [type(layer).__name__ for layer in cnn0((1, 14, 14), 16)]
    assert kinds == [
        "Conv2d", "ReLU", "Conv2d", "ReLU", "MaxPool2d", "Dropout", "Flatten", "Linear", "ReLU", "Dropout", "Linear"
    ]  # fmt: skip
    assert cnn0((3, 16, 16), 5)(torch.zeros(2, 3, 16, 16)).shape == (2, 5)


@pytest.mark.parametrize(
    ("shape", "first"),
    [((7,), nn.Linear), ((1, 14, 14), nn.Conv2d), ((1, 6, 6), nn.Conv2d), ((1, 4, 4), nn.Flatten)],
)
def test_encoder_is_chosen_by_the_shape_of_a_row(shape, first):
    network = encoder(shape, (8,), 3)
    assert isinstance(network[0], first)
    assert network(torch.zeros(2, *shape)).shape == (2, 3)


def test_the_user_s_module_is_copied():
    own = nn.Linear(4, 2)
    used = encoder((4,), (), 2, own)
    assert used is not own
    torch.testing.assert_close(used.weight, own.weight)


@pytest.mark.parametrize("own", [nn.Linear(4, 3), nn.Linear(5, 2)])
def test_a_module_that_does_not_fit_is_refused(own):
    with pytest.raises(InputError, match="'network' parameter"):
        encoder((4,), (), 2, own)
