"""Boosted trees as the host's model, and the arrays that they are kept as."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone

from fedonce import FedOnceClassifier, FedOnceRegressor, Guest, Host, InputError
from fedonce.export.onnx import export_host
from fedonce.hostmodels import Examples, Inputs
from fedonce.hostmodels.forest import Forest
from fedonce.hostmodels.trees import TreesModel
from tests.conftest import make_table
from tests.jobs.office import FIT_BANK, SHOP, done, make_office

CPU = torch.device("cpu")
X, Y = make_table(300)
COLUMNS = {"parties": {"bank": [0, 1, 2, 3], "shop": [4, 5, 6, 7]}, "host": "bank", "random_state": 0}


def examples(n=600, classes=0, seed=0):
    """Two guests who know the same, and a target by the host and by either of them."""
    rng = np.random.default_rng(seed)
    own, signal = rng.standard_normal((n, 3)), rng.standard_normal((n, 1))
    values = np.hstack([signal, signal]) + 0.05 * rng.standard_normal((n, 2))
    number = own[:, 0] + 2 * signal[:, 0]
    target = np.digitize(number, np.linspace(-1, 1, classes - 1)) if classes else number / number.std()
    parts = (own, values, np.ones((n, 2)))
    return Examples(*(part.astype(np.float32) for part in parts), target)


def trained(classes=0, model=None, rows=None, seed=0):
    rows = examples(classes=classes) if rows is None else rows
    model = model or TreesModel(trees=80)
    model.fit(rows, (1, 1), max(classes, 1), np.random.default_rng(seed), CPU)
    return model, rows


def outputs(model, rows, present=None):
    return model.outputs(rows.own, rows.values, rows.present if present is None else present, CPU)


def restored(model, inputs):
    again = TreesModel()
    again.restore(model.state(), inputs)
    return again


def test_an_estimator_learns_classes_and_numbers():
    model = FedOnceClassifier(model="trees", **COLUMNS).fit(X[:200], Y[:200])
    assert model.score(X[200:], Y[200:]) > 0.75
    for copy in (pickle.loads(pickle.dumps(model)), clone(model).fit(X[:200], Y[:200])):
        np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    number = X[:, 0] + X[:, 4]
    assert FedOnceRegressor(model="trees", **COLUMNS).fit(X[:200], number[:200]).score(X[200:], number[200:]) > 0.5


@pytest.mark.parametrize("classes", [0, 2, 4])
def test_trees_come_back_to_the_bit(classes):
    model, rows = trained(classes)
    again = restored(model, Inputs((3,), (1, 1), max(classes, 1)))
    for present in (rows.present, rows.present * [[1, 0]], rows.present * 0):
        np.testing.assert_array_equal(outputs(again, rows, present), outputs(model, rows, present))
    found = outputs(model, rows)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(outputs(model, rows.take(np.arange(7, 20))), found[7:20])  # other rows do not matter


@pytest.mark.parametrize("classes", [0, 2, 4])
def test_contributions_add_up_to_the_outputs(classes):
    model, rows = trained(classes)
    for present in (rows.present, rows.present * (np.arange(600) % 2)[:, None]):
        found = model.contributions(rows.own, rows.values, present, CPU)
        assert found.shape == (600, max(classes, 1), 3 + 2 + 1)
        np.testing.assert_allclose(found.sum(axis=2), outputs(model, rows, present), atol=1e-5)
    moved = np.abs(found).mean(axis=(0, 1))
    assert moved[0] > 2 * moved[1]  # the first own column counts, the second does not


def test_an_absent_guest_is_made_up_for_by_another():
    model, rows = trained(rows=examples(1500), model=TreesModel(trees=300))
    test = examples(seed=1)

    def error(present):
        return np.sqrt(np.mean(np.square(outputs(model, test, np.broadcast_to(present, (600, 2)))[:, 0] - test.target)))

    alone, _ = trained(rows=Examples(rows.own, rows.values, rows.present * 0, rows.target), model=TreesModel(trees=300))
    solo = np.sqrt(np.mean(np.square(outputs(alone, test, test.present * 0)[:, 0] - test.target)))
    assert error([1, 1]) < 0.25
    assert max(error([0, 1]), error([1, 0])) < 0.4
    assert error([0, 0]) < 1.15 * solo


def test_values_of_an_absent_guest_do_not_matter():
    model, rows = trained()
    other = Examples(rows.own, rows.values * [[1, 9]], rows.present, rows.target)
    gone = rows.present * [[1, 0]]
    np.testing.assert_array_equal(outputs(model, rows, gone), outputs(model, other, gone))


def test_weights_count():
    rows = examples(classes=2)
    model, _ = trained(2)
    heavy = np.where(rows.target == 1, 1.9, 0.1)
    weighted, _ = trained(2, rows=Examples(rows.own, rows.values, rows.present, rows.target, heavy))
    assert outputs(weighted, rows)[:, 1].mean() > outputs(model, rows)[:, 1].mean() + 0.5
    ones, _ = trained(2, rows=Examples(rows.own, rows.values, rows.present, rows.target, np.ones(600)))
    np.testing.assert_allclose(outputs(ones, rows), outputs(model, rows), atol=1e-5)


def test_few_rows_rare_classes_and_nothing_to_learn():
    few = examples(12, classes=2)
    assert np.isfinite(outputs(trained(2, rows=few)[0], few)).all()
    rows = examples(classes=3)
    rare = np.where(np.arange(600) == 5, 3, rows.target % 2)  # class 2 is never seen, class 3 once
    model, _ = trained(4, rows=Examples(rows.own, rows.values, rows.present, rare))
    assert np.isfinite(outputs(model, rows)).all()
    flat = Examples(rows.own * 0, rows.values * 0, rows.present, rows.own[:, 0].astype(np.float64))
    np.testing.assert_allclose(outputs(trained(rows=flat)[0], flat), flat.target.mean(), atol=1e-6)


@pytest.mark.parametrize(("n", "leaves"), [(20, 31), (3100, 31), (6000, 60), (200_000, 255)])
def test_a_tree_has_a_leaf_for_100_rows(n, leaves):
    model, rows = TreesModel(), examples(20)
    model.inputs_ = Inputs((3,), (1, 1), 1)
    many = Examples(*(np.zeros((n, width), np.float32) for width in (3, 2, 2)), np.zeros(n))
    assert model._settings(many)["num_leaves"] == leaves
    settings = TreesModel(leaves=9, column_share=0.3, row_share=0.6)
    settings.inputs_ = model.inputs_
    chosen = settings._settings(rows)
    names = ("num_leaves", "feature_fraction_bynode", "bagging_fraction")
    assert [chosen[name] for name in names] == [9, 0.3, 0.6]
    assert "feature_fraction" not in chosen  # columns are chosen anew for each split


def test_trees_for_gaps_see_rows_twice_and_trees_of_own_columns_no_guest(monkeypatch):
    grown = []
    grow = TreesModel._grow

    def watched(self, settings, examples, n_trees):
        grown.append((len(examples.target), n_trees, settings["learning_rate"], examples.present.mean()))
        return grow(self, settings, examples, n_trees)

    monkeypatch.setattr(TreesModel, "_grow", watched)
    model, _ = trained(model=TreesModel(trees=80))
    n_trees = model.n_trees_
    half = max(1, n_trees // 2)
    assert [each[:3] for each in grown] == [
        (600, 2 * n_trees, 0.05),
        (2 * 500, half, 0.2),
        (600, grown[2][1], 0.1),
    ]
    shares = [each[3] for each in grown]
    assert shares[:1] + shares[2:] == [1, 0]
    assert 0.3 < shares[1] < 0.6


def redundant(n, seed):
    """Own columns say it all, and nine guests a part of it each, with noise: trees for gaps are worse than own columns."""
    rng = np.random.default_rng(seed)
    own = rng.standard_normal((n, 3))
    values = own[:, np.arange(9) % 3] + 2 * rng.standard_normal((n, 9))
    parts = (own, values, np.ones((n, 9)))
    return Examples(*(part.astype(np.float32) for part in parts), own.sum(axis=1))


def test_where_guests_are_absent_the_model_is_as_good_as_the_host_alone():
    """With trees for gaps alone the error is a third higher than the host's, or more."""
    rows, test = redundant(900, 0), redundant(900, 1)
    joint, alone = TreesModel(trees=200), TreesModel(trees=200)
    joint.fit(rows, (1,) * 9, 1, np.random.default_rng(0), CPU)
    alone.fit(
        replace(rows, values=rows.values[:, :0], present=rows.present[:, :0]), (), 1, np.random.default_rng(0), CPU
    )

    def error(model, present, values=test.values):
        found = model.outputs(test.own, values, present, CPU)[:, 0]
        return float(np.sqrt(np.mean(np.square(found - test.target))))

    floor = error(alone, test.present[:, :0], test.values[:, :0])
    for absent in (1, 3, 6, 9):
        assert error(joint, test.present * (np.arange(9) >= absent)) < 1.1 * floor
    assert joint.own_share_ > 0.5
    joint.own_ = None
    assert error(joint, test.present * (np.arange(9) >= 3)) > 1.2 * floor


