"""Hints of estimators: what the host tells of its labels before guests learn."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from fedonce import FedOnceClassifier, FedOnceRegressor, FedOnceWarning, Guest, Hinting, Hints, InputError, MessageError
from fedonce.party.hinting import publish
from tests.conftest import make_table

pytestmark = pytest.mark.filterwarnings("ignore:No guest had use for the hints")
PARTIES = {"bank": [0, 1, 2, 3], "shop": [4, 5, 6, 7]}
QUICK = {"parties": PARTIES, "dim": 3, "learner": "pca", "model": "linear", "random_state": 0, "epochs": 1}


def classifier(hints, **more):
    return FedOnceClassifier(**QUICK | {"hints": hints} | more)


def regressor(hints, **more):
    return FedOnceRegressor(**QUICK | {"hints": hints} | more)


@pytest.fixture(scope="module")
def fitted():
    X, y = make_table()
    return classifier(2.0).fit(X, y)


def test_a_classifier_with_hints_says_so_everywhere(fitted):
    X, y = make_table()
    assert isinstance(fitted.hints_, Hints)
    assert (fitted.hints_.party, fitted.hints_.label, fitted.hints_.classes, fitted.hints_.n_rows) == (
        "bank",
        "label",
        2,
        300,
    )
    assert fitted.representations_["shop"].hints == "2.0 label"
    assert fitted.representations_["shop"].learner == "pca"  # no use for hints
    line, total = fitted.ledger_.rows()
    assert (line["party"], line["what"], line["party alone"]) == ("bank", "hints at 'label'", 2.0)
    assert total["epsilon"] == 2.0
    assert "total: epsilon 2 at delta 0" in str(fitted.ledger_)
    assert fitted.predict(X).shape == y.shape
    assert fitted.score(X, y) > 0.8


def test_where_there_is_nobody_to_tell_no_label_is_told(recwarn):
    X, y = make_table()
    model = classifier(2.0, parties={"bank": list(range(8))}, host="bank").fit(X, y)
    assert model.hints_ is None
    assert not hasattr(model, "ledger_")
    assert ["one party only" in str(warning.message) for warning in recwarn.list] == [True]


def test_hints_that_no_guest_had_use_for_are_told_of():
    """They cost their epsilon all the same."""
    X, y = make_table()
    with pytest.warns(
        FedOnceWarning,
        match="No guest had use for the hints at 'label', which were told with epsilon 2. Tables use hints only with",
    ):
        model = classifier(2.0).fit(X, y)
    assert model.representations_["shop"].note.startswith("0 of 3 values by hints")
    assert model.ledger_.epsilon() == 2.0


def test_without_hints_nothing_is_said():
    X, y = make_table()
    model = classifier(None).fit(X, y)
    assert model.hints_ is None
    assert model.representations_["shop"].hints == ""
    assert not hasattr(model, "ledger_")


def test_each_label_is_told_as_often_truly_as_said():
    X, y = make_table(4000)
    model = classifier(1.0).fit(X, y)
    assert (model.hints_.answers == y).mean() == pytest.approx(model.hints_.keep, abs=0.03)


def test_the_noise_is_not_random_state_s():
    X, y = make_table()
    first, second = (classifier(1.0).fit(X, y).hints_.answers for _ in range(2))
    assert (first != second).any()
    assert classifier(1.0).__sklearn_tags__().non_deterministic
    assert not classifier(None).__sklearn_tags__().non_deterministic


def test_what_is_told_can_be_told_again():
    """Hints that were published once serve many trainings, and cost once."""
    X, y = make_table()
    ready = publish(y, Hinting(1.0, label="repaid"), party="bank")
    first, second = (classifier(ready).fit(X, y) for _ in range(2))
    assert first.hints_ is ready
    assert first.representations_["shop"].to_bytes() == second.representations_["shop"].to_bytes()
    assert first.ledger_.rows()[0]["what"] == "hints at 'repaid'"


def test_another_label_may_travel_as_it_is():
    X, y = make_table()
    coarse = publish(y, Hinting(math.inf, label="last year's"), party="bank")
    model = classifier(coarse).fit(X, y)
    line, total = model.ledger_.rows()
    assert line["what"] == 'hints at "last year\'s", as it is'
    assert total["epsilon"] == math.inf
    assert model.representations_["shop"].hints == "inf last year's"


def test_numbers_in_bins():
    X, _ = make_table()
    y = X[:, 0] + X[:, 5]
    by_edges = regressor(Hinting(3.0, edges=(-1.0, 0.0, 1.0))).fit(X, y)
    assert (by_edges.hints_.classes, by_edges.hints_.edges.tolist()) == (4, [-1.0, 0.0, 1.0])
    assert by_edges.predict(X).shape == y.shape


def test_a_guest_that_lacks_rows_takes_the_hints_of_those_that_it_has():
    X, y = make_table(400)
    mask = np.arange(400) % 3 != 0
    model = classifier(4.0).fit(X, y, present={"shop": mask})
    assert model.representations_["shop"].hints == "4.0 label"
    assert model.overlap_["shop"] == pytest.approx(mask.mean())


@pytest.mark.parametrize(
    ("make", "more", "said"),
    [
        (
            classifier,
            {"rounds": 1},
            "'hints' parameter of FedOnceClassifier must be None with rounds, protect, local_epsilon or a",
        ),
        (classifier, {"local_epsilon": 4.0}, "must be None with rounds, protect, local_epsilon or a privacy budget"),
        (
            classifier,
            {"epsilon": 2.0, "bounds": (0, 1), "target_bounds": [0, 1]},
            "must be None with rounds, protect, local_eps",
        ),
        (classifier, {"hints": -1.0}, "'epsilon' parameter of Hinting must be a number from 0.01"),
        (classifier, {"hints": "2"}, "must be an epsilon, a Hinting, Hints or None. Got '2'"),
        (classifier, {"hints": math.inf}, "must be finite: fit hints at its own labels"),
        (classifier, {"learner": "cells"}, "None with the learner 'cells', whose values leave no room for hints"),
        (regressor, {}, r"Hints at numbers need bins with public edges: Hinting\(epsilon, edges=\(...\)\)"),
    ],
)
def test_what_cannot_be(make, more, said):
    X, y = make_table()
    with pytest.raises(InputError, match=said):
        make(2.0).set_params(**more).fit(X, y)


def test_hints_about_other_rows_are_refused_with_the_guest_s_name():
    X, y = make_table()
    with pytest.raises(MessageError, match="about 299 rows, and the agreed ones are 300") as failed:
        classifier(publish(y[1:], Hinting(1.0))).fit(X, y)
    assert any("party 'shop' failed in learn" in note for note in failed.value.__notes__)


def test_hints_of_another_run_are_refused():
    X, y = make_table()
    with pytest.raises(MessageError, match="they belong to run 'loans'"):
        classifier(publish(y, Hinting(1.0), run="loans")).fit(X, y)


def test_a_ledger_of_a_fit_before_does_not_stay(fitted):
    X, y = make_table()
    model = clone(fitted).fit(X, y)
    model.set_params(hints=None).fit(X, y)
    assert not hasattr(model, "ledger_")
    assert model.hints_ is None


@pytest.mark.parametrize("hints", [2.0, Hinting(2.0, label="repaid"), publish([0, 1], Hinting(1.0))])
def test_clone(hints):
    copied = clone(classifier(hints)).hints
    assert type(copied) is type(hints)
    assert copied == hints or copied.to_bytes() == hints.to_bytes()


@pytest.mark.parametrize("given", [[0, 1], np.array([0, 1])], ids=["list", "array"])
def test_labels_are_no_hints(given):
    X, y = make_table()
    with pytest.raises(InputError, match="'hints' parameter of FedOnceClassifier must be an epsilon, a Hinting, Hints"):
        classifier(given).fit(X, y)


def test_a_guest_takes_hints_and_no_epsilon():
    X, _ = make_table()
    with pytest.raises(InputError, match="'hints' parameter of Guest.learn must be Hints .* or None. Got 2.0 instead"):
        Guest("shop", dim=2).learn(X, hints=2.0)


def test_pickled_without_what_was_told(fitted):
    X, _ = make_table()
    loaded = pickle.loads(pickle.dumps(fitted))
    assert not hasattr(loaded, "hints_")
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
