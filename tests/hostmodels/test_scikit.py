"""Estimators of scikit-learn as the host's model."""

from __future__ import annotations

import io
import sys
import zipfile

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from fedonce import FedOnceClassifier, FedOnceRegressor, Guest, Host, InputError
from fedonce.export.onnx import export_host
from fedonce.hostmodels import Examples, make, scikit, trust
from fedonce.hostmodels.scikit import ScikitModel
from tests.conftest import make_table
from tests.hostmodels.test_trees import COLUMNS, CPU, examples, outputs

X, Y = make_table(300)
TREE = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"


@pytest.fixture(autouse=True)
def nothing_trusted(monkeypatch):
    monkeypatch.setattr(scikit, "_trusted", set())


def trained(estimator, **settings):
    message = Guest("shop", "pca", dim=3).learn(X[:, 4:])
    host = Host("bank", model=estimator, **settings)
    host.aggregate(X[:, :4], Y, [message])
    return host, message


@pytest.mark.parametrize(
    "estimator",
    [
        HistGradientBoostingClassifier(max_iter=30),
        make_pipeline(StandardScaler(), LogisticRegression()),
        KNeighborsClassifier(),
        SVC(),
        LinearSVC(),
    ],
    ids=lambda each: type(each).__name__,
)
def test_classifiers(estimator):
    model = FedOnceClassifier(model=estimator, **COLUMNS).fit(X[:200], Y[:200])
    assert model.score(X[200:], Y[200:]) > 0.75
    assert not hasattr(estimator, "classes_")  # a copy was trained
    again = clone(model).fit(X[:200], Y[:200])
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert np.isfinite(model.predict_proba(X, present={"shop": False})).all()


@pytest.mark.parametrize("estimator", [Ridge(), ExtraTreesRegressor(30), HistGradientBoostingRegressor(max_iter=40)])
def test_regressors(estimator):
    number = X[:, 0] + X[:, 4]
    model = FedOnceRegressor(model=estimator, **COLUMNS).fit(X[:200], number[:200])
    assert model.score(X[200:], number[200:]) > 0.5


def test_parameters_of_the_estimator_are_the_model_s():
    model = FedOnceClassifier(model=HistGradientBoostingClassifier(), **COLUMNS)
    assert model.get_params()["model__learning_rate"] == 0.1
    model.set_params(model__max_iter=5)
    search = GridSearchCV(model, {"model__learning_rate": [0.01, 0.3]}, cv=2).fit(X, Y)
    assert search.best_params_["model__learning_rate"] == 0.3


def test_the_host_s_seed_is_the_estimator_s():
    rows, test = examples(), examples(seed=1)
    one, same, other = (ScikitModel(ExtraTreesRegressor(5)) for _ in range(3))
    for model, seed in ((one, 0), (same, 0), (other, 1)):
        model.fit(rows, (1, 1), 1, np.random.default_rng(seed), CPU)
    np.testing.assert_array_equal(outputs(one, test), outputs(same, test))
    assert not np.array_equal(outputs(one, test), outputs(other, test))


@pytest.mark.parametrize("estimator", [HistGradientBoostingRegressor(max_iter=40), Ridge()])
def test_absent_guests_are_missing_or_marked(estimator):
    rows, model = examples(), ScikitModel(estimator)
    model.fit(rows, (1, 1), 1, np.random.default_rng(0), CPU)
    gone = rows.present * [[1, 0]]
    other = Examples(rows.own, rows.values * [[1, 9]], rows.present, rows.target)
    np.testing.assert_array_equal(outputs(model, rows, gone), outputs(model, other, gone))
    assert not np.allclose(outputs(model, rows, gone), outputs(model, rows))
    assert model.fitted_.n_features_in_ == (5 if isinstance(estimator, HistGradientBoostingRegressor) else 7)


@pytest.mark.parametrize(
    "estimator", [LogisticRegression(), make_pipeline(StandardScaler(), PCA(3), LogisticRegression())]
)
def test_weights_count(estimator):
    rows = examples(classes=2)
    heavy = Examples(rows.own, rows.values, rows.present, rows.target, np.where(rows.target == 1, 1.9, 0.1))
    plain, weighted = ScikitModel(estimator), ScikitModel(estimator)
    plain.fit(rows, (1, 1), 2, np.random.default_rng(0), CPU)
    weighted.fit(heavy, (1, 1), 2, np.random.default_rng(0), CPU)
    probability = [np.exp(outputs(model, rows)[:, 1]).mean() for model in (plain, weighted)]
    assert probability[1] > probability[0] + 0.02


def test_weights_that_it_does_not_take_are_refused():
    rows = examples(classes=2)
    weighted = Examples(rows.own, rows.values, rows.present, rows.target, np.ones(600))
    with pytest.raises(InputError, match="KNeighborsClassifier takes no weights of rows"):
        ScikitModel(KNeighborsClassifier()).fit(weighted, (1, 1), 2, np.random.default_rng(0), CPU)