def test_a_file_from_before_there_were_trees_of_own_columns_is_read():
    model, rows = trained(2)
    old = {name: array for name, array in model.state().items() if not name.startswith("own")}
    again = TreesModel()
    again.restore(old, Inputs((3,), (1, 1), 2))
    present = rows.present * np.array([1, 0], np.float32)
    model.own_ = None
    np.testing.assert_array_equal(outputs(again, rows, present), outputs(model, rows, present))


@pytest.mark.parametrize("share", [np.array([1.5]), np.array([np.nan]), np.zeros(2)])
def test_a_forged_share_is_refused(share):
    model, _ = trained(model=TreesModel(trees=20))
    with pytest.raises(ValueError, match="its share of own columns"):
        TreesModel().restore(model.state() | {"own_share": share}, Inputs((3,), (1, 1), 1))


def test_rows_held_back_say_how_many_trees_there_are():
    rows, rng = examples(), np.random.default_rng(0)
    learn, held = rows.take(np.arange(500)), rows.take(np.arange(500, 600))
    noise = Examples(held.own, held.values, held.present, rng.standard_normal(100))
    watched, fooled = TreesModel(trees=200), TreesModel(trees=200)
    watched.fit_watched(learn, held, (1, 1), 1, rng, CPU)
    fooled.fit_watched(learn, noise, (1, 1), 1, rng, CPU)
    assert watched.n_trees_ > 3 * fooled.n_trees_
    assert watched.gaps_ is None
    watched.fit_all(rows, (1, 1), 1, rng, CPU)
    assert watched.gaps_ is not None


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("classes", [0, 2])
def test_very_few_rows(n, classes):
    few = examples(n, classes=classes)
    model, _ = trained(classes, rows=few)
    model.fit_watched(few, few, (1, 1), max(classes, 1), np.random.default_rng(0), CPU)
    assert np.isfinite(outputs(model, few)).all()


