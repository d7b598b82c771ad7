"""A guest with a local epsilon: what it sends, what it keeps, what has no place beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedonce import FedOnceClassifier, Guest, InputError, MessageError, Naming, Representation
from fedonce.data.table import Table
from fedonce.learners import Cells
from fedonce.messages.envelope import pack
from fedonce.party import storage
from fedonce.privacy import budget, ledger
from fedonce.privacy.noise import SecretRandom

ROWS = 120
X = np.random.default_rng(0).normal(size=(ROWS, 4))
NAMING = Naming("keyed", bytes(32))


def table(values: np.ndarray = X) -> Table:
    return replace(Table.of(values), ids=np.array([f"C{row}" for row in range(len(values))], object))


@pytest.mark.parametrize(("learner", "mechanism"), [("auto", "subset"), ("cells", "subset"), ("pca", "privunit")])
def test_training_and_prediction_give_the_same_bytes(learner, mechanism, tmp_path):
    guest = Guest("shop", learner, dim=4, local_epsilon=4)
    sent = guest.learn(X)
    assert (sent.local_epsilon, sent.mechanism, sent.noise) == (4.0, mechanism, 0.0)
    assert guest.represent(X).to_bytes() == guest.represent(X).to_bytes()
    np.testing.assert_array_equal(guest.represent(X).values, sent.values)
    guest.save(tmp_path / "shop")
    again = Guest.load(tmp_path / "shop")
    assert again.represent(X).to_bytes() == guest.represent(X).to_bytes()
    assert again.represent(X).maker == sent.maker
    assert storage.load(tmp_path / "shop", "guest").version == storage.LOCAL


def test_rows_with_ids_keep_their_answers_in_any_order():
    guest = Guest("shop", "pca", dim=3, local_epsilon=4, naming=NAMING)
    sent, some = guest.learn(table()), np.array([90, 3, 51])
    part = guest.represent(table().take(some))
    by_id = {key.tobytes(): row for key, row in zip(sent.ids, sent.values, strict=True)}
    for key, row in zip(part.ids, part.values, strict=True):
        np.testing.assert_array_equal(row, by_id[key.tobytes()])


def test_rows_that_are_alike_are_not_seen_to_be():
    same = np.vstack([X, np.repeat(X[:1], 40, axis=0)])
    sent = Guest("shop", "pca", dim=3, local_epsilon=4).learn(same)
    assert len(np.unique(sent.values[ROWS:], axis=0)) > 35


def test_two_guests_alike_draw_differently_and_have_other_models():
    """Neither the seed nor the rows tell the answers; and no digest of the model lets a guess of a row be checked."""
    one, other = (Guest("shop", "pca", dim=3, local_epsilon=4).learn(X) for _ in range(2))
    assert np.abs(one.values - other.values).max() > 0.1
    assert one.model != other.model


def test_a_key_from_outside_is_used():
    one, other = (Guest("shop", "pca", dim=3, local_epsilon=4).learn(X, noise_key=bytes(32)) for _ in range(2))
    assert one.to_bytes() == other.to_bytes()


def test_what_describes_the_codec_depends_on_no_row():
    for learner in ("pca", "cells"):
        first, second = (
            Guest("shop", learner, dim=4, local_epsilon=2).learn(rows).codec for rows in (X, 7 * X[::-1] + 3)
        )
        assert type(first) is type(second)
        np.testing.assert_array_equal(first.steps.low, second.steps.low)
        np.testing.assert_array_equal(first.steps.step, second.steps.step)


def test_answers_follow_the_row():
    """With a large epsilon the cell that is told is the row's own, nearly always."""
    guest = Guest("shop", "cells", dim=4, local_epsilon=16)
    told = guest.learn(X).values.argmax(axis=1)
    own = guest.values(guest.preparation.transform(Table.of(X)))[:, 0]
    assert (told == own).mean() > 0.99


def test_cells_are_as_many_as_values():
    guest = Guest("shop", Cells(cells=64, least=1), dim=5, local_epsilon=4)
    assert guest.learn(X).dim == 5
    assert Guest("shop", Cells(cells=3, least=1), dim=5, local_epsilon=4).learn(X).dim == 3


def test_one_cell_alone():
    assert Guest("shop", "cells", dim=4, local_epsilon=4).learn(np.ones((50, 2))).dim == 2


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"noise": 0.1}, "noise"),
        ({"bytes_per_row": 2}, "bytes_per_row"),
        ({"bits": 32}, "bits"),
        ({"dim": 1}, "dim"),
        ({"local_epsilon": 0}, "local_epsilon"),
        ({"local_epsilon": float("nan")}, "local_epsilon"),
        ({"local_epsilon": True}, "local_epsilon"),
    ],
)
def test_what_has_no_place_beside_it(more, named):
    with pytest.raises(InputError, match=f"The '{named}' parameter of Guest"):
        Guest("shop", **({"local_epsilon": 4} | more))


def test_a_budget_has_no_place_beside_it():
    purse = budget.Purse("shop", [], ledger.Ledger(1e-5), SecretRandom())
    with pytest.raises(InputError, match="'purse' parameter of Guest must be None with local_epsilon"):
        Guest("shop", "pca", purse=purse, local_epsilon=4)


@pytest.mark.parametrize("local", ["privunit", "subset 0.0", "laplace 4.0", "subset 4e9", "subset -1.0", "subset nan"])
def test_a_header_that_states_no_epsilon_is_refused(local):
    header, tensors = Guest("shop", "pca", dim=2, local_epsilon=4).learn(X)._content()
    with pytest.raises(MessageError, match="no mechanism and epsilon"):
        Representation.from_bytes(pack("message", header | {"local": local}, tensors))


def test_estimator_states_it_in_its_ledger():
    labels = X[:, 0] + X[:, 2] > 0
    model = FedOnceClassifier(parties=2, model="linear", local_epsilon=3.0, random_state=0).fit(X, labels)
    assert model.representations_["party2"].local_epsilon == 3.0
    assert model.ledger_.epsilon() == 3.0
    assert "each row's values" in str(model.ledger_)
    np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(X))
    model.set_params(local_epsilon=None).fit(X, labels)
    assert not hasattr(model, "ledger_")


@pytest.mark.parametrize(
    "more",
    [
        {"rounds": 1},
        {"representation_noise": 0.1},
        {"bytes_per_row": 2.0},
        {"epsilon": 2.0, "target_bounds": [False, True]},
        {"bits": 16},
    ],
)
def test_estimator_refuses_what_has_no_place_beside_it(more):
    model = FedOnceClassifier(parties=2, local_epsilon=4, **more)
    with pytest.raises(InputError, match=f"'{next(iter(more))}' parameter of FedOnceClassifier"):
        model.fit(X, X[:, 0] > 0)
