"""Small arithmetic runs on one thread in every library, and everything is as before afterwards."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from sklearn import cluster
from threadpoolctl import threadpool_info, threadpool_limits
from torch import nn

from fedonce import FedOnceClassifier, Guest, Host, Rounds, learners
from fedonce.assess import leakage
from fedonce.assess.attacks import known_rows
from fedonce.data.table import Table
from fedonce.learners import NAT, PCA, Autoencoder, Patches, Random, pca
from fedonce.training import threads
from fedonce.training.closedform import ClosedForm
from fedonce.training.loop import apply
from fedonce.training.networks import encoder
from tests.conftest import make_table

MANY = 4
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def many_threads():
    """Give every library several threads, as on a machine with many cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(MANY)
    with threadpool_limits(MANY):
        yield
    torch.set_num_threads(before)


def most_threads() -> int:
    """Return the most threads that any library of this process would use now."""
    return max(torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info()))


@pytest.fixture
def used(monkeypatch):
    """Note how many threads there are whenever one of the library's products is made."""
    seen: list[int] = []

    def noting(owner, name):
        original = getattr(owner, name)

        def noted(*args, **kwargs):
            if not (args and isinstance(args[-1], torch.Tensor) and len(args[-1]) <= 2):  # a network tried on two rows
                seen.append(most_threads())
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, noted)

    noting(nn.Linear, "forward")
    noting(ClosedForm, "forward")
    noting(pca, "eigh")
    noting(cluster, "MiniBatchKMeans")
    noting(known_rows, "solve")
    noting(known_rows, "NearestNeighbors")
    return seen


def test_small_work_gets_one_thread_and_large_work_what_there_is():
    assert most_threads() == MANY
    with threads.threads_for(threads.LEAST_WORK / 2):
        assert most_threads() == 1
    assert most_threads() == MANY
    with threads.threads_for(threads.LEAST_WORK):
        assert most_threads() == MANY


def test_everything_is_as_before_also_after_an_error():
    with pytest.raises(RuntimeError), threads.threads_for(1):
        raise RuntimeError
    assert most_threads() == MANY


def test_nested_and_side_by_side():
    """BLAS has one setting for the whole process: it is given back when the last one is done, whoever that is."""
    inside, leave = threading.Barrier(2), threading.Event()

    def small_work():
        with threads.threads_for(1):
            inside.wait(10)
            leave.wait(10)

    other = threading.Thread(target=small_work)
    with threads.threads_for(1):
        with threads.threads_for(1):
            other.start()
            inside.wait(10)
        assert most_threads() == 1
    assert max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas") == 1
    leave.set()
    other.join()
    assert most_threads() == MANY


def test_work_of_products_and_networks():
    assert threads.product_work(2, 3, 4) == 48
    mlp = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 5))
    assert threads.network_work(mlp, (10,), 100) == 2 * 100 * (220 + 105)
    cnn = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(16, 2))
    assert threads.network_work(cnn, (1, 4, 4), 1) == 2 * (16 * 40 + 34)
    assert threads.network_work(nn.Embedding(10**6, 32), (1,), 128) == 0


def test_the_networks_of_the_paper_for_images_get_all_threads():
    for side in (14, 28):
        cnn = encoder((1, side, side), (64, 64), 16)
        assert threads.pays(3 * threads.network_work(cnn, (1, side, side), 128))


@pytest.mark.parametrize(
    "learner", [PCA(), NAT(epochs=1), Autoencoder(epochs=1), Random(), "auto"], ids=lambda each: str(each)[:6]
)
def test_guests_with_tables(learner, used):
    X, _ = make_table(200)
    guest = Guest("shop", learner, dim=3)
    message = guest.learn(X)
    guest.represent(X)
    leakage.reconstruct(message.values, Table.of(X))
    assert set(used) == {1}
    assert most_threads() == MANY


def test_patches_of_few_images(used):
    learner = Patches(centroids=4, sample=100)
    learner.fit(np.random.default_rng(0).random((20, 1, 6, 6), dtype=np.float32), 3, np.random.default_rng(0), CPU)
    assert set(used) == {1}


def test_hosts_with_tables(used):
    X, y = make_table(200)
    message = Guest("shop", "pca", dim=2).learn(X[:, 4:])
    host = Host("bank", epochs=1)
    host.aggregate(X[:, :4], y, [message])
    host.predict(X[:, :4], [message])
    assert set(used) == {1}


@pytest.mark.parametrize(
    "settings",
    [{"rounds": Rounds(rounds=2)}, {"epsilon": 2.0, "bounds": (-9, 9), "delta": 1e-3, "target_bounds": [0, 1]}],
)
def test_rounds_and_budgets(settings, used):
    X, y = make_table(200)
    FedOnceClassifier(parties=2, dim=2, host_epochs=1, epochs=1, **settings).fit(X, y)
    assert set(used) == {1}


def test_workers_of_joblib():
    X, y = make_table(200)
    fed = FedOnceClassifier(parties=3, learner=_Telling(), dim=1, host_epochs=1, n_jobs=2).fit(X, y)
    assert all((message.values == 1).all() for message in fed.representations_.values())


class _Telling(learners.Learner):
    """Its values are the number of threads with which `apply` runs a network."""

    name = "telling"

    def fit(self, rows, dim, rng, device):
        return []

    def transform(self, rows, device):
        return apply(_Counting(), rows, device)

    def state(self):
        return {}

    def restore(self, tensors):
        pass


class _Counting(nn.Module):
    def forward(self, rows):
        return torch.full((len(rows), 1), float(most_threads()), dtype=rows.dtype)


def test_a_million_rows_get_all_threads(used):
    PCA().fit(np.zeros((10**6, 30), np.float32), 2, np.random.default_rng(0), CPU)
    assert set(used) == {MANY}
