"""Whether a host calibrates and validates, where it keeps that, and which weights of rows it takes."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from fedonce import Guest, Host, InputError
from fedonce.hostmodels.linear import LinearModel
from fedonce.party import storage
from fedonce.party.judging import LEAST_ROWS, check_weights
from tests.conftest import make_table

X, Y = make_table(150)
MESSAGE = Guest("shop", "pca", dim=3).learn(X[:, 4:])


class Sure(LinearModel):
    """Says what the linear model says, and is much too sure of it."""

    def outputs(self, own, values, present, device):
        return super().outputs(own, values, present, device) * 8


def trained(model="linear", y=Y, rows=150, **settings):
    host = Host("bank", model=model, **settings)
    part = MESSAGE if rows == 150 else Guest("shop", "pca", dim=3).learn(X[:rows, 4:])
    host.aggregate(X[:rows, :4], y[:rows], [part])
    return host


def log_loss(host):
    return -np.log(host.outputs(X[:, :4], [MESSAGE])[np.arange(150), Y]).mean()


def test_logits_are_divided_by_the_temperature():
    hosts = {calibrate: trained(Sure(), calibrate=calibrate) for calibrate in (True, "auto", False)}
    assert hosts[False].temperature == 1
    assert hosts[True].temperature > 2
    assert hosts["auto"].temperature in (1, hosts[True].temperature)  # a third of 150 rows may not say enough
    raw = np.log(hosts[False].outputs(X[:, :4], [MESSAGE]))
    ratio = (raw[:, 0] - raw[:, 1]) / hosts[True].temperature
    found = np.log(hosts[True].outputs(X[:, :4], [MESSAGE]))
    np.testing.assert_allclose(found[:, 0] - found[:, 1], ratio, rtol=1e-6)
    assert log_loss(hosts[True]) < log_loss(hosts[False])
    np.testing.assert_array_equal(*(hosts[each].predict(X[:, :4], [MESSAGE]) for each in (True, False)))


def test_a_temperature_that_is_asked_for_needs_no_validation():
    host = trained(Sure(), calibrate=True, validate=False)
    assert host.temperature > 2
    assert host.validation is None
    assert trained(Sure(), validate=False).temperature == 1  # rows would have to be held back for it alone
    assert trained("auto", calibrate=True, validate=False).temperature != 1


def test_numbers_have_no_temperature():
    host = trained(y=X[:, 0], task="regression", calibrate=True)
    assert host.temperature == 1
    assert host.validation.metric == "rmse"


def test_too_few_rows_say_nothing():
    host = trained(Sure(), np.arange(150) % 2, LEAST_ROWS - 1, calibrate=True)
    assert (host.temperature, host.validation) == (1, None)


def test_a_temperature_is_kept_on_disk_as_the_third_version(tmp_path):
    host = trained(calibrate=True)
    host.save(tmp_path / "calibrated")
    again = Host.load(tmp_path / "calibrated")
    assert again.temperature == host.temperature != 1
    np.testing.assert_array_equal(again.outputs(X[:, :4], [MESSAGE]), host.outputs(X[:, :4], [MESSAGE]))
    plain = trained(calibrate=False)
    plain.save(tmp_path / "plain")
    assert Host.load(tmp_path / "plain").temperature == 1
    versions = {
        name: json.loads((tmp_path / name / "manifest.json").read_text())["fedonce model"]
        for name in ("calibrated", "plain")
    }
    assert versions == {"calibrated": 3, "plain": 2}


@pytest.mark.parametrize(("calibrate", "validate"), [("auto", True), (True, False), (False, True)])
def test_what_the_host_was_told_is_kept_where_it_is_not_the_default(tmp_path, calibrate, validate):
    trained(calibrate=calibrate, validate=validate).save(tmp_path / "model")
    again = Host.load(tmp_path / "model").settings
    assert (again.calibrate, again.validate) == (calibrate, validate)
    (file,) = (tmp_path / "model").glob("settings-*.json")
    written = json.loads(file.read_text())
    assert ("calibrate" in written, "validate" in written) == (calibrate != "auto", not validate)


@pytest.mark.parametrize(("name", "forged"), [("calibrate", "yes"), ("validate", "no"), ("calibrate", [True])])
def test_what_a_forged_file_says_the_host_was_told(tmp_path, name, forged):
    trained(calibrate=False, validate=False).save(tmp_path / "model")
    stored = storage.load(tmp_path / "model", "host")
    storage.save(tmp_path / "forged", replace(stored, settings=stored.settings | {name: forged}))
    with pytest.raises(InputError, match=f"its {name} must be true or false"):
        Host.load(tmp_path / "forged")


def test_what_is_judged_changes_nothing_of_the_model():
    np.testing.assert_array_equal(
        *(trained(calibrate=False, validate=validate).outputs(X[:, :4], [MESSAGE]) for validate in (True, False))
    )


class OneClass(LogisticRegression):
    """Whatever it is given less than all 30 rows, one of its classes is missing."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y if len(X) >= 30 else np.zeros(len(X), int), sample_weight)


