from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.config import Config
from benchmarks.data import breast_cancer, diabetes, digits
from benchmarks.methods import METHODS, calibration, estimator, fedonce, multiround, settings, splitnn
from benchmarks.problem import Problem
from benchmarks.run import parties_of
from fedonce import FedOnceClassifier, Host, InputError, Recipe
from fedonce.datasets import Dataset
from fedonce.hostmodels.recipe import LARGE_IMAGES, find_recipe

QUICK = Config(dim=2, host_epochs=3, guest_epochs=1, device="cpu")


def problem(data=None, host="party1", parties=5):
    data = data or breast_cancer()
    return Problem(data, parties_of(data, {"parties": parties}), host, *data.split(0))


def test_solo_sees_the_host_s_columns_alone_and_combine_sees_all():
    one = problem()
    changed = one.X.copy()
    changed[:, 6:] = 0  # party 1 has the first six columns
    hidden = replace(one, X=changed)
    assert METHODS["Solo"].run(one, QUICK, 0).value == METHODS["Solo"].run(hidden, QUICK, 0).value
    assert METHODS["Combine"].run(one, QUICK, 0).value != METHODS["Combine"].run(hidden, QUICK, 0).value


def test_fedonce_gives_what_the_estimator_gives():
    one = problem()
    result = fedonce.run(one, replace(QUICK, learner="pca"), seed=7)
    model = FedOnceClassifier(one.parties, host="party1", learner="pca", dim=2, host_epochs=3, device="cpu")
    model.random_state = type("Fixed", (np.random.RandomState,), {"randint": lambda self, high: 7})()
    model.fit(one.X, one.y)
    assert result.value == pytest.approx(100 * model.score(one.X_test, one.y_test))
    assert (result.messages, result.payload, result.bytes) == (
        model.traffic_.messages,
        model.traffic_.payload_bytes,
        model.traffic_.bytes,
    )


@pytest.mark.parametrize("data", [breast_cancer, diabetes])
def test_linear_combine_is_scikit_learn_s(data):
    one = problem(data())
    model = LogisticRegression(max_iter=1000) if one.classes else RidgeCV(np.logspace(-3, 4, 8))
    expected = make_pipeline(StandardScaler(), model).fit(one.X, one.y).predict(one.X_test)
    assert METHODS["Linear-Combine"].run(one, QUICK, 0).value == pytest.approx(one.score(expected))


def test_splitnn_counts_every_batch_in_both_directions():
    one = problem()
    result = splitnn.run(one, replace(QUICK, epochs=2), 0)
    assert result.payload == 2 * 2 * len(one.y) * 2 * 4 * 4  # epochs, directions, rows, values, bytes, guests
    assert splitnn.run(one, replace(QUICK, epochs=2, split_bits=8), 0).payload == result.payload / 4
    assert splitnn.run(one, replace(QUICK, epochs=15), 0).value > 85  # the larger class alone gives 63


def test_splitnn_comm_spends_no_more_than_fedonce_s_float32_payload():
    one = problem()
    budget = len(one.y) * 2 * 4 * 4
    result = splitnn.run_comm(one, QUICK, 0)
    assert 0.8 * budget < result.payload <= budget


def test_splitnn_comm_says_when_not_one_round_fits():
    one = problem()
    few = replace(one, X=one.X[:20], y=one.y[:20])
    result = splitnn.run_comm(few, QUICK, 0)
    assert result.value is None
    assert result.note.startswith("not even one round fits into 640 bytes: it takes")


def test_multi_round_starts_from_the_one_shot_models_and_leaves_them_alone(monkeypatch):
    one = problem()
    before = fedonce.run(one, QUICK, 0)
    trained = []
    plain = Host.aggregate
    monkeypatch.setattr(Host, "aggregate", lambda *arguments: (trained.append(1), plain(*arguments))[1])
    more = multiround.run(one, replace(QUICK, epochs=1), 0)
    assert not trained
    each_way = len(one.X) * 2 * 4  # a byte for each of two values of four guests, which rounds do not code
    assert more.payload == before.payload + 2 * each_way  # the one message, and values forward and back
    assert fedonce.run(one, QUICK, 0).value == before.value


def test_absent_guests_send_nothing():
    one = problem()
    assert fedonce.run(one, replace(QUICK, absent=3), 0).messages == 1
    assert fedonce.run(one, replace(QUICK, absent=4), 0).messages == 0


def test_noise_and_probe():
    one = problem()
    quiet = fedonce.run(one, replace(QUICK, probe=True, learner="pca"), 0)
    noisy = fedonce.run(one, replace(QUICK, probe=True, learner="pca", noise=1.5), 0)
    assert quiet.detail["probe"] > 85
    assert noisy.detail["probe"] < quiet.detail["probe"]


