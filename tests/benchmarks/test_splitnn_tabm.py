from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.config import Config
from benchmarks.methods import METHODS, splitnn_tabm
from benchmarks.methods.splitnn_tabm import Rows, Size, SplitNetwork, Step, Training
from benchmarks.problem import Problem
from benchmarks.run import parties_of
from fedonce.datasets import Dataset
from fedonce.hostmodels.tabm_network import Shape
from fedonce.party.labels import Targets

TINY = Shape(heads=2, width=16, layers=2, bins=8, embedding=4, dropout=0.1)
QUICK = Config(dim=2, epochs=12, device="cpu")


@pytest.fixture
def tiny(monkeypatch):
    def of(problem, config, device):
        return Training(TINY, batch=64, rate=1e-2, epochs=config.epochs, patience=6)

    monkeypatch.setattr(Training, "of", of)


def problem(task):
    """What to predict is a product: of a column of the host and one of a guest, so that neither knows anything alone."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((700, 6))
    product = np.sign(X[:, 0]) * np.clip(X[:, 2], -1, 1)
    y = np.where(product > 0, "yes", "no") if task == "classification" else 5 + 2 * product
    data = Dataset("product", X, y, tuple("abcdef"), task, 3, True, "", "")
    return Problem(data, parties_of(data, {}), "party1", *data.split(0))


def run(one, config=QUICK, seed=0):
    return METHODS["SplitNN-TabM"].run(one, config, seed)


@pytest.mark.usefixtures("tiny")
def test_it_learns_classes_that_no_party_knows_alone():
    one = problem("classification")
    assert run(one).value > 85  # chance gives 50
    hidden = one.X.copy()
    hidden[:, 2:] = 0
    assert run(replace(one, X=hidden)).value < 70


@pytest.mark.usefixtures("tiny")
def test_it_learns_numbers_in_their_own_unit():
    one = problem("regression")
    assert run(one).value < 0.4 * np.std(one.y_test)


@pytest.mark.usefixtures("tiny")
def test_bytes_and_messages_are_counted_by_the_formula():
    one = problem("classification")
    result = run(one, replace(QUICK, epochs=3))
    learn, held = 420, 210  # of 630 training rows, a third is held back, as they are fewer than 2,000
    assert len(one.y) == learn + held
    assert result.detail["epochs_trained"] == 3
    assert result.payload == result.bytes == 3 * (2 * learn + held) * 2 * 4 * 2  # epochs, rows, values, bytes, guests
    assert result.messages == 3 * 2 * (2 * 7 + 1)  # epochs, guests, batches of 64 rows both ways and the rows held back


def test_the_traffic_of_a_seventh_held_back():
    size = Size(learn=6000, held=1000, batch=256, guests=9, dim=3)
    assert size.payload(2) == 2 * 9 * 3 * 4 * (2 * 6000 + 1000)
    assert size.messages(2) == 2 * 9 * (2 * 24 + 1)


@pytest.mark.usefixtures("tiny")
def test_a_seed_gives_the_same_and_another_does_not():
    one = problem("regression")
    few = replace(QUICK, epochs=2)
    assert run(one, few, 3).value == run(one, few, 3).value != run(one, few, 4).value


@pytest.mark.usefixtures("tiny")
def test_training_stops_where_rows_held_back_get_no_better_and_keeps_the_best_weights(monkeypatch):
    errors = iter([0.5, 0.2, *(0.3,) * 10])
    kept, loaded = [], []
    copied, load = splitnn_tabm._copied, SplitNetwork.load_state_dict
    monkeypatch.setattr(splitnn_tabm, "_error", lambda outputs, target: next(errors))
    monkeypatch.setattr(splitnn_tabm, "_copied", lambda network: kept.append(copied(network)) or kept[-1])
    monkeypatch.setattr(SplitNetwork, "load_state_dict", lambda self, given: loaded.append(given) or load(self, given))
    result = run(problem("classification"))
    assert result.detail["epochs_trained"] == 8  # the second was the best, and six more were not
    assert len(kept) == 2
    assert loaded[0] is kept[1]


def test_every_guest_learns_from_the_host_s_loss():
    torch.manual_seed(0)
    tables = [np.random.default_rng(j).standard_normal((50, 2)).astype(np.float32) for j in range(3)]
    network = SplitNetwork.of(tables, 2, 1, TINY)
    network(*(torch.from_numpy(rows) for rows in tables)).square().mean().backward()
    for party in (network.host, *network.guests):
        assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in party.parameters())


@pytest.mark.parametrize(
    ("name", "device", "heads", "batch", "bins"),
    [
        ("phishing", "cpu", 8, 256, 48),
        ("phishing", "cuda", 32, 256, 48),
        ("covtype", "cuda", 32, 1024, 48),
        ("ujiindoorloc", "cuda", 32, 256, 16),
    ],
)
def test_the_recipe_of_a_data_set_and_a_device(name, device, heads, batch, bins):
    one = problem("classification")
    one = replace(one, data=replace(one.data, name=name))
    training = Training.of(one, Config(epochs=2.0), torch.device(device))
    assert (training.shape.heads, training.batch, training.shape.bins) == (heads, batch, bins)
    assert (training.patience, training.rate) == (16, 3e-3 if name == "covtype" else 2e-3)
    assert (training.epochs, Training.of(one, Config(), torch.device(device)).epochs) == (2, 200)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_recorded_step_learns_what_a_plain_one_does(monkeypatch):
    tables = [np.random.default_rng(j).standard_normal((64, 2)).astype(np.float32) for j in range(3)]
    target = np.random.default_rng(3).standard_normal(64)
    learnt = []
    for warm_up in (3, math.inf):
        monkeypatch.setattr(splitnn_tabm, "WARM_UP", warm_up)
        torch.manual_seed(0)
        network = SplitNetwork.of(tables, 2, 1, replace(TINY, dropout=0.0)).to("cuda")
        rows = Rows.of(tables, Targets(target), torch.device("cuda"))
        step = Step(network, rows, Training(TINY, batch=16))
        for batch in (
            torch.arange(64, device="cuda").repeat(3)[:-8].split(16)
        ):  # the last is smaller, and never recorded
            step(batch)
        assert (step.graph is None) == (warm_up == math.inf)
        learnt.append(torch.cat([weight.detach().flatten() for weight in network.parameters()]))
    torch.testing.assert_close(*learnt, rtol=1e-3, atol=1e-4)
