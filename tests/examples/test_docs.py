"""The code in the documentation runs."""

from __future__ import annotations

import ast
import re
from dataclasses import asdict, fields

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fedonce import Guest, Hinting, Privacy, Representation
from fedonce.assess import what_leaks
from fedonce.assess.attacks import ATTACKS
from fedonce.cli.entry import app
from fedonce.data.table import Table
from fedonce.datasets import SOURCES
from fedonce.errors import MessageError
from fedonce.hostmodels import HOST_MODELS
from fedonce.learners import LEARNERS, make
from fedonce.messages import codecs
from fedonce.messages.hints import keep_of
from fedonce.party.hinting import publish
from fedonce.training.checkpoints import Progress
from tests.conftest import ROOT, make_table

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "learners.md").read_text(), re.DOTALL)


@pytest.fixture
def learners_as_before():
    before = dict(LEARNERS)
    yield
    LEARNERS.clear()
    LEARNERS.update(before)


def last_expression(code: str):
    """Run a block of the documentation and return the estimator that its last statement makes."""
    start = code.rindex("FedOnceClassifier(")
    names: dict = {}
    exec(code[:start] + "model = " + code[start:], names)
    return names["model"]


def test_own_learner(learners_as_before):
    X, y = make_table()
    model = last_expression(BLOCKS[0]).set_params(host_epochs=1, random_state=0).fit(X, y)
    assert model.representations_["party2"].learner == "projected"
    learner = make("projected")
    learner.fit(X.astype(np.float32), 3, np.random.default_rng(0), None)
    restored = make("projected")
    restored.restore(learner.state())
    np.testing.assert_array_equal(restored.transform(X, None), learner.transform(X, None))


def test_own_host_model():
    X, y = make_table()
    before = dict(HOST_MODELS)
    code = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "host-models.md").read_text(), re.DOTALL)[0]
    try:
        assert last_expression(code).set_params(random_state=0).fit(X, y).score(X, y) > 0.75
    finally:
        HOST_MODELS.clear()
        HOST_MODELS.update(before)


def test_host_models_are_described_as_they_are():
    text = (ROOT / "docs" / "host-models.md").read_text()
    for name, built_in in HOST_MODELS.built_in.items():
        line = next(line for line in text.splitlines() if line.startswith(f'| `"{name}"`'))
        assert [cell.strip() == "yes" for cell in line.split("|")[3:-1]] == list(asdict(built_in.facts).values())


def test_own_network():
    X, y = make_table()
    model = last_expression(BLOCKS[1]).set_params(host_epochs=1, epochs=1, random_state=0).fit(X[:, :7], y)
    assert model.representations_["shop"].dim == 8


def test_own_loss():
    X, y = make_table()
    code = next(block for block in BLOCKS if "class Denoiser" in block)
    model = last_expression(code).set_params(host_epochs=1, random_state=0).fit(X, y)
    told, learner = [], model.learner
    message = Guest("shop", learner, dim=3).learn(X, progress=Progress(lambda *line: told.append(line)))
    assert (message.learner, told[-1]) == ("denoiser", (20, 20, "denoiser"))
    assert Guest("shop", learner, dim=3).learn(X).to_bytes() == message.to_bytes()


def test_messages_by_hand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = make_table()
    code = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "message.md").read_text(), re.DOTALL)[0]
    tables = {"shop_table": X[:, 4:], "bank_table": X[:, :4], "labels": y}
    tables |= {"new_shop_rows": X[:5, 4:], "new_bank_rows": X[:5, :4]}
    exec(code.replace('Host("bank")', 'Host("bank", epochs=1)'), tables)
    assert (tmp_path / "shop.fedonce").exists()


def test_the_encoding_of_the_page_on_messages(monkeypatch):
    code = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "message.md").read_text(), re.DOTALL)[1]
    monkeypatch.setattr(codecs, "CODECS", dict(codecs.CODECS))
    exec(code, {})
    X, _ = make_table(30)
    sent = Guest("shop", "pca", 3, "signs").learn(X)
    got = Representation.from_bytes(sent.to_bytes())
    assert (set(np.unique(got.values)), got.payload_bytes) == ({-1.0, 1.0}, 12)