@pytest.mark.parametrize("model", [OneClass(), KNeighborsClassifier(30)], ids=["one class", "few rows"])
def test_a_model_that_cannot_learn_from_fewer_rows_stays_trained(model, caplog):
    rare = (np.arange(150) == 7).astype(int)
    host = trained(model, rare, 30, calibrate=True)
    assert host.outputs(X[:30, :4], []).shape == (30, 2)
    assert (host.temperature, host.validation) == (1, None)
    assert "host bank: rows held back say nothing (ValueError)" in caplog.text


def test_where_enough_rows_are_held_back_auto_is_as_good_as_asking():
    own, label = make_table(900)
    label = np.where(np.random.default_rng(0).random(900) < 0.15, 1 - label, label)  # of which nobody can be sure
    message = Guest("shop", "pca", dim=3).learn(own[:, 4:])
    found = []
    for calibrate in (True, "auto"):
        host = Host("bank", model=Sure(), calibrate=calibrate)
        host.aggregate(own[:, :4], label, [message])
        found.append(host.temperature)
    assert found[0] == found[1] > 2


def test_a_wrong_setting():
    with pytest.raises(InputError, match="'calibrate' parameter of Host must be 'auto', True or False"):
        Host("bank", calibrate="always")


def test_weights_have_a_mean_of_one():
    assert check_weights(None, 3, False, False) is None
    assert check_weights([1, 2, 3], 3, False, False).tolist() == [0.5, 1, 1.5]
    assert check_weights(np.array([True, False]), 2, False, False).tolist() == [2, 0]


@pytest.mark.parametrize(
    "wrong",
    [[4321.0] * 2, [[4321.0]] * 3, 4321.0, [4321, -1, 1], [0, 0, 0], [4321, np.nan, 1], [4321, np.inf, 1], [1e308] * 3],
    ids=["too few", "a table", "one", "below 0", "all 0", "not a number", "infinite", "too large to add"],
)
def test_weights_that_cannot_be_meant(wrong):
    with pytest.raises(InputError, match=r"must be 3 finite numbers, none below 0.*Got an array of shape \(") as told:
        check_weights(wrong, 3, False, False)
    assert "4321" not in str(told.value)


@pytest.mark.parametrize("wrong", [["heavy", "light", "light"], [{}, 1, 1], [[1, 2], [3], [4]]])
def test_weights_that_are_no_numbers(wrong):
    with pytest.raises(InputError, match="Got something else than numbers") as told:
        check_weights(wrong, 3, False, False)
    assert "heavy" not in str(told.value)
    assert told.value.__suppress_context__


@pytest.mark.parametrize(("private", "rounds", "what"), [(True, False, "privacy budget"), (False, True, "rounds")])
def test_weights_with_a_budget_or_rounds(private, rounds, what):
    with pytest.raises(InputError, match=f"'weight' parameter of Host must be left out with .*{what}") as told:
        check_weights([4321.0, 1.0], 2, private, rounds)
    assert "4321" not in str(told.value)
    assert check_weights(None, 2, private, rounds) is None


def test_weights_reach_the_training_and_the_scores():
    wrong = np.random.default_rng(0).random(150) < 0.3
    host = Host("bank", model="linear")
    host.aggregate(X[:, :4], np.where(wrong, 1 - Y, Y), [MESSAGE], weight=np.where(wrong, 0.0, 5.0))
    assert np.mean(host.predict(X[:, :4], [MESSAGE]) == Y) > 0.8
    assert host.validation.joint.value > 0.8  # with the rows that are wrong, it would be about 0.6
    with pytest.raises(InputError, match="weights of rows must be 150 finite numbers"):
        host.aggregate(X[:, :4], Y, [MESSAGE], weight=np.ones(3))
