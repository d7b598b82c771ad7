from __future__ import annotations

import pickle
import traceback

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from fedonce import (
    NCF,
    FedOnceClassifier,
    FedOnceRegressor,
    FedOnceWarning,
    Guest,
    InputError,
    Privacy,
    Recipe,
    Rounds,
    tiles,
)
from fedonce.learners import NAT, PCA
from tests.conftest import make_table

PARTIES = {"bank": [0, 1, 2], "shop": [3, 4, 5], "telco": [6, 7]}

# Checks of scikit-learn that we do not pass, each with its reason.
_WEIGHTS = (
    "a row of weight 2 is not two rows: rows are held back and drawn into batches at random, and guests know no weights"
)
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": _WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": _WEIGHTS,
}


def quick(**changes):
    return FedOnceClassifier(
        **{"parties": PARTIES, "learner": "pca", "dim": 2, "host_epochs": 3, "random_state": 0} | changes
    )


@pytest.fixture(scope="module")
def fitted():
    X, y = make_table()
    return quick(host_epochs=20).fit(X, y), X, y


# --- scikit-learn's own checks ---


def checks():
    for estimator in (FedOnceClassifier(random_state=0), FedOnceRegressor(random_state=0)):
        for candidate, check in estimator_checks_generator(estimator):
            name = check.func.__name__
            yield pytest.param(candidate, check, id=f"{type(estimator).__name__}-{name}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learn_check(estimator, check):
    if check.func.__name__ in EXPECTED_FAILURES:
        pytest.xfail(EXPECTED_FAILURES[check.func.__name__])
    check(estimator)


# --- what users do ---


def test_fit_predict_and_what_is_known_afterwards(fitted):
    model, X, y = fitted
    assert model.score(X, y) > 0.85
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.host_ == "bank"
    assert model.traffic_.messages == 2
    assert 0 < model.traffic_.payload_bytes <= (300 * 2 + 40) * 2
    assert model.traffic_.per_guest.keys() == {"shop", "telco"}
    assert model.representations_["shop"].values.shape == (300, 2)
    assert model.learners_ == {"shop": "pca", "telco": "pca"}
    assert model.dims_ == {"shop": 2, "telco": 2}
    assert model.absent_ == ()
    assert model.overlap_ == {"shop": 1.0, "telco": 1.0}
    assert len(model.history_) == 20


def test_prediction_is_counted_apart(fitted):
    model, X, _ = fitted
    before, training = model.prediction_traffic_.messages, model.traffic_.bytes
    model.predict(X[:10])
    assert model.prediction_traffic_.messages == before + 2
    assert model.traffic_.bytes == training


def test_a_row_s_prediction_does_not_depend_on_its_company(fitted, rng):
    model, X, _ = fitted
    whole, order = model.predict_proba(X), rng.permutation(len(X))
    np.testing.assert_array_equal(model.predict_proba(X[order]), whole[order])
    for row in (0, 17, 299):
        np.testing.assert_array_equal(model.predict_proba(X[row : row + 1]), whole[row : row + 1])


@pytest.mark.parametrize("learner", ["nat", "pca", "autoencoder", "random", "auto"])
def test_the_same_seed_gives_the_same_result(learner):
    X, y = make_table()
    first, second = (quick(learner=learner, epochs=2).fit(X, y).predict_proba(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, quick(learner=learner, epochs=2, random_state=1).fit(X, y).predict_proba(X))


def test_guests_are_independent_of_who_else_is_there():
    X, y = make_table()
    everyone = quick(learner="nat", epochs=2).fit(X, y).representations_["shop"]
    reordered = {name: PARTIES[name] for name in ("telco", "shop", "bank")}
    fewer = {name: PARTIES[name] for name in ("bank", "shop")}
    for parties in (reordered, fewer):
        other = quick(learner="nat", epochs=2, parties=parties, host="bank").fit(X, y).representations_["shop"]
        assert other.to_bytes() == everyone.to_bytes()


@pytest.mark.parametrize(
    "wrap", [pd.DataFrame, lambda X: pl.DataFrame(X, schema=[str(j) for j in range(8)]), sparse.csr_matrix]
)
def test_tables_of_any_library_give_the_same(fitted, wrap):
    model, X, y = fitted
    data = wrap(X)
    other = quick(host_epochs=20).fit(data, y)
    np.testing.assert_allclose(other.predict_proba(data), model.predict_proba(X), atol=2e-2)
    assert (other.predict(data) == model.predict(X)).mean() > 0.97


def mixed(n=400, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    frame = pd.DataFrame(
        {
            "income": np.where(rng.random(n) < 0.1, np.nan, rng.normal(y, 2)),
            "member": rng.random(n) < 0.3 + 0.4 * y,
            "city": np.array(["Ulm", "Bonn", "Kiel"])[rng.integers(0, 3, n)],
            "branch": pd.Categorical(np.where(y == 1, rng.choice(["a", "b"], n), rng.choice(["b", "c"], n))),
            "customer": [f"c{i}" for i in rng.integers(0, 1000, n)],
        }
    )
    return frame, np.array(["no", "yes"])[y]


def test_mixed_columns_missing_values_and_unseen_categories():
    X, y = mixed()
    model = quick(
        parties={"bank": ["income", "member"], "shop": ["city", "branch", "customer"]}, dim=8, host_epochs=30
    ).fit(X, y)
    assert model.score(X, y) > 0.8
    strange = X.iloc[:2].assign(city=["Paris", None], branch=["z", None], customer=["new", None], income=np.nan)
    assert set(model.predict(strange)) <= {"no", "yes"}
    assert model.representations_["shop"].dim == 8


def test_present_at_training_and_at_prediction(fitted):
    X, y = make_table()
    half = np.arange(300) < 150
    model = quick().fit(X, y, present={"shop": half, "telco": False})
    assert model.absent_ == model.traffic_.absent == ("telco",)
    assert model.overlap_ == {"shop": 0.5, "telco": 0.0}
    assert len(model.representations_["shop"].values) == 150
    assert model.predict(X[:3], present={"shop": False}).shape == (3,)
    assert model.prediction_traffic_.absent == ("shop", "telco")
    trained, X, _ = fitted
    without = trained.predict_proba(X[:5], present={"telco": np.zeros(5, bool)})
    assert not np.allclose(without, trained.predict_proba(X[:5]))


def test_nan_in_absent_rows_is_nobody_s_business():
    X, y = load_digits(return_X_y=True)
    X, y, here = X[:200].copy(), y[:200], np.arange(200) >= 20
    X[:20, tiles((8, 8), (2, 2))["party2"].columns] = np.nan
    model = FedOnceClassifier(tiles((8, 8), (2, 2)), learner="pca", host_epochs=2, random_state=0)
    with pytest.raises(InputError, match="Pixels have no missing values, and party 'party2'"):
        model.fit(X, y)
    model.fit(X, y, present={"party2": here})
    assert model.overlap_["party2"] == 0.9


def test_one_party_is_solo_and_says_so():
    X, y = make_table()
    with pytest.warns(FedOnceWarning, match=r"one party only, 'bank': it trains alone \(Solo\)"):
        model = quick(parties={"bank": [0, 1]}).fit(X, y)
    assert model.traffic_.messages == 0
    assert model.predict(X).shape == (300,)


def test_settings_by_guest():
    X, y = make_table()
    model = quick(learner={"shop": NAT(epochs=1), "telco": "random"}, dim={"shop": 3}).fit(X, y)
    assert (model.representations_["shop"].learner, model.representations_["shop"].dim) == ("nat", 3)
    assert (model.representations_["telco"].learner, model.representations_["telco"].dim) == ("random", 8)


def test_learners_and_dims_say_what_was_used_and_sent():
    """Of "auto" what it chose; a dim that a learner cannot give is lowered; who was absent is not listed."""
    X, y = make_table()
    noise = np.column_stack([X, np.random.default_rng(0).normal(size=(300, 40))])  # nothing that two values could keep
    parties = {"bank": [0, 1], "shop": [2, 3, 4], "telco": list(range(8, 48)), "away": [7]}
    model = quick(parties=parties, learner="auto", dim={"shop": 9}, epochs=1)
    model.fit(noise, y, present={"away": False})
    assert model.learners_ == {"shop": "pca", "telco": "autoencoder"}
    assert model.dims_ == {"shop": 3, "telco": 8}
    assert model.learners_ == {name: message.learner for name, message in model.representations_.items()}
    again = pickle.loads(pickle.dumps(model))
    assert (again.learners_, again.dims_) == (model.learners_, model.dims_)


def test_rounds_that_begin_at_random_have_dims_and_no_learners():
    X, y = make_table()
    model = quick(rounds=Rounds(rounds=2, start="random")).fit(X, y)
    assert model.learners_ == {}
    assert model.dims_ == {"shop": 2, "telco": 2}


def test_regression():
    X, _ = make_table(600)
    y = X[:, 0] + X[:, 4] + X[:, 7]
    model = FedOnceRegressor(PARTIES, dim=3, random_state=0).fit(X[:500], y[:500])
    assert model.score(X[500:], y[500:]) > 0.9


def test_constant_and_all_missing_columns_work():
    X, y = make_table()
    X = X.copy()
    X[:, 4], X[:, 7] = 3.0, np.nan
    with pytest.warns(FedOnceWarning, match="'telco' has no value at all in column 7"):
        model = quick().fit(X, y)
    assert model.representations_["shop"].dim == 2
    assert model.predict(X).shape == (300,)


def test_pickled_model_predicts_the_same_and_carries_no_representations(fitted):
    model, X, _ = fitted
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert not hasattr(loaded, "representations_")
    assert hasattr(model, "representations_")


def test_clone_grid_search_and_pipeline():
    X, y = make_table()
    model = quick(learner=NAT(epochs=1), parties=None)
    assert clone(model).get_params()["dim"] == 2
    search = GridSearchCV(model, {"dim": [1, 2]}, cv=2).fit(X, y)
    assert search.best_params_["dim"] in (1, 2)
    pipeline = make_pipeline(StandardScaler(), quick()).fit(X, y)
    assert pipeline.score(X, y) > 0.5


def test_verbose_tells_what_happens(capsys):
    X, y = make_table()
    quick(verbose=2).fit(X, y)
    told = capsys.readouterr().err
    assert "guest shop: learnt with pca" in told
    assert "epoch 3 of 3" in told
    quick().fit(X, y)
    assert capsys.readouterr().err == ""


# --- bad input ---


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 0}, "The 'dim' parameter of FedOnceClassifier must be a positive integer. Got 0 instead."),
        (
            {"dim": {"shop": 1.5}},
            "The 'dim' parameter of FedOnceClassifier must be a positive integer. Got 1.5 instead.",
        ),
        (
            {"dim": {"nobody": 2}},
            r"The 'dim' parameter of FedOnceClassifier must be keyed by guests \('shop', 'telco'\). Got 'nobody'",
        ),
        (
            {"bits": 7},
            "The 'bits' parameter of FedOnceClassifier must be one of 32, 16, 8, 4. Got 7 instead.",
        ),
        (
            {"epochs": 0},
            "The 'epochs' parameter of FedOnceClassifier must be a positive integer or None. Got 0 instead.",
        ),
        ({"host_epochs": -1}, "The 'host_epochs' parameter"),
        ({"host": "nobody"}, "The 'host' parameter of FedOnceClassifier must be the name of a party"),
        ({"learner": "ncf"}, "The 'learner' parameter of FedOnceClassifier"),
        ({"recipe": "secret"}, "The 'recipe' parameter of FedOnceClassifier"),
        ({"recipe": Recipe(schedule="cosine")}, "The 'schedule' parameter"),
        ({"recipe": Recipe(rate=1e25)}, "diverged"),
        ({"device": "abacus"}, "The 'device' parameter"),
        ({"parties": {"bank": [0], "shop": []}}, "at least one column for party 'shop'"),
        ({"parties": {"bank": [0], "shop": [0]}}, "list the same column"),
        ({"parties": {"bank": [0], "shop": ["x"]}}, "not there. Got 'x'"),
    ],
)
def test_wrong_parameters(change, message):
    X, y = make_table()
    with pytest.raises(InputError, match=message):
        quick(**change).fit(X, y)