def test_a_class_that_was_not_seen_has_no_chance():
    rows, model = examples(classes=2), ScikitModel(LogisticRegression())
    model.fit(rows, (1, 1), 3, np.random.default_rng(0), CPU)
    found = outputs(model, rows)
    assert found.shape == (600, 3)
    assert (found[:, 2] < -20).all()


class Nothing(BaseEstimator):
    def fit(self, X, y):
        return self

    def predict(self, X):
        return X


@pytest.mark.parametrize(
    ("make_it", "said"),
    [
        (lambda: Host("bank", "regression", model=SVC()), "SVC predicts no numbers; take a regressor"),
        (lambda: Host("bank", model=Ridge()), "Ridge predicts no classes; take a classifier"),
        (lambda: FedOnceRegressor(model=SVC()).fit(X, X[:, 0]), "SVC predicts no numbers"),
        (lambda: Host("bank", model="scikit"), "must be one of auto, .*linear, a HostModel or an estimator"),
        (lambda: Host("bank", model=SVC), "'model' parameter of Host must be one of"),
        (lambda: Host("bank", model=StandardScaler()), "'model'.*a classifier or regressor object"),
        (lambda: Host("bank", model=Nothing()), "'model'.*a classifier or regressor object"),
        (lambda: make(ScikitModel(Ridge(), repeated=2)), "'repeated'.*from 0 to 1"),
        (lambda: FedOnceClassifier(model=SVC(), rounds=3).fit(X, Y), "'scikit' cannot be trained in rounds"),
        (lambda: export_host(trained(SVC())[0], "x.onnx"), "'scikit' gives no network to export"),
    ],
)
def test_what_cannot_be_is_said(make_it, said):
    with pytest.raises(InputError, match=said):
        make_it()


@pytest.mark.parametrize("estimator", [make_pipeline(StandardScaler(), LogisticRegression(C=0.5)), SVC()])
def test_disk(tmp_path, estimator):
    pytest.importorskip("skops")
    host, message = trained(estimator)
    host.save(tmp_path)
    trust("sklearn.svm._classes.SVC")
    again = Host.load(tmp_path)
    for messages in ([message], []):
        np.testing.assert_array_equal(again.outputs(X[:, :4], messages), host.outputs(X[:, :4], messages))
    again.aggregate(X[:, :4], Y, [message])  # its settings came along
    np.testing.assert_array_equal(again.outputs(X[:, :4], [message]), host.outputs(X[:, :4], [message]))


def test_types_that_skops_does_not_trust_are_refused_by_name(tmp_path):
    pytest.importorskip("skops")
    host, message = trained(HistGradientBoostingClassifier(max_iter=5))
    host.save(tmp_path)
    with pytest.raises(InputError, match=rf"{TREE}', which is not trusted.*hostmodels.trust\('{TREE}'\)"):
        Host.load(tmp_path)
    trust(TREE)
    again = Host.load(tmp_path)
    np.testing.assert_array_equal(again.outputs(X[:, :4], [message]), host.outputs(X[:, :4], [message]))


@pytest.mark.parametrize("estimator", [SVC(), make_pipeline(StandardScaler(), KNeighborsClassifier())])
def test_compiled_code_that_trusts_its_arrays_is_refused_by_name(tmp_path, estimator):
    """Forged numbers of support vectors end the program instead of raising."""
    pytest.importorskip("skops")
    trained(estimator)[0].save(tmp_path)
    with pytest.raises(InputError, match=r"'sklearn\.(svm|neighbors).* is not trusted in a file"):
        Host.load(tmp_path)


def test_without_skops_the_error_says_how_to_get_it(tmp_path, monkeypatch):
    host, _ = trained(LogisticRegression())
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(InputError, match=r"needs the package skops: pip install 'fedonce\[skops\]'"):
        host.save(tmp_path)


def packed(data):
    """The same estimator, compressed: a small file that could unpack to a large one."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry))
    return target.getvalue()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda model: np.frombuffer(packed(model.state()["skops"].tobytes()), np.uint8), "more than its size"),
        (lambda model: np.zeros(50, np.uint8), "not a zip file"),
        (lambda model: np.zeros((5, 5)), "must be bytes"),
        (lambda model: trained(GaussianNB())[0].model.state()["skops"], "of another type"),
        (lambda model: fitted(LogisticRegression(), X[:, :5], Y), "another number of columns"),
        (lambda model: fitted(LogisticRegression(), X, Y + 1), "other classes"),
        (lambda model: fitted(LogisticRegression(), X, np.array(["a", "b"])[Y]), "other classes"),
    ],
)
def test_forged_estimators_are_refused(tmp_path, change, said):
    pytest.importorskip("skops")
    host, _ = trained(LogisticRegression())
    forged = {"skops": change(host.model)}
    host.model.state = lambda: forged
    host.save(tmp_path)
    with pytest.raises(InputError, match=f"cannot be read .*({said})"):
        Host.load(tmp_path)


def fitted(estimator, table, label):
    import skops.io

    return np.frombuffer(skops.io.dumps(estimator.fit(table, label)), np.uint8)
