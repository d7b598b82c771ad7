from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedonce import BudgetError, InputError
from fedonce.learners import NAT, PCA, Auto, Autoencoder, Patches, Random
from fedonce.learners.orientations import Orientations
from fedonce.privacy.budget import Purse, calibrate
from fedonce.privacy.noise import SecretRandom

CPU = torch.device("cpu")


def rows(n=2000, width=6, seed=0):
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(n, 2)) @ rng.normal(size=(2, width)) + 0.1 * rng.normal(size=(n, width))
    return np.clip(mixed / 4, -1, 1).astype(np.float32)


def purse(learner, n, epsilon=2.0, seed=0, unsound=False):
    tasks = learner.private_tasks(n, 1.0, exact=epsilon == math.inf, unsound=unsound)
    plan = calibrate([replace(task, party="guest") for task in tasks], epsilon, 1e-5, "rdp")
    return Purse("guest", plan.of("guest"), plan.ledger(), SecretRandom(insecure_test_seed=seed))


def learn(learner, X, dim=2, epsilon=2.0, seed=0, unsound=False):
    own = purse(learner, len(X), epsilon, seed, unsound)
    learner.fit_private(X, dim, np.random.default_rng(0), CPU, own)
    return own


def test_private_pca_finds_the_directions_and_whitens():
    X = rows(20000)
    pca, plain = PCA(), PCA()
    learn(pca, X, epsilon=8.0)
    plain.fit(X, 2, np.random.default_rng(0), CPU)
    # The plane that both span is the same: projecting one on the other loses little.
    private = np.linalg.qr(pca.directions_.T)[0]
    overlap = np.linalg.norm(plain.directions_ @ private) ** 2 / 2
    assert overlap > 0.98
    values = pca.transform(X, CPU)
    assert np.abs(values.mean(axis=0)).max() < 0.1
    assert 0.5 < values.std(axis=0).min() <= values.std(axis=0).max() < 1.5


def test_private_pca_without_noise_is_the_same_for_every_seed_and_costs_infinity():
    X = rows()
    first, second = PCA(), PCA()
    spent = learn(first, X, epsilon=math.inf, seed=0)
    learn(second, X, epsilon=math.inf, seed=1)
    np.testing.assert_array_equal(first.directions_, second.directions_)
    assert spent.ledger.epsilon() == math.inf
    assert [entry.what for entry in spent.spent] == ["PCA: mean", "PCA: radius", "PCA: second moments"]


def test_noise_differs_between_seeds():
    first, second = PCA(), PCA()
    learn(first, rows(), seed=0)
    learn(second, rows(), seed=1)
    assert not np.allclose(first.directions_, second.directions_)


def test_images_go_through_features_of_length_below_one():
    images = np.random.default_rng(0).random((50, 2, 9, 9)).astype(np.float32)
    features = Orientations()(torch.from_numpy(images))
    assert features.shape == (50, 2 * 8 * 9)
    assert float(features.norm(dim=1).max()) < 1
    pca = PCA()
    learn(pca, images, dim=5)
    assert pca.transform(images, CPU).shape == (50, 5)
    again = PCA()
    again.restore(pca.state())
    np.testing.assert_array_equal(again.transform(images, CPU), pca.transform(images, CPU))


def test_the_edge_of_a_step_points_where_it_rises():
    image = torch.zeros(1, 1, 9, 9)
    image[..., 5:] = 1.0  # rises to the right
    found = Orientations()(image).reshape(8, 3, 3).sum(dim=(1, 2))
    assert int(found.argmax()) == 0
    assert float(found[4]) == 0.0


def test_small_images_are_taken_as_pixels():
    images = np.random.default_rng(0).random((60, 1, 4, 4)).astype(np.float32)
    pca = PCA()
    learn(pca, images, dim=3)
    assert not pca.oriented_
    assert pca.transform(images, CPU).shape == (60, 3)


def test_private_autoencoder_rebuilds_better_than_random():
    X = rows(4000)
    trained = Autoencoder(hidden=(32,))
    own = learn(trained, X, dim=2, epsilon=8.0)
    untrained = Random(hidden=(32,))
    learn(untrained, X, dim=2)

    def lost(learner):  # what a linear map cannot rebuild from the values
        values = np.hstack([learner.transform(X, CPU), np.ones((len(X), 1))])
        return np.square(X - values @ np.linalg.lstsq(values, X, rcond=None)[0]).sum()

    assert lost(trained) < 0.7 * lost(untrained)
    assert np.abs(trained.transform(X, CPU)).max() <= 1
    assert own.ledger.epsilon() == pytest.approx(8.0, rel=0.03)


def test_private_autoencoder_with_a_network_of_ones_own():
    X = rows(400)
    network = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 2))
    learner = Autoencoder(network=network, epochs=2)
    learn(learner, X)
    assert learner.transform(X, CPU).shape == (400, 2)


def test_batch_norm_is_refused_by_name():
    network = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    with pytest.raises(InputError, match="BatchNorm1d.*GroupNorm"):
        learn(Autoencoder(network=network, epochs=1), rows(200))


def test_state_of_private_learners_comes_back():
    X = rows(300)
    for learner in (PCA(), Autoencoder(hidden=(8,), epochs=1), Random(hidden=(8,))):
        learn(learner, X)
        again = type(learner)(**({"hidden": (8,)} if hasattr(learner, "hidden") else {}))
        again.restore(learner.state())
        np.testing.assert_array_equal(again.transform(X, CPU), learner.transform(X, CPU))


def test_random_is_free():
    own = learn(Random(), rows(100))
    assert own.ledger.epsilon() == 0
    assert own.spent[0].event is None


def test_auto_is_pca_without_looking():
    learner = Auto()
    learn(learner, rows(200))
    assert isinstance(learner.chosen(), PCA)


def test_nat_is_refused_with_the_reason():
    with pytest.raises(BudgetError, match=r"one row changes the targets.*docs/privacy\.md.*unsound_paper_reproduction"):
        NAT().private_tasks(100, 1.0)


@pytest.mark.parametrize("network", [None, nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2), nn.Softplus())])
def test_the_papers_nat_runs_and_is_marked(network):
    learner = NAT(epochs=2, batch=50, network=network)
    own = learn(learner, rows(200), unsound=True)
    assert own.ledger.nominal
    assert "nominal epsilon" in str(own.ledger)
    assert np.isfinite(learner.transform(rows(200), CPU)).all()


def test_learners_without_a_private_version_run_only_without_noise():
    with pytest.raises(BudgetError, match="'patches' has no private version.*'pca', 'autoencoder' or 'random'"):
        Patches().private_tasks(100, 1.0)
    images = np.random.default_rng(0).random((60, 1, 12, 12)).astype(np.float32)
    own = learn(Patches(centroids=8, sample=500), images, dim=3, epsilon=math.inf)
    assert own.ledger.epsilon() == math.inf
