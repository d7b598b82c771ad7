"""A model's folder that somebody changed, checksums and all: it loads and works, or it is refused; never anything else."""

from __future__ import annotations

import copy
import json

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import save as save_tensors

from fedonce import FedOnceError, Guest, Hinting, Host, InputError, Recipe
from fedonce.data.schema import Reading
from fedonce.learners import NAT, PCA, Autoencoder, Cells, Hinted, Quantiles
from fedonce.party import storage
from fedonce.party.hinting import publish
from fedonce.party.storage import MANIFEST

N, FORGERIES = 40, 120
ODD = [
    None,
    True,
    0,
    1,
    -1,
    3,
    2**31,
    2**63,
    10**30,
    0.5,
    -1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "9",
    [],
    [1],
    [[]],
    {},
    {"x": 1},
    ["x"] * 3,
]
SHAPES = [(0,), (1,), (0, 3), (1, 1), (3, 0), (2, 2, 2), ()]


def table(rng, n=N):
    numbers = rng.standard_normal((n, 2))
    return pd.DataFrame(
        {
            "age": numbers[:, 0],
            "spent": numbers[:, 1],
            "town": np.where(numbers[:, 0] > 0, "Bern", "Ulm"),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 99, n), "D"),
        }
    )


def guests(rng, learners):
    for learner in learners:
        reading = Reading("who", ("age", "spent", "town", "since"), {"age": "number"})
        guest = Guest("shop", learner, 2, noise=0.1 if isinstance(learner, PCA) else 0.0, reading=reading)
        guest.learn(table(rng))
        yield guest


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders with a guest or a host, and how each is used."""
    rng, made = np.random.default_rng(0), []

    def add(guest):
        folder = guest.save(tmp_path_factory.mktemp("guest"))
        made.append((folder, "guest", lambda folder: Guest.load(folder).represent(table(np.random.default_rng(1)))))

    for guest in guests(rng, [PCA(), Autoencoder(hidden=(4,), epochs=1), NAT(hidden=(4,), epochs=1)]):
        add(guest)
    message = guest.represent(table(rng))
    for task, label in (("classification", np.arange(N) % 3), ("regression", np.arange(N) / 7)):
        recipe = Recipe(
            encoder_hidden=(4,), encoder_dim=2, head=(4,), epochs=1, members=2 if task == "regression" else 1
        )
        host = Host("bank", task, recipe)
        host.aggregate(table(rng), label, [message])
        folder = host.save(tmp_path_factory.mktemp("host"), {"shop": message.to_bytes()})
        made.append(
            (folder, "host", lambda folder: Host.load(folder).outputs(table(np.random.default_rng(1)), [message]))
        )
    for other in guests(rng, [Cells(cells=3, least=5, layers=2, together=True), Quantiles(least=5)]):
        add(other)
    hinted = Guest("shop", Hinted(hidden=(4,), base="pca", epochs=1, share=0.5), 2)
    hinted.learn(table(rng, 240), hints=publish(np.arange(240) % 2, Hinting(4.0)))
    assert hinted.learner.hinted_ == 1
    add(hinted)
    return made


def places(value, path=()):
    """All places in a JSON value."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def changed(content, rng):
    """Change a JSON value in one place: another value, one less, one twice."""
    content = copy.deepcopy(content)
    every = [path for path in places(content) if path]
    *way, last = every[rng.integers(len(every))]
    inner = content
    for key in way:
        inner = inner[key]
    how = rng.integers(4)
    if how == 0:
        del inner[last]
    elif how == 1 and isinstance(inner, list):
        inner.insert(last, inner[last])
    elif how == 2 and isinstance(inner[last], int | float):
        inner[last] = inner[last] * [-1, 0, 2, 10**6, 10**12][rng.integers(5)] + int(rng.integers(2))
    else:
        inner[last] = ODD[rng.integers(len(ODD))]
    return content