def test_rounds_and_noise():
    X, y = make_table()
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "rounds.md").read_text(), re.DOTALL)
    for block in blocks:
        for line in [line for line in block.splitlines() if line.startswith("FedOnceClassifier(")]:
            names: dict = {}
            exec("from fedonce import FedOnceClassifier, Rounds\nmodel = " + line.replace("5_000_000", "50_000"), names)
            model = names["model"].set_params(host_epochs=1, dim=2, random_state=0).fit(X, y)
            assert model.predict(X).shape == (300,)
            assert bool(model.traffic_.rounds) == ("rounds=" in line)


def test_what_leaks_and_an_attack_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    looked, protected, own = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "leakage.md").read_text(), re.DOTALL)
    X, _ = make_table()
    pd.DataFrame(X).add_prefix("c").to_csv("shop.csv", index=False)
    with pytest.raises(MessageError, match="refused"):
        exec(looked, {})
    exec(protected, {})
    before = dict(ATTACKS)
    try:
        exec(own, {})
        found = what_leaks(X[:, :1], Table.of(X), ["echo"])
    finally:
        ATTACKS.clear()
        ATTACKS.update(before)
    assert [each.score for each in found.findings] == [1.0] + [0.0] * (X.shape[1] - 1)


def test_attacks_are_described_as_they_are():
    text = (ROOT / "docs" / "leakage.md").read_text()
    for name, built_in in ATTACKS.built_in.items():
        line = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
        assert line.endswith("| quick |") == built_in.facts.quick


def test_using_it_from_python():
    settings, whole = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "using.md").read_text(), re.DOTALL)
    made = values(settings)
    assert len(made) == 18
    X, y = make_table()
    for model in (made[5], made[6], made[8]):
        assert (
            model.set_params(parties=3, model="linear", random_state=0, epochs=1, n_jobs=None).fit(X, y).score(X, y)
            > 0.5
        )
    names: dict = {}
    exec(whole.replace("random_state=0", "random_state=0, model='linear'"), names)
    model = names["model"]
    assert model.traffic_.messages == 2
    assert model.overlap_["shop"] == pytest.approx(names["has_row"].mean())
    assert model.prediction_traffic_ is not None


DATASETS = (ROOT / "docs" / "datasets.md").read_text()


def test_datasets_load_and_train(data_folder, monkeypatch, capsys):
    monkeypatch.setenv("FEDONCE_DATA", str(data_folder))
    code = re.findall(r"```python\n(.*?)```", DATASETS, re.DOTALL)[0]
    exec(code.replace("random_state=0", "random_state=0, host_epochs=2, epochs=1"), {})
    assert capsys.readouterr().out.startswith("phishing 0.9")


def values(code: str, **names) -> list:
    """Run a block of the documentation and return what its expressions are worth, in their order."""
    found = []
    for line in ast.parse(code).body:
        if isinstance(line, ast.Expr):
            found.append(eval(ast.unparse(line), names))  # noqa: S307 - our own documentation
        else:
            exec(ast.unparse(line), names)
    return found


def test_divisions(rng):
    pytest.importorskip("xgboost")
    code = re.findall(r"```python\n(.*?)```", DATASETS, re.DOTALL)[1]
    rows, labels = rng.standard_normal((100, 60)), rng.integers(0, 2, 100)
    even, tiles, views, biased, _ = values(code, X_train=rows, y_train=labels)
    assert [len(even), len(tiles), len(biased)] == [10, 4, 2]
    assert {pixels.shape for pixels in tiles.values()} == {(1, 14, 14)}
    assert {name: len(columns) for name, columns in views.items()} == {"CH": 64, "CORR": 144}
    assert sorted(column for columns in biased.values() for column in columns) == list(range(60))


def test_presets_and_embeddings():
    phishing, movielens, mnist, numbers = values(re.findall(r"```python\n(.*?)```", DATASETS, re.DOTALL)[2])
    assert phishing.get_params()["dim"] > 0
    assert movielens["host"] == "auxiliary"
    assert (mnist["epsilon"], mnist["dim"]) == (2, numbers.dim)
    (regressor,) = values(BLOCKS[3])
    assert regressor.recipe.network.embeddings == (32, 32)


def test_the_table_of_data_sets_is_that_of_the_sources():
    for source in SOURCES.values():
        facts = f"| {source.name} | {source.rows:,} | {source.columns:,} | {source.task} |"
        line = next(line for line in DATASETS.splitlines() if line.startswith(facts))
        assert line.endswith(f"| {source.licence} |")