def test_disk_and_files(tmp_path):
    message = Guest("shop", "pca", dim=3).learn(X[:, 4:])
    host = Host("bank", model=TreesModel(trees=50, leaves=7))
    host.aggregate(X[:, :4], Y, [message])
    host.save(tmp_path / "model")
    again = Host.load(tmp_path / "model")
    assert (again.model.trees, again.prototype.leaves) == (50, 7)
    for messages in ([message], []):
        np.testing.assert_array_equal(again.outputs(X[:, :4], messages), host.outputs(X[:, :4], messages))
    with pytest.raises(InputError, match="'trees' gives no network to export; take model='network' or 'tabm'"):
        export_host(host, tmp_path / "x.onnx")
    folder = make_office(tmp_path)
    done(folder, f"{FIT_BANK.replace('--out bank', '--out trees')} {SHOP} --model trees")
    done(folder, f"host predict bank.csv --model trees --secret secret {SHOP} --out predicted.csv")
    assert (folder / "predicted.csv").read_text().count("\n") == 121


def changed(name, change):
    def forge(arrays):
        arrays = {key: value.copy() for key, value in arrays.items()}
        arrays[name] = change(arrays[name])
        return arrays

    return forge


def set_at(place, value):
    def change(array):
        array[place] = value
        return array

    return change