def test_the_paper_s_settings_are_the_presets():
    one = problem()
    result = METHODS["FedOnce-L0"].run(one, QUICK, 0)
    assert result.payload == 4 * len(one.y) * 3 * 4  # float32, d = 3
    assert result.detail["learners"] == ["nat"]


@pytest.mark.parametrize("members", [1, 3])
def test_a_recipe_by_its_name_has_as_many_networks_as_are_asked_for(members):
    config = replace(QUICK, recipe="large", members=members)
    image = Problem(digits(), parties_of(digits(), {}), "party1", *digits().split(0))
    found = find_recipe(settings.recipe(image, config), None, image.shape("party1"), "Host")
    assert found == replace(LARGE_IMAGES, members=members)


def test_the_estimator_s_methods_are_the_estimators():
    one = problem()
    config = replace(QUICK, learner="pca", members=2)
    model = FedOnceClassifier(
        one.parties,
        host="party1",
        learner="pca",
        dim=2,
        host_epochs=3,
        recipe=Recipe(members=2),
        device="cpu",
        random_state=4,
    ).fit(one.X, one.y)
    found = METHODS["FedOnce (estimator)"].run(one, config, 4)
    assert found.value == pytest.approx(100 * model.score(one.X_test, one.y_test))
    assert (found.messages, found.bytes) == (model.traffic_.messages, model.traffic_.bytes)
    assert METHODS["Solo (estimator)"].run(one, QUICK, 4).messages == 0
    assert METHODS["Combine (estimator)"].run(one, QUICK, 4).messages == 0


def test_the_host_s_model_is_the_one_of_the_settings(monkeypatch):
    made = []
    monkeypatch.setattr(estimator, "FedOnceClassifier", lambda **given: made.append(given["model"]))
    one = problem()
    estimator.make(one, replace(QUICK, model="network"), 0, one.parties, one.host)
    assert made == ["network"]
    with pytest.raises(InputError, match="'model' must be one of auto, blend, network"):
        replace(QUICK, model="forest")


def test_a_guest_with_half_of_the_rows():
    one = problem()
    config = replace(QUICK, half=3)
    kept, left, common = (METHODS[name].run(one, config, 0) for name in ("Guest kept", "Guest left out", "Common rows"))
    assert (kept.messages, left.messages, common.messages) == (4, 3, 4)
    assert common.payload < kept.payload
    alone = METHODS["Guest kept"].run(one, replace(config, others=False), 0)
    assert alone.messages == 1
    assert alone.payload < 0.7 * len(one.y) * 2  # about half of the rows, two bytes each


def test_linear_combine_takes_categories():
    rng = np.random.default_rng(0)
    city = rng.choice(["a", "b", "c"], 400)
    table = pa.table({"city": city.tolist(), "size": rng.standard_normal(400)})
    y = np.where(city == "a", 1.0, 0.0) + 0.1 * np.asarray(table["size"])
    data = Dataset("rent", table, y, ("city", "size"), "regression", 2, True, "", "")
    one = Problem(data, parties_of(data, {}), "party1", *data.split(0))
    assert METHODS["Linear-Combine"].run(one, QUICK, 0).value < 0.02


def test_late_guests_are_trained_with_and_do_not_answer():
    one, config = problem(), replace(QUICK, model="linear", learner="pca", validate=False)
    whole, late, none = (fedonce.run(one, replace(config, late=count), 0) for count in (0, 2, 4))
    assert whole.messages == late.messages == 4
    (done,) = (value for key, value in one.memory.items() if key[0] == "one-shot")  # trained once for all three
    expected = one.score(done.host.predict(one.table("party1", test=True), []))
    assert none.value == expected != whole.value


def test_calibration_is_scored_before_and_after():
    one, config = problem(), replace(QUICK, model="linear", learner="pca")
    found = calibration.run(one, config, 0)
    (done,) = (value for key, value in one.memory.items() if key[0] == "one-shot")
    assert found.value == pytest.approx(fedonce.run(one, config, 0).value)
    assert found.detail["temperature"] == done.host.temperature
    same = done.host.temperature == 1
    assert all((each["before"] == each["after"]) == same for each in (found.detail[name] for name in calibration.TOLD))


def test_a_class_is_thinned_in_training_and_in_test():
    one = problem()
    thin = calibration.thinned(one, 0.05, 0)
    for y, rows, before in ((thin.y, thin.X, one.y), (thin.y_test, thin.X_test, one.y_test)):
        assert np.mean(y == 0) == pytest.approx(0.05, abs=0.02)  # of which there were more than a third
        assert (y == 1).sum() == (before == 1).sum()
        assert len(rows) == len(y)
    assert calibration.thinned(one, 0.05, 0).memory is thin.memory is not one.memory