def test_every_field_of_privacy_is_described():
    text = (ROOT / "docs" / "privacy.md").read_text()
    table = text[text.index("| field | default |") : text.index("`privacy=` and short forms may be mixed")]
    assert set(re.findall(r"`(\w+)`", table)) == {field.name for field in fields(Privacy)}


def test_privacy_budgets(tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "privacy.md").read_text()
    budget, expert, by_hand = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    n = 200
    table = pd.DataFrame(
        {"income": rng.uniform(0, 2e5, n), "age": rng.uniform(18, 110, n), "spent": rng.uniform(0, 5e4, n)}
    )
    table["city"] = rng.choice(["Basel", "Bern", "Zug"], n)
    names = {"table": table, "labels": np.where(table.income > 1e5, "yes", "no")}
    exec(budget.replace("epsilon=2.0,", "epsilon=2.0, host_epochs=1, accountant='rdp',"), names)
    assert names["model"].ledger_.epsilon() <= 2.0
    exec(expert, names)
    rows = rng.random((n, 4))
    names["model"].set_params(privacy__accountant="rdp", host_epochs=1).fit(rows, (rows[:, 0] > 0.5).astype(int))
    assert names["model"].ledger_.epsilon() <= 2.0
    assert (names["privacy"].clip, names["model"].privacy.clip) == (0.5, 0.3)
    plan = "privacy plan --epsilon 2 --parties bank,shop --rows 200 --host-epochs 1 --accountant rdp --out plan.json"
    assert CliRunner().invoke(app, plan.split()).exit_code == 0
    X, y = rng.random((n, 8)), rng.integers(0, 2, n)
    exec(by_hand, {"shop_table": X[:, 4:], "bank_table": X[:, :4], "labels": y})
    assert (tmp_path / "shop.fedonce").exists()


HINTS = (ROOT / "docs" / "hints.md").read_text()


@pytest.mark.filterwarnings("ignore:No guest had use for the hints")
def test_hints(tmp_path, monkeypatch, rng, capsys):
    monkeypatch.chdir(tmp_path)
    n = 300
    table = pd.DataFrame(rng.standard_normal((n, 6)), columns=["income", "age", "visits", "spent", "basket", "returns"])
    labels = np.where(table.income + table.spent > 0, "yes", "no")
    names = {"table": table, "labels": labels, "labels_of_last_year": labels}
    table.iloc[:, 2:].to_csv("shop.csv", index=False)
    ids = np.array([f"c{i}" for i in range(n)], dtype=object)
    names |= {"secret": b"s" * 32, "key": b"k" * 32, "bank_ids": ids}
    images, tables, more, by_hand = re.findall(r"```python\n(.*?)```", HINTS, re.DOTALL)
    exec(images, names)
    told = capsys.readouterr().out
    assert "hints at 'label'" in told
    assert "3 of 3 values by hints" in told
    exec(tables, names)
    assert [message.note for message in names["model"].representations_.values()] == ["4 of 8 values by hints"]
    exec(more, names)
    numbers = names["limits"].set_params(model="linear").fit(table, 100_000 * rng.random(n))
    assert numbers.hints_.classes == 3
    assert "as it is" in str(names["model"].set_params(model="linear").fit(table, labels).ledger_)
    table.iloc[:, 2:].assign(client_no=ids).to_csv("shop.csv", index=False)
    exec(by_hand, names)
    assert Representation.from_file("shop.fedonce").hints == "2.0 repaid"


def test_the_table_of_hints_is_that_of_randomised_response():
    lines = re.findall(r"^\| ([\d.]+) \| (\d+) % \| (\d+) % \| ([\d.]+) \|$", HINTS, re.MULTILINE)
    assert len(lines) == 4
    for epsilon, *shown in lines:
        found = [round(100 * keep_of(classes, float(epsilon))) for classes in (2, 10)]
        assert [*map(float, shown)] == [*found, float(f"{np.exp(float(epsilon)):.2g}")]


def test_the_formats_of_hints_are_as_described():
    text = (ROOT / "docs" / "message.md").read_text()
    section = text[text.index("## Hints") : text.index("## Other files")]
    header, tensors = publish([1.0, 2.0, 3.0], Hinting(2.0, (1.5, 2.5)), "regression")._content()
    assert {*header, *tensors, "format", "checksum", "ids", "normalised", "signature"} <= set(
        re.findall(r"`(\w+)`", section)
    )