FORGED = {
    "a column beyond the table": changed("feature", set_at(0, 5)),
    "a negative column": changed("feature", set_at(0, -1)),
    "a circle": changed("left", set_at(1, 0)),
    "a split beyond the tree": changed("right", set_at(0, 10_000)),
    "a leaf beyond the tree": changed("left", set_at(0, -10_000)),
    "one leaf twice": lambda arrays: {**arrays, "left": arrays["right"]},
    "a threshold that is no number": changed("threshold", set_at(3, np.nan)),
    "an infinite value": changed("value", set_at(3, np.inf)),
    "a split by category": changed("decision", set_at(0, 1)),
    "leaves without rows": changed("rows", set_at(0, 0)),
    "more rows than can be counted": changed("rows", set_at(slice(0, 3), 2**31 - 1)),
    "more leaves than there are": changed("leaves", set_at(0, 900)),
    "no leaves": changed("leaves", set_at(0, 0)),
    "a missing leaf": changed("value", lambda value: value[1:]),
    "a missing split": changed("threshold", lambda value: value[1:]),
    "a table": changed("value", lambda value: value[None]),
    "numbers of another kind": changed("feature", lambda value: value.astype(np.float64)),
    "no trees": lambda arrays: {name: value[:0] for name, value in arrays.items()},
    "an array less": lambda arrays: {name: value for name, value in arrays.items() if name != "rows"},
    "an array more": lambda arrays: {**arrays, "more": arrays["rows"]},
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_forged_trees_are_refused(forge):
    model, _ = trained(model=TreesModel(trees=20))
    with pytest.raises(ValueError, match="^its "):
        Forest.restored(forge(model.forest_.arrays()), 5, 1)
    Forest.restored(model.forest_.arrays(), 5, 1)


def test_trees_for_other_outputs_or_guests_are_refused(tmp_path):
    model, _ = trained(4, model=TreesModel(trees=20))
    with pytest.raises(ValueError, match="its trees must be as many for each output"):
        restored(model, Inputs((3,), (1, 1), 7))
    with pytest.raises(ValueError, match="by columns that there are not"):
        restored(model, Inputs((1,), (1, 1), 4))
    host = Host("bank", model="trees")
    host.aggregate(X[:, :4], Y, [])
    host.model.forest_.value[0] = np.nan
    host.save(tmp_path)
    with pytest.raises(InputError, match="cannot be read .its trees must have finite numbers"):
        Host.load(tmp_path)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"trees": 0}, "'trees' parameter of TreesModel of Host must be an integer from 1"),
        ({"leaves": 5000}, "'leaves'.*from 2 to 1024"),
        ({"rate": 0.0}, "'rate'.*above 0"),
        ({"column_share": "all"}, "'column_share'.*'all'"),
    ],
)
def test_wrong_settings(setting, said):
    with pytest.raises(InputError, match=said):
        Host("bank", model=TreesModel(**setting))


def test_images_and_untrained_models():
    with pytest.raises(InputError, match="'trees' takes no images"):
        Host("bank", model="trees", shape=(1, 2, 2)).aggregate(X[:, :4], Y, [])
    with pytest.raises(InputError, match="has not been trained yet"):
        outputs(TreesModel(), examples())


def test_trees_are_told_where_somebody_listens():
    from fedonce.training.checkpoints import told

    heard = []
    rng = np.random.default_rng(0)
    own = rng.normal(size=(200, 3)).astype(np.float32)
    empty = np.zeros((200, 0), np.float32)
    examples = Examples(own, empty, empty, (own[:, 0] > 0).astype(np.int64))

    def fitted():
        model = TreesModel(trees=40)
        model.fit(examples, [], 2, np.random.default_rng(0), torch.device("cpu"))
        return model.outputs(own, empty, empty, torch.device("cpu"))

    before = fitted()
    with told(lambda *tree: heard.append(tree)):
        np.testing.assert_array_equal(fitted(), before)
    assert {stage for *_, stage in heard} == {"trees"}
    assert heard[0][0] == 1
    assert all(number <= most for number, most, _ in heard)


def test_values_that_were_blurred_are_split_on_less():
    rng = np.random.default_rng(0)
    own, values = rng.standard_normal((600, 3)), rng.standard_normal((600, 8))
    rows = Examples(
        *(part.astype(np.float32) for part in (own, values, np.ones((600, 1)))), own[:, 0] + rng.standard_normal(600)
    )
    used = {}
    for noisy in ((), (False,), (True,)):
        model = TreesModel(trees=80)
        model.fit(replace(rows, noisy=noisy), (8,), 1, np.random.default_rng(0), CPU)
        parts = model.contributions(rows.own, rows.values, rows.present, CPU)[:, 0]
        used[noisy] = np.abs(parts[:, 3:11]).sum() / np.abs(parts[:, :3]).sum()
    assert used[()] == used[(False,)]
    assert used[(True,)] < 0.7 * used[()]
