from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fedonce import NCF, InputError
from fedonce.training.networks import chain, cnn0, cnn1, cnn3, code_sizes, encoder, mlp, shifted


def test_mlp_has_the_widths_of_the_table():
    widths = [(layer.in_features, layer.out_features) for layer in mlp(7, (30, 20), 3) if isinstance(layer, nn.Linear)]
    assert widths == [(7, 30), (30, 20), (20, 3)]


class Doubling(nn.Sequential):
    def forward(self, rows):
        return 2 * super().forward(rows)


def test_a_chain_is_flat_where_that_changes_nothing():
    rows, second = torch.ones(2, 3), mlp(4, (), 2)
    for first, layers in ((mlp(3, (5,), 4), 4), (Doubling(nn.Linear(3, 4)), 2), (nn.Linear(3, 4), 2)):
        whole = chain(first, second)
        assert len(whole) == layers
        torch.testing.assert_close(whole(rows), second(first(rows)))


def test_cnn0_is_the_paper_s():
    kinds = [type(layer).__name__ for layer in cnn0((1, 14, 14), 16)]
    assert kinds == [
        "Conv2d",
        "ReLU",
        "Conv2d",
        "ReLU",
        "MaxPool2d",
        "Dropout",
        "Flatten",
        "Linear",
        "ReLU",
        "Dropout",
        "Linear",
    ]
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


def test_cnn1_is_the_published_one():
    network = cnn1((1, 14, 14), 8)
    kinds = [type(layer).__name__ for layer in network]
    assert kinds == ["Conv2d", "ReLU", "MaxPool2d", "Conv2d", "ReLU", "MaxPool2d", "Flatten", "Linear"]
    first, pool, second = network[0], network[2], network[3]
    assert (first.out_channels, first.kernel_size, first.stride, first.padding) == (16, (8, 8), (2, 2), (3, 3))
    assert (pool.kernel_size, pool.stride) == (2, 1)
    assert (second.out_channels, second.kernel_size, second.stride, second.padding) == (32, (4, 4), (2, 2), (0, 0))
    assert network[-1].in_features == 32  # a quarter of MNIST


@pytest.mark.parametrize("shape", [(1, 14, 14), (1, 15, 17), (3, 16, 16), (1, 28, 28)])
def test_cnn1_takes_images_of_other_sizes(shape):
    assert encoder(shape, (), 5, "cnn1")(torch.zeros(2, *shape)).shape == (2, 5)


@pytest.mark.parametrize("shape", [(1, 6, 6), (1, 28, 14), (3, 16, 16), (1, 7, 9)])
def test_cnn3_takes_images_of_all_sizes(shape):
    network = encoder(shape, (), 5, "cnn3")
    assert network(torch.zeros(2, *shape)).shape == (2, 5)
    convolutions = [layer for layer in network if isinstance(layer, nn.Conv2d)]
    assert [layer.out_channels for layer in convolutions] == [32, 64, 128]
    assert sum(isinstance(layer, nn.BatchNorm2d) for layer in network) == 3
    assert cnn3(shape, 5, hidden=7)[-1].in_features == 7


def test_images_are_shifted_by_a_pixel_and_keep_their_shape():
    image = torch.arange(1.0, 37).reshape(1, 1, 6, 6)
    moved = {tuple(shifted(image).ravel().tolist()) for _ in range(200)}
    wide = nn.functional.pad(image, (1, 1, 1, 1))
    allowed = {
        tuple(wide[:, :, down : down + 6, right : right + 6].ravel().tolist())
        for down in range(3)
        for right in range(3)
    }
    assert moved == allowed


@pytest.mark.parametrize(
    ("shape", "network", "message"),
    [
        ((1, 13, 14), "cnn1", "'cnn0' for images below 14 x 14"),
        ((1, 5, 5), "cnn0", "no images of 6 x 6"),
        ((7,), "cnn1", "no images"),
        ((7,), "cnn2", "'cnn0', 'cnn1', 'cnn3' or None. Got 'cnn2'"),
        ((3,), NCF([4, 4], [8]), "as long as the party has columns .3.. Got .4, 4."),
    ],
)
def test_networks_that_do_not_fit_are_refused(shape, network, message):
    with pytest.raises(InputError, match=message):
        encoder(shape, (), 2, network)


def test_ncf_looks_up_one_embedding_a_column():
    rows = torch.tensor([[1.0, 2.0, 0.5], [3.0, 0.0, -1.0]])
    network = encoder((3,), (), 2, NCF((4, 6, 0), (8,)), sizes=(4, 3, 1))
    assert [getattr(table, "weight", torch.zeros(0)).shape for table in network.embeddings] == [(4, 4), (3, 6), (0,)]
    assert network.layers[0].in_features == 4 + 6 + 1
    first, second, _ = network.embeddings
    inside = torch.cat([first.weight[[1, 3]], second.weight[[2, 0]], rows[:, 2:]], dim=1)
    torch.testing.assert_close(network(rows), network.layers(inside))


def test_ncf_of_an_unseen_category_is_zeros():
    network = encoder((1,), (), 2, NCF((4,), (8,)), sizes=(3,))
    unseen, beyond = network(torch.tensor([[0.0]])), network(torch.tensor([[3.0]]))
    torch.testing.assert_close(unseen, network.layers(torch.zeros(1, 4)))
    torch.testing.assert_close(beyond, unseen)


def test_code_sizes_are_for_embeddings_alone():
    rows = np.array([[1.0, 5.0], [2.0, 3.0]])
    assert code_sizes(NCF((2, 2), ()), rows) == (3, 6)
    assert code_sizes(None, rows) == ()


@pytest.mark.parametrize(("embeddings", "hidden"), [((-2, 2), ()), ((2.0,), ()), (3, ()), ((2,), (0,))])
def test_widths_are_checked(embeddings, hidden):
    with pytest.raises(InputError, match="of NCF must be a tuple of integers of at least"):
        NCF(embeddings, hidden)
