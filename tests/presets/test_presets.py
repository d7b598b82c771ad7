"""The presets against the paper's own text, number by number, where FEDONCE_PAPER names its source."""

from __future__ import annotations

import os
import re
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from fedonce import NCF, BudgetError, FedOnceClassifier, FedOnceRegressor, InputError, presets
from fedonce.learners import NAT
from fedonce.privacy.ledger import LEAST_RATE, STEPS_LIMIT
from tests.conftest import make_table

NAMES = {
    "gisette": "gisette",
    "covtype": "covtype",
    "phishing": "phishing",
    "UJIIndoorLoc": "ujiindoorloc",
    "Superconduct": "superconduct",
    "MNIST": "mnist",
    "KMNIST": "kmnist",
    "Fashion-MNIST": "fashion-mnist",
    "NUS-WIDE": "nus-wide",
    "MovieLens": "movielens",
}
HOSTS = {"*": None, "0": "ids", "1": "auxiliary"}


@pytest.fixture(scope="module")
def paper():
    path = os.environ.get("FEDONCE_PAPER")
    if not path or not Path(path).is_file():
        pytest.skip("FEDONCE_PAPER names no file with the paper's LaTeX source")
    return Path(path).read_text()


def rows_of(paper: str, label: str) -> list[list[str]]:
    """Return the cells of a table, without LaTeX's dressing; a cell over several rows stays in the first of them."""
    start = paper.index(f"\\label{{{label}}}")
    end = paper.index("\\end{tabular}", start)
    body = paper[paper.index("\\midrule", start) : end]
    body = re.sub(r"\\multirow\{\d\}\{\*\}\{(\\makecell\{.*?\}|.*?)\}(?=\s*&)", r"\1", body, flags=re.DOTALL)
    body = re.sub(r"\\makecell\{(.*?)\}", lambda cell: cell.group(1).replace("\\\\", "/"), body, flags=re.DOTALL)
    body = re.sub(r"\\(midrule|bottomrule)", "", body)
    body = body.replace("$\\times$", "x").replace("$\\rightarrow$", "->")
    return [[cell.strip() for cell in line.split("&")] for line in body.split("\\\\") if line.strip()]


def hyperparameters(settings: presets.Settings) -> list[float]:
    steps = [settings.guest, settings.host]
    return [value for step in steps for value in (step.rate, step.weight_decay, step.batch, step.epochs)]


def test_models_of_level_0(paper):
    rows = rows_of(paper, "tab:apdx_model_0")
    assert len(rows) == 10
    for name, guest, host in rows:
        found = presets.settings(NAMES[name])
        model = found.guest_model
        assert (model if isinstance(model, str) else "/".join(model.values())) == guest
        assert found.host_model == host


def test_models_of_level_1(paper):
    rows = rows_of(paper, "tab:apdx_model_1")
    assert len(rows) == 6
    for name, guest, host in rows:
        found = presets.settings(NAMES[name], 1, epsilon=2)
        assert (found.guest_model, found.host_model) == (guest, host)


def test_hyperparameters_of_level_0(paper):
    rows = rows_of(paper, "tab:hyper_l0")
    assert len(rows) == 11
    name = ""
    for first, host, *cells in rows:
        name = first or name
        found = presets.settings(NAMES[name], host=HOSTS[host])
        assert hyperparameters(found) == [float(cell) for cell in cells[:8]], name
        assert [found.dim, found.update_every] == [int(cell) for cell in cells[8:10]], name
        assert found.optimizer == cells[10]


def test_hyperparameters_of_level_1(paper):
    rows = rows_of(paper, "tab:hyper_l1")
    assert len(rows) == 16
    names: list[str] = []
    seen = set()
    for first, epsilon, *cells in rows:
        names = [NAMES[name] for name in first.split("/")] if first else names
        for name in names:
            found = presets.settings(name, 1, epsilon=float(epsilon))
            assert hyperparameters(found) == [float(cell) for cell in cells[:8]], (name, epsilon)
            assert [found.dim, found.update_every, found.clip] == [float(cell) for cell in cells[8:11]], (name, epsilon)
            assert found.optimizer == "SGD"
            seen.add((name, epsilon))
    assert len(seen) == 24
    assert set(presets.names(1)) == {name for name, _ in seen} | {"covtype"}


def test_delta_of_level_1(paper):
    found = dict(re.findall(r"Performance on ([\w-]+), \$\\delta=10\^\{(-\d)\}\$", paper))
    assert len(found) == 6
    for name, exponent in found.items():
        assert presets.settings(NAMES[name], 1, epsilon=2).delta == pytest.approx(10 ** int(exponent)), name
        assert presets.load(NAMES[name], 1, epsilon=2)["delta"] == pytest.approx(10 ** int(exponent))


def test_parties_of_level_0(paper):
    for k, names in {10: "Binary classification datasets", 4: "Multi-class classification datasets"}.items():
        assert f"{names} ($k={k}$)" in paper
    assert "Regression datasets ($k=10$)" in paper
    for name in ("gisette", "covtype", "phishing", "ujiindoorloc", "superconduct"):
        assert presets.load(name)["parties"] == 10
    for name, k in {"mnist": 4, "kmnist": 4, "fashion-mnist": 4, "nus-wide": 5, "movielens": 2, "cifar10": 4}.items():
        assert len(presets.load(name)["parties"]) == k


