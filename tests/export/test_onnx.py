from __future__ import annotations

import re
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedonce.data.preparation import Public
from fedonce.data.table import Table
from fedonce.errors import InputError
from fedonce.export.onnx import export_guest, export_host
from fedonce.hostmodels.recipe import Recipe
from fedonce.learners import NAT, PCA, Learner, Patches
from fedonce.party import FineTuning, Guest, Host
from fedonce.privacy.budget import Purse, calibrate
from fedonce.privacy.noise import SecretRandom
from fedonce.training.networks import NCF
from tests.conftest import make_table

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

N = 200
X, y = make_table(N)
PIXELS = np.random.default_rng(0).uniform(0, 1, (N, 144))
CODES = np.random.default_rng(0).integers(0, 9, (N, 2)).astype(str).astype(object)
IMAGE = {"shape": (1, 12, 12)}


def run(exported, **arrays):
    session = onnxruntime.InferenceSession(exported.path, providers=["CPUExecutionProvider"])
    return session.run(None, arrays)[0]


@pytest.fixture(scope="module")
def messages():
    guests = [Guest(name, learner="pca", dim=dim) for name, dim in (("shop", 3), ("utility", 2))]
    return [guest.learn(X[:, 4:]) for guest in guests]


def purse(learner):
    """Return what a guest may spend of a small budget."""
    tasks = [replace(task, party="shop") for task in learner.private_tasks(N, 1.0)]
    plan = calibrate(tasks, 0.5, 1e-3, "rdp")
    return Purse("shop", plan.of("shop"), plan.ledger(), SecretRandom(insecure_test_seed=0))


@pytest.mark.parametrize(
    ("learner", "table", "settings"),
    [
        ("auto", X, {}),
        ("quantiles", X, {}),
        (NAT(epochs=1), PIXELS, IMAGE),
        (Patches(centroids=10, sample=500), PIXELS, IMAGE),
        (NAT(network=NCF((3, 3), (8,)), epochs=1), CODES, {}),
    ],
    ids=["pca", "quantiles", "cnn0", "patches", "ncf"],
)
def test_a_guests_file_gives_its_values(tmp_path, capfd, learner, table, settings):
    guest = Guest("shop", learner=learner, dim=4, bits=32, **settings)
    message = guest.learn(table)
    exported = export_guest(guest, tmp_path / "guest.onnx")
    rows = guest.preparation.transform(Table.of(table))
    assert exported.inputs == {"rows": ("n", *rows.shape[1:])}
    assert exported.outputs == {"values": ("n", 4)}
    assert exported.difference < 1e-5
    given = run(exported, rows=rows)
    np.testing.assert_allclose(given, message.values, atol=1e-4 * np.abs(message.values).max())
    assert given.dtype == np.float32
    assert capfd.readouterr() == ("", "")


def test_values_of_a_guest_with_a_budget_are_clipped(tmp_path):
    guest = Guest("shop", learner="pca", dim=3, purse=purse(PCA()), public=Public(bounds=(0, 1)), **IMAGE)
    guest.learn(PIXELS)
    assert guest.learner.oriented_
    guest.learner.directions_ = 100 * guest.learner.directions_  # so that values reach the bound
    rows = np.random.default_rng(1).normal(0, 5, (50, 1, 12, 12)).astype(np.float32)
    given = run(export_guest(guest, tmp_path / "guest.onnx"), rows=rows)
    np.testing.assert_allclose(given, guest.values(rows), atol=1e-4)
    unclipped = guest.learner.transform(rows, torch.device("cpu"))
    assert np.abs(given).max() == PCA.bound
    assert np.abs(unclipped).max() > PCA.bound


@pytest.mark.parametrize("alone", [False, True])
def test_what_rounds_changed_is_in_the_file(tmp_path, alone):
    guest = Guest("shop", learner="pca", dim=3)
    guest.learn(X)
    torch.manual_seed(0)
    guest.adopt(replace(guest.state, fine_tuning=FineTuning(nn.Linear(8, 3), alone)))
    rows = np.random.default_rng(1).standard_normal((5, 8)).astype(np.float32)
    given = run(export_guest(guest, tmp_path / "guest.onnx"), rows=rows)
    network = guest.fine_tuning.network(torch.from_numpy(rows)).detach().numpy()
    learnt = 0 if alone else guest.learner.transform(rows, torch.device("cpu"))
    np.testing.assert_allclose(given, network + learnt, atol=1e-5)