def bent(weights, rng):
    """Change one array: its shape, its type, its values, or whether it is there."""
    weights = dict(weights)
    name = list(weights)[rng.integers(len(weights))]
    value, how = weights.pop(name), rng.integers(7)
    if how == 1:
        weights[name] = np.zeros(SHAPES[rng.integers(len(SHAPES))], value.dtype)
    elif how == 2:
        weights[name] = np.ascontiguousarray(value.astype(["f8", "f2", "i1", "u8", "?"][rng.integers(5)]))
    elif how == 3:
        weights[name] = np.full_like(value, [0, 1, 120][rng.integers(3)])
    elif how == 4 and value.dtype.kind == "f":
        weights[name] = np.full_like(value, [np.nan, np.inf, -1e38][rng.integers(3)])
    elif how == 5 and value.ndim:
        weights[name] = np.ascontiguousarray(np.concatenate([value, value]))
    elif how == 6 and value.ndim == 2:
        weights[name] = np.ascontiguousarray(value.T)
    return weights


def forge(folder, target, rng):
    """Write a model with one thing changed, and checksums that fit."""
    stored = storage.load(folder, storage.kind(folder))
    parts = {"settings": stored.settings, "encoding": stored.encoding}
    which = ["settings", "encoding", "weights"][rng.integers(3)]
    if which in parts:
        parts[which] = changed(parts[which], rng)
    weights = bent(stored.weights, rng) if which == "weights" else stored.weights
    data = {name: json.dumps(value).encode() for name, value in parts.items()} | {"weights": save_tensors(weights)}
    target.mkdir(exist_ok=True)
    listed = {
        name: storage._write_part(target, name, "safetensors" if name == "weights" else "json", text)
        for name, text in data.items()
    }
    manifest = {"fedonce model": 2, "kind": stored.kind, "files": listed, "leaving": {}}
    (target / MANIFEST).write_bytes(storage._manifest_bytes(manifest))


@pytest.mark.parametrize("which", range(8))
@pytest.mark.filterwarnings("ignore")
def test_a_forged_model_works_or_is_refused(models, tmp_path, which, monkeypatch):
    folder, _, use = models[which]
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    rng = np.random.default_rng(which)
    worked = 0
    for _ in range(FORGERIES):
        target = tmp_path / "forged"
        state = rng.bit_generator.state
        forge(folder, target, rng)
        try:
            use(target)
            worked += 1
        except FedOnceError:
            pass
        except BaseException as error:
            raise AssertionError(f"forged with {state}: {(target / MANIFEST).read_text()}") from error
    assert 0 < worked < FORGERIES


@pytest.mark.parametrize(
    ("which", "change"),
    [
        (1, lambda settings: settings["learner"]["settings"].update(hidden=[10**9, 10**9])),
        (1, lambda settings: settings["learner"]["settings"].update(hidden=[1] * 10**5)),
        (3, lambda settings: settings.update(dims={"shop": 10**12})),
        (3, lambda settings: settings["recipe"].update(head=[10**7, 10**7])),
        (3, lambda settings: settings["recipe"].update(members=10**9)),
        (3, lambda settings: settings["recipe"].update(encoder_dim=10**15)),
    ],
)
def test_sizes_in_settings_take_no_memory(models, tmp_path, monkeypatch, which, change):
    """Only networks without memory are built before shapes are compared."""
    folder, kind, use = models[which]
    stored = storage.load(folder, kind)
    change(stored.settings)
    storage.save(tmp_path, stored)
    linear = torch.nn.Linear.__init__

    def counted(self, *given, **named):
        linear(self, *given, **named)
        assert self.weight.device.type == "meta"

    monkeypatch.setattr(torch.nn.Linear, "__init__", counted)
    with pytest.raises(FedOnceError):
        use(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"edges": [0] * 7},
        {"tails": [0]},
        {"edges": [[0, 0]]},
        {"edges": [-1, 0]},
        {"tails": [0, N + 1]},
        {"quantiles": []},
        {"quantiles": [], "edges": [], "tails": []},
        {"quantiles": [[0.0] * 21]},
        {"quantiles": [[1e300] * 21] * 2},
        {"quantiles": [list(range(21, 0, -1))] * 2},
        {"rows": 10**30},
        {"rows": 10**18},
        {"rows": -1},
    ],
)
def test_figures_that_no_message_has_are_refused(models, tmp_path, change):
    """They would fail in the midst of a prediction, or keep it busy for ever."""
    folder, kind, _ = models[3]
    stored = storage.load(folder, kind)
    stored.settings["seen"]["shop"].update(change)
    storage.save(tmp_path, stored)
    with pytest.raises(InputError, match="cannot be read .*its (figures|quantiles|counts)"):
        Host.load(tmp_path)