def test_covtype_s_level_1_is_the_published_code_s():
    expected = {
        2: (0.3, 0.3, 32, 10, 30, 1.0),
        4: (0.2, 0.2, 32, 6, 30, 1.0),
        6: (0.3, 0.3, 128, 10, 30, 1.5),
        8: (0.3, 0.6, 128, 10, 40, 1.5),
    }
    for epsilon, (eta, host_eta, batch, epochs, host_epochs, clip) in expected.items():
        found = presets.settings("covtype", 1, epsilon=epsilon)
        assert hyperparameters(found) == [eta, 0, batch, epochs, host_eta, 0, batch, host_epochs]
        assert (found.dim, found.clip) == (3, clip)


def test_load_gives_an_estimator_s_arguments():
    preset = presets.load("phishing")
    assert preset["learner"].hidden == (30, 30)
    assert isinstance(preset["learner"], NAT)
    assert preset["learner"].epochs == 100
    recipe = preset["recipe"]
    assert (recipe.encoder_hidden, recipe.encoder_dim, recipe.head) == ((30, 30), 3, (30,))
    assert (recipe.epochs, recipe.batch, recipe.rate, recipe.weight_decay) == (300, 100, 1e-4, 1e-4)
    assert not recipe.standardise
    assert preset["bits"] == 32
    FedOnceClassifier(**preset)


def test_images_have_their_networks():
    assert presets.load("mnist")["learner"].network == "cnn0"
    assert presets.load("mnist", 1, epsilon=8)["recipe"].network == "cnn1"


@pytest.mark.parametrize(
    ("host", "guest", "dim"), [("ids", "auxiliary", 3), ("auxiliary", "ids", 48), (None, "auxiliary", 3)]
)
def test_movielens_depends_on_the_host(host, guest, dim):
    preset = presets.load("movielens", host=host)
    assert list(preset["learner"]) == [guest]
    assert preset["dim"] == dim
    assert isinstance(preset["recipe"].network, NCF)
    assert preset["recipe"].network != preset["learner"][guest].network


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("iris",), "'name' parameter of presets must be one of gisette, .* at level 0. Got 'iris'"),
        (("kmnist", 1, None, 2), "must be one of gisette, .* at level 1. Got 'kmnist'"),
        (("mnist", 2), "'level' parameter of presets must be 0 or 1. Got 2"),
        (("mnist", 1), "'epsilon' parameter of presets must be one of 2, 4, 6, 8 at level 1. Got None"),
        (("mnist", 1, None, 3), "Got 3"),
        (("mnist", 1, None, 2.0000001), "Got 2.0000001"),
        (("mnist", 1, None, "2"), "Got '2'"),
        (("mnist", True), "Got True"),
        (("mnist", 1.0), "Got 1.0"),
        ((["mnist"],), "'name' parameter"),
        (("mnist", 0, None, 2), "must be None at level 0"),
        (("mnist", 0, "party5"), "'host' parameter of presets must be one of party1, .* or None. Got 'party5'"),
        (("phishing", 1, "party5", 2), "Got 'party5'"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        presets.load(*arguments)


def test_a_preset_is_the_caller_s_own():
    presets.load("mnist")["parties"].pop("party4")
    presets.settings("movielens").embeddings["ids"].append(9)
    assert len(presets.load("mnist")["parties"]) == 4
    assert presets.settings("movielens").embeddings["ids"] == [32, 32]


def test_a_preset_trains():
    X, y = make_table(120)
    preset = presets.load("phishing") | {"parties": 2, "epochs": 1, "host_epochs": 1}
    assert FedOnceClassifier(**preset, random_state=0).fit(X, y).traffic_.messages == 1


@pytest.mark.parametrize("host", ["ids", "auxiliary"])
def test_movielens_preset_trains_on_a_few_real_ratings(data_folder, host):
    from fedonce.datasets import fetch_movielens

    data = fetch_movielens(data_folder, download=False)
    preset = presets.load("movielens", host=host) | {"epochs": 1, "host_epochs": 1}
    rows = data.data.slice(0, 2000)
    model = FedOnceRegressor(**preset, random_state=0).fit(rows, data.target[:2000])
    assert model.representations_[next(iter(preset["learner"]))].values.shape == (2000, preset["dim"])
    assert np.isfinite(model.predict(data.data.slice(480_000, 50))).all()  # users that training has not seen


def test_level_1_is_the_papers_and_must_be_asked_for_by_name():
    X, y = make_table(200)
    settings = presets.load("phishing", 1, epsilon=2) | {"parties": 2, "epochs": 1, "host_epochs": 1}
    public = {"bounds": (-100, 100), "target_bounds": np.unique(y)}
    model = FedOnceClassifier(**settings, **public).set_params(privacy__insecure_test_seed=0)
    with pytest.raises(BudgetError, match="unsound_paper_reproduction"):
        model.fit(X, y)
    model.set_params(privacy__unsound_paper_reproduction=True).fit(X, y)
    assert model.privacy.clip == presets.settings("phishing", 1, epsilon=2).clip
    assert model.ledger_.nominal
    assert model.ledger_.delta == settings["delta"]
    assert model.predict(X).shape == y.shape


def test_the_paper_s_private_settings_can_be_priced():
    """What other parties may say is bounded: what the paper does must lie within the bounds, also on a million rows."""
    rows = 10**6
    text = (resources.files("fedonce.presets") / "level1.toml").read_text()
    found = [(int(batch), int(epochs)) for batch, epochs in re.findall(r"batch = (\d+), epochs = (\d+)", text)]
    assert len(found) > 40
    for batch, epochs in found:
        assert epochs * rows / batch <= STEPS_LIMIT
        assert batch / rows >= LEAST_RATE