def test_a_hosts_file_gives_its_probabilities(tmp_path, messages):
    host = Host("bank", recipe=Recipe(members=2), epochs=2, calibrate=True)
    host.aggregate(X[:, :4], y, messages)
    assert host.temperature != 1  # what the file must know, too
    exported = export_host(host, tmp_path / "host.onnx")
    assert exported.inputs == {"own": ("n", 4), "values": ("n", 5), "present": ("n", 2)}
    assert exported.outputs == {"probabilities": ("n", 2)}
    own = host.preparation.transform(Table.of(X[:, :4]))
    values = np.hstack([message.values for message in messages])
    present = np.ones((N, 2), np.float32)
    given = run(exported, own=own, values=values, present=present)
    np.testing.assert_allclose(given, host.outputs(X[:, :4], messages), atol=1e-4)
    values[:, 3:], present[:, 1] = 0, 0
    given = run(exported, own=own, values=values, present=present)
    np.testing.assert_allclose(given, host.outputs(X[:, :4], messages[:1]), atol=1e-4)
    model = onnx.load(exported.path)
    assert model.producer_name == "fedonce"
    assert "shop (3), utility (2)" in model.doc_string
    assert {each.key: each.value for each in model.metadata_props} == {"party": "bank"}
    # Nothing of the machine that made it; a file's name, as three bytes alone may be among the weights.
    assert not re.search(rb"\w{3}\.py", exported.path.read_bytes())


def test_numbers_keep_their_digits_and_a_host_may_be_alone(tmp_path):
    host = Host("bank", "regression", epochs=2)
    host.aggregate(X[:, :4], 1e7 + y, [])
    exported = export_host(host, tmp_path / "host.onnx")
    assert exported.inputs == {"own": ("n", 4)}
    assert exported.outputs == {"numbers": ("n",)}
    own = host.preparation.transform(Table.of(X[:, :4]))
    np.testing.assert_allclose(run(exported, own=own), host.predict(X[:, :4], []), rtol=0, atol=1e-4)


class Halves(Learner):
    """A learner of a user's own, without a network."""

    name = "halves"

    def fit(self, rows, dim, rng, device):
        return []

    def transform(self, rows, device):
        return rows[:, :2] / 2

    def state(self):
        return {}

    def restore(self, tensors):
        pass


class Wrong(Halves):
    def module(self):
        return nn.Linear(8, 2)


class Narrow(Halves):
    def module(self):
        return nn.Linear(8, 1)


class Spectrum(nn.Module):
    """What ONNX has no operation for."""

    def forward(self, rows):
        return torch.linalg.svdvals(rows.reshape(-1, 4, 2))


class Stuck(Halves):
    def module(self):
        return Spectrum()


@pytest.mark.parametrize(
    ("learner", "told"),
    [
        (Halves, "'halves' gives no network to export"),
        (Wrong, "gives other outputs"),
        (Narrow, "gives other outputs"),
        (Stuck, "'halves' of party 'shop' cannot be"),
    ],
)
def test_what_cannot_be_exported_leaves_no_file(tmp_path, learner, told):
    guest = Guest("shop", learner=learner(), dim=2)
    guest.learn(X)
    with pytest.raises(InputError, match=told):
        export_guest(guest, tmp_path / "guest.onnx")
    assert not list(tmp_path.iterdir())


def test_nothing_learnt_and_nothing_installed(tmp_path, monkeypatch):
    guest = Guest("shop", learner="pca", dim=2)
    with pytest.raises(InputError, match="has not learnt yet"):
        export_guest(guest, tmp_path / "guest.onnx")
    with pytest.raises(InputError, match="has not been trained yet"):
        export_host(Host("bank"), tmp_path / "host.onnx")
    guest.learn(X)
    with pytest.raises(InputError, match="cannot be written"):
        export_guest(guest, tmp_path / "no folder" / "guest.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"pip install 'fedonce\[onnx\]'"):
        export_guest(guest, tmp_path / "guest.onnx")
    assert not list(tmp_path.iterdir())