@pytest.mark.parametrize(
    ("present", "message"),
    [
        ({"nobody": False}, "The 'present' parameter of FedOnceClassifier must be a dict of guests"),
        ({"bank": False}, "dict of guests"),
        ({"shop": [True, False]}, "300 booleans, one per row, for guest 'shop'"),
        ({"shop": np.ones(300)}, "300 booleans"),
        ([True], "dict of guests"),
    ],
)
def test_wrong_present(present, message):
    X, y = make_table()
    with pytest.raises(InputError, match=message):
        quick().fit(X, y, present=present)


def test_wrong_labels_and_rows():
    X, y = make_table()
    with pytest.raises(InputError, match="one class only"):
        quick().fit(X, np.zeros(300))
    with pytest.raises(InputError, match="must not contain NaN or infinity. Got .*nan.* in row 4"):
        quick().fit(X, np.where(np.arange(300) == 4, np.nan, y))
    with pytest.raises(InputError, match="must not contain NaN or infinity. Got None in row 1"):
        quick().fit(X, np.array(["a", None] * 150, dtype=object))
    with pytest.raises(InputError, match="must not contain NaN"):
        quick().fit(X, pd.Series(["u", "v", None] * 100, dtype="string"))
    with pytest.raises(InputError, match="mix text and numbers"):
        quick().fit(X, np.array(["u", 1] * 150, dtype=object))
    with pytest.raises(InputError, match="too large to scale"):
        FedOnceRegressor().fit(X, 1e200 * X[:, 0])
    with pytest.raises(InputError, match="'telco' has numbers too large to scale in column 7"):
        quick().fit(np.where((np.arange(8) == 7) & (np.arange(300) == 3)[:, None], 1e200, X), y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        quick().fit(X, y[:-1])
    with pytest.raises(ValueError, match="0 sample"):
        quick().fit(X[:0], y[:0])
    with pytest.raises(InputError, match="0 rows"):
        quick().fit(pd.DataFrame(X)[:0], y[:0])
    with pytest.raises(InputError, match="contains infinity: party 'telco', column 7"):
        quick().fit(np.where(np.arange(8) == 7, np.inf, X), y)
    with pytest.raises(InputError, match="(?s)column names must be unique; rename one of each.*'a' 2 times"):
        quick(parties=2).fit(pd.DataFrame(X, columns=list("abcdefga")), y)


def test_columns_at_prediction_must_be_those_of_training(fitted):
    model, X, y = fitted
    with pytest.raises(ValueError, match="7 features"):
        model.predict(X[:, :7])
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    named = quick(parties=3).fit(frame, y)
    with pytest.raises(ValueError, match="feature names"):
        named.predict(frame[list("bacdefgh")])


def containers(X):
    frame = pd.DataFrame(X)
    return {
        "array": X,
        "objects": X.astype(object),
        "pandas": frame,
        "sparse": sparse.csr_matrix(X),
        "polars": pl.DataFrame(X, schema=[str(j) for j in range(8)]),
    }


@pytest.mark.filterwarnings("ignore:X (does not have|has feature names)")
@pytest.mark.parametrize("used", ["array", "objects", "pandas", "sparse", "polars"])
@pytest.mark.parametrize("fitted_on", ["array", "objects", "pandas", "sparse", "polars"])
def test_fit_on_one_library_s_table_and_predict_on_another_s(fitted_on, used):
    X, y = make_table()
    tables = containers(X)
    model = quick(parties=3, host_epochs=1).fit(tables[fitted_on], y)
    np.testing.assert_allclose(model.predict_proba(tables[used]), model.predict_proba(tables[fitted_on]), atol=1e-4)


def test_reordered_columns_are_refused_even_where_scikit_learn_does_not_look():
    X, y = make_table()
    frame = pd.DataFrame(X, columns=[10, 20, 30, 40, 50, 60, 70, 80])
    model = quick(parties=3).fit(frame, y)
    with pytest.raises(InputError, match=r"learnt from 3 columns \(40, 50, 60\)"):
        model.predict(frame[[80, 70, 60, 50, 40, 30, 20, 10]])


def test_score_takes_present(fitted):
    model, X, y = fitted
    assert model.score(X, y, present={"shop": False, "telco": False}) < model.score(X, y)


def test_a_failed_fit_is_not_a_fit():
    X, y = make_table()
    model = quick(recipe="secret")
    with pytest.raises(InputError):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_labels_are_checked_before_guests_learn(monkeypatch):
    X, y = make_table()
    monkeypatch.setattr(NAT, "fit", lambda *arguments: pytest.fail("a guest has learnt"))
    with pytest.raises(InputError, match="one class only"):
        quick(learner="nat").fit(X, 0 * y)


def test_embeddings_are_checked_before_guests_learn(monkeypatch):
    X, y = make_table(50)
    monkeypatch.setattr(Guest, "learn", None)
    model = FedOnceClassifier(recipe=Recipe(network=NCF((4,), ())))
    with pytest.raises(InputError, match="as long as party 'party1' has columns .4.. Got .4,."):
        model.fit(X, y)


def test_a_failing_learner_is_named_with_its_party():
    X, y = make_table()

    class Broken(PCA):
        def fit(self, rows, dim, rng, device):
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom") as caught:
        quick(learner={"telco": Broken()}).fit(X, y)
    assert caught.value.__notes__ == ["(party 'telco' failed in learn)"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_dates(library):
    """A guest's dates alone tell the class: before or after a day, or on which day of the week."""
    frames = pytest.importorskip(library)
    days = np.datetime64("2020-01-01") + np.random.default_rng(0).integers(0, 1000, 400)
    y = days > np.datetime64("2021-06-01")
    X = frames.DataFrame(
        {"noise": np.random.default_rng(1).standard_normal(400), "joined": days.astype("datetime64[us]")}
    )
    model = FedOnceClassifier(parties={"bank": ["noise"], "shop": ["joined"]}, host="bank", random_state=0)
    assert model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.9


SECRET = pd.DataFrame({"a": np.arange(60.0), "b": np.arange(60.0) % 7, "c": [f"secret{j}" for j in range(60)]})
CLASSES = np.arange(60) % 2


@pytest.mark.parametrize(
    "rows",
    [SECRET.to_dict("records"), SECRET.to_dict("list"), SECRET["c"].tolist(), SECRET["c"].to_numpy()],
    ids=["records", "lists", "texts", "array"],
)
def test_an_error_on_the_rows_does_not_show_them(rows):
    with pytest.raises(InputError, match="Reshape your data") as error:
        FedOnceClassifier().fit(rows, CLASSES)
    assert "secret" not in "".join(traceback.format_exception(error.value))
    assert "60" in str(error.value) or "length 3" in str(error.value)
    model = FedOnceClassifier(host_epochs=1).fit(SECRET[["a", "b"]], CLASSES)
    with pytest.raises(InputError, match="Reshape your data") as error:
        model.predict(rows)
    assert "secret" not in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize("estimator", [FedOnceClassifier, FedOnceRegressor])
def test_labels_of_two_columns_are_told_by_their_shape(estimator):
    same = pd.concat([SECRET["a"], SECRET["a"]], axis=1)  # two columns of one name
    for label in (SECRET[["a", "b"]], same, same.to_numpy()):
        with pytest.raises(InputError, match=r"y should be a 1d array, one label per row. Got a .* of shape \(60, 2\)"):
            estimator().fit(SECRET[["a", "b"]], label)
    model = estimator(host_epochs=1).fit(SECRET[["a", "b"]], CLASSES)
    with pytest.raises(InputError, match=r"of shape \(60, 2\)"):
        model.score(SECRET[["a", "b"]], same)


def test_labels_of_text_are_not_shown():
    with pytest.raises(InputError, match="must be numbers. Got text") as error:
        FedOnceRegressor().fit(SECRET[["a", "b"]], SECRET["c"])
    assert "secret" not in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize(
    "value", [SECRET, SECRET.to_numpy(), SECRET["c"].tolist(), SECRET.to_dict("records")], ids=type
)
def test_no_parameter_s_error_shows_rows(value):
    budget = {"epsilon": 1.0, "delta": 1e-4, "bounds": (0, 60), "target_bounds": [0, 1]}
    for parameter in FedOnceClassifier().get_params():
        for others in ({}, budget):
            settings = {"host_epochs": 1} | others | {parameter: value}
            said = ""
            try:
                FedOnceClassifier(**settings).fit(SECRET[["a", "b"]], CLASSES)
            except Exception as error:
                said = str(error)
            assert "secret" not in said, parameter


# --- privacy= and its short forms ---

BUDGET = {"epsilon": 4.0, "bounds": (-9, 9), "target_bounds": [0, 1], "accountant": "rdp"}


def spent(model):
    X, y = make_table()
    return model.fit(X, y).predict_proba(X), [repr(entry) for entry in model.ledger_.entries]


def test_privacy_and_its_short_forms_are_the_same():
    whole = quick(privacy=Privacy(**BUDGET, insecure_test_seed=0))
    short = quick(**BUDGET, privacy=Privacy(insecure_test_seed=0))
    for one, other in zip(spent(whole), spent(short), strict=True):
        np.testing.assert_array_equal(one, other)
    assert whole.__sklearn_tags__().non_deterministic
    assert not quick(privacy=Privacy()).__sklearn_tags__().non_deterministic


@pytest.mark.parametrize(
    ("short", "field"),
    [
        ({"epsilon": 2.0}, {"epsilon": 4.0}),
        ({"accountant": "rdp"}, {"accountant": "reference"}),
        ({"bounds": (0, 1)}, {"bounds": np.array([0, 2])}),
    ],
)
def test_a_short_form_that_disagrees_with_privacy_is_refused(short, field):
    X, y = make_table()
    (name,) = short
    said = rf"'{name}' parameter of FedOnceClassifier is .*, and its privacy=Privacy\({name}=...\) is .*Give one of the two"
    with pytest.raises(InputError, match=said):
        quick(**short, privacy=Privacy(**{"epsilon": 4.0} | field)).fit(X, y)


def test_privacy_must_be_one():
    X, y = make_table()
    with pytest.raises(InputError, match="'privacy' parameter of FedOnceClassifier must be a Privacy or None. Got 4.0"):
        quick(privacy=4.0).fit(X, y)


def test_privacy_in_scikit_learn_s_hands():
    X, y = make_table()
    privacy = Privacy(**BUDGET, clip=0.5, insecure_test_seed=0)
    model = quick(privacy=privacy)
    assert clone(model).privacy == privacy
    model.set_params(privacy__clip=0.1, dim=3)
    assert (model.privacy.clip, model.privacy.epsilon, model.dim) == (0.1, 4.0, 3)
    assert privacy.clip == 0.5  # a copy was changed
    assert quick().set_params(privacy__clip=0.1).privacy == Privacy(clip=0.1)
    assert quick().set_params(privacy=privacy, privacy__clip=2.0).privacy.clip == 2.0
    with pytest.raises(InputError, match=r"set by its fields \(epsilon, .*Got 'privacy__clap'"):
        model.set_params(privacy__clap=0.1)
    search = GridSearchCV(quick(privacy=privacy), {"privacy__epsilon": [1.0, 8.0]}, cv=2).fit(X, y)
    assert search.best_estimator_.plan_.epsilon == search.best_params_["privacy__epsilon"]


@pytest.mark.parametrize("field", ["clip", "budget_shares", "insecure_test_seed"])
def test_parameters_that_moved_into_privacy_still_work_and_say_so(field):
    value = {"clip": 0.2, "budget_shares": "common", "insecure_test_seed": 1}[field]
    base = Privacy(insecure_test_seed=0) if field != "insecure_test_seed" else None
    with pytest.warns(
        FedOnceWarning, match=rf"'{field}' parameter of FedOnceClassifier has moved.*Privacy\({field}="
    ) as told:
        model = quick(**BUDGET, privacy=base, **{field: value})
    assert told[0].filename == __file__
    assert getattr(model.privacy, field) == value
    assert clone(model).privacy == model.privacy
    today = quick(**BUDGET, privacy=Privacy(**{"insecure_test_seed": 0} | {field: value}))
    for one, other in zip(spent(model), spent(today), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.warns(FedOnceWarning, match="has moved"):
        assert model.set_params(**{field: None}).privacy == (base or Privacy())
    with pytest.warns(FedOnceWarning, match="has moved"), pytest.raises(InputError, match="Give one of the two"):
        quick(privacy=Privacy(**{field: {"budget_shares": {"bank": 1.0}}.get(field, 7)}), **{field: value})


def test_a_parameter_that_never_was_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'lerner'"):
        FedOnceClassifier(lerner="pca")
    with pytest.raises(ValueError, match="Invalid parameter 'lerner'"):
        FedOnceClassifier().set_params(lerner="pca")
