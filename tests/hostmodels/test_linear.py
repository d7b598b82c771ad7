"""A linear model of the host: its coefficients by party, and what they add to each prediction."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fedonce import FedOnceClassifier, FedOnceRegressor, Guest, Host, InputError
from fedonce.hostmodels import Examples, Inputs
from fedonce.hostmodels.linear import PENALTIES, TRIED, LinearModel
from tests.conftest import make_table
from tests.hostmodels.test_trees import COLUMNS, CPU, outputs

X, Y = make_table(300)


def examples(n=500, classes=0, seed=0):
    rng = np.random.default_rng(seed)
    own, values = rng.standard_normal((n, 2)) * [1, 5] + 3, rng.standard_normal((n, 3))
    number = own[:, 0] - 2 * values[:, 1]
    number = (number - number.mean()) / number.std()
    target = np.digitize(number, np.linspace(-1, 1, classes - 1)) if classes else number
    parts = (own, values, np.ones((n, 2)))
    return Examples(*(part.astype(np.float32) for part in parts), target)


def trained(rows, n_outputs=1):
    model = LinearModel()
    model.fit(rows, (2, 1), n_outputs, np.random.default_rng(0), CPU)
    return model


def test_an_estimator_learns_classes_and_numbers():
    model = FedOnceClassifier(model="linear", **COLUMNS).fit(X[:200], Y[:200])
    assert model.score(X[200:], Y[200:]) > 0.85
    number = X[:, 0] + X[:, 4]
    assert FedOnceRegressor(model="linear", **COLUMNS).fit(X[:200], number[:200]).score(X[200:], number[200:]) > 0.95


def test_coefficients_are_those_of_the_rule():
    found = trained(examples()).coefficients(["age", "income"], ["shop", "telco"], "bank")
    assert list(found) == ["bank", "shop", "telco"]
    assert list(found["shop"]) == ["value 1", "value 2", "has the row"]
    by_name = {name: float(weight[0]) for party in found.values() for name, weight in party.items() if "1" not in name}
    assert by_name["age"] == pytest.approx(1 / 5**0.5, rel=0.1)
    assert by_name["value 2"] == pytest.approx(-2 / 5**0.5, rel=0.1)
    assert abs(by_name["income"]) < 0.02
    with pytest.raises(InputError, match="2 own columns and 2 guests. Got 1 and 2 names"):
        trained(examples()).coefficients(["age"], ["shop", "telco"])


@pytest.mark.parametrize("classes", [0, 2, 4])
def test_contributions_add_up_to_the_outputs(classes):
    rows = examples(classes=classes)
    lacks = rows.present.copy()
    lacks[::3, 0] = 0
    rows = Examples(rows.own, rows.values, lacks, rows.target)
    model = trained(rows, max(classes, 1))
    found = model.contributions(rows.own, rows.values, rows.present, CPU)
    assert found.shape == (500, max(classes, 1), 2 + 3 + 1)
    np.testing.assert_allclose(found.sum(axis=2), outputs(model, rows), atol=1e-5)
    np.testing.assert_array_equal(outputs(model, rows.take(np.arange(5, 9))), outputs(model, rows)[5:9])


def test_two_classes_are_a_logistic_regression():
    rows = examples(classes=2)
    model = trained(rows, 2)
    table = np.hstack([rows.own, rows.values]).astype(np.float64)
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    same = LogisticRegression(C=1 / (model.penalty_ * 500), max_iter=1000).fit(table, rows.target)
    found = outputs(model, rows)
    np.testing.assert_allclose(found[:, 1] - found[:, 0], same.decision_function(table), rtol=0.01, atol=0.01)


def test_noise_gets_a_large_penalty():
    rng = np.random.default_rng(0)
    noise = Examples(
        *(rng.standard_normal((60, width)).astype(np.float32) for width in (20, 3)),
        np.ones((60, 2), np.float32),
        rng.standard_normal(60),
    )
    assert trained(noise).penalty_ >= PENALTIES[-3]
    assert trained(examples()).penalty_ < PENALTIES[-3]


def test_rows_held_back_choose_the_penalty_and_all_rows_are_learnt_from():
    rows, rng = examples(classes=2), np.random.default_rng(0)
    learn, held = rows.take(np.arange(400)), rows.take(np.arange(400, 500))
    noise = Examples(held.own, held.values, held.present, rng.integers(0, 2, 100))
    watched, fooled = LinearModel(), LinearModel()
    watched.fit_watched(learn, held, (2, 1), 2, rng, CPU)
    fooled.fit_watched(learn, noise, (2, 1), 2, rng, CPU)
    assert watched.penalty_ < fooled.penalty_ == max(TRIED)
    before = watched.weights_
    watched.fit_all(rows, (2, 1), 2, rng, CPU)
    assert watched.penalty_ in TRIED
    assert not np.array_equal(watched.weights_, before)


def test_nearly_all_rows_may_be_without_a_weight():
    for classes in (0, 2):
        rows = examples(60, classes=classes)
        weight = np.r_[60.0, np.zeros(59)]
        model = trained(Examples(rows.own, rows.values, rows.present, rows.target, weight), max(classes, 1))
        assert np.isfinite(outputs(model, rows)).all()


def test_an_absent_guest_is_its_mean():
    rows = examples()
    model = trained(rows)
    gone = rows.present * [[0, 1]]
    mean = Examples(rows.own, rows.values.copy(), rows.present, rows.target)
    mean.values[:, :2] = rows.values[:, :2].mean(axis=0)
    np.testing.assert_allclose(outputs(model, rows, gone), outputs(model, mean), atol=1e-4)


def test_a_mark_tells_who_lacks_rows():
    rows = examples()
    lacks = rows.present.copy()
    lacks[:250, 0] = 0
    higher = rows.target + 3.0 * (lacks[:, 0] == 0)
    model = trained(Examples(rows.own, rows.values, lacks, higher - higher.mean()))
    assert model.coefficients("ab", "cd")["c"]["has the row"][0] < -1


def test_weights_count():
    rows = examples(classes=2)
    rows.target[::5] = 1 - rows.target[::5]  # noise: what cannot be told apart goes to the heavier class
    heavy = Examples(rows.own, rows.values, rows.present, rows.target, np.where(rows.target == 1, 1.9, 0.1))
    assert outputs(trained(heavy, 2), rows)[:, 1].mean() > outputs(trained(rows, 2), rows)[:, 1].mean() + 0.2


def test_classes_that_are_rare_or_not_there():
    rows = examples(classes=2)
    rare = Examples(rows.own, rows.values, rows.present, np.where(np.arange(500) == 5, 3, rows.target))
    found = outputs(trained(rare, 5), rows)
    assert np.isfinite(found).all()
    assert set(found.argmax(axis=1)) <= {0, 1, 3}
    one = Examples(rows.own, rows.values, rows.present, rows.target * 0)
    assert (outputs(trained(one, 2), rows).argmax(axis=1) == 0).all()
    few = rows.take(np.arange(6))
    assert np.isfinite(outputs(trained(few, 2), few)).all()


def test_disk(tmp_path):
    message = Guest("shop", "pca", dim=3).learn(X[:, 4:])
    host = Host("bank", model="linear")
    host.aggregate(X[:, :4], Y, [message])
    host.save(tmp_path)
    again = Host.load(tmp_path)
    for messages in ([message], []):
        np.testing.assert_array_equal(again.outputs(X[:, :4], messages), host.outputs(X[:, :4], messages))
    host.model.weights_ = host.model.weights_[:, 1:]
    host.save(tmp_path)
    with pytest.raises(InputError, match="cannot be read .its coefficients are not one per output and input"):
        Host.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state | {"weights": state["weights"] * np.nan},
        lambda state: state | {"bias": state["bias"].astype(np.float32)},
        lambda state: state | {"scale": state["scale"][:1]},
        lambda state: state | {"more": state["bias"]},
        lambda state: {"weights": state["weights"]},
    ],
)
def test_forged_coefficients_are_refused(change):
    state = trained(examples()).state()
    with pytest.raises(ValueError, match="^its coefficients"):
        LinearModel().restore(change(state), Inputs((2,), (2, 1), 1))
    LinearModel().restore(state, Inputs((2,), (2, 1), 1))


def test_an_untrained_model_says_so():
    with pytest.raises(InputError, match="has not been trained yet"):
        LinearModel().state()
