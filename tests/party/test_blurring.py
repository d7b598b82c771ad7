"""A guest with a local epsilon: what it sends, what it keeps, what has no place beside it."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedonce import FedOnceClassifier, Guest, InputError, MessageError, Naming, Representation
from fedonce.data.preparation import Public
from fedonce.data.table import Table
from fedonce.messages.envelope import pack
from fedonce.privacy import budget, ledger
from fedonce.privacy.noise import SecretRandom

ROWS = 120
X = np.random.default_rng(0).normal(size=(ROWS, 4))
NAMING = Naming("keyed", bytes(32))
PUBLIC = Public(bounds=(-4, 4))


def table(values: np.ndarray = X) -> Table:
    return replace(Table.of(values), ids=np.array([f"C{row}" for row in range(len(values))], object))


def shop(name: str = "shop", **given: object) -> Guest:
    return Guest(name, **({"dim": 4, "local_epsilon": 4.0, "public": PUBLIC} | given))


def test_messages_about_the_same_rows_have_the_same_bytes(tmp_path):
    guest = shop(naming=NAMING)
    sent = guest.learn(table())
    assert (sent.local_epsilon, sent.noise, sent.learner, sent.dim) == (4.0, 0.0, "signs", 4)
    assert guest.represent(table()).to_bytes() == sent.to_bytes()
    guest.save(tmp_path / "shop")
    again = Guest.load(tmp_path / "shop")
    assert again.represent(table(), naming=NAMING).to_bytes() == sent.to_bytes()
    assert again.disclosed_epsilon == 4.0


def test_rows_with_ids_keep_their_answers_in_any_company():
    guest = shop(naming=NAMING)
    sent, some = guest.learn(table()), np.array([90, 3, 51])
    part = guest.represent(table().take(some))
    by_id = {key.tobytes(): row for key, row in zip(sent.ids, sent.values, strict=True)}
    for key, row in zip(part.ids, part.values, strict=True):
        np.testing.assert_array_equal(row, by_id[key.tobytes()])


def test_a_column_that_does_not_move_the_cell_changes_no_answer():
    guest = shop(naming=NAMING)
    sent, moved = guest.learn(table()), X.copy()
    moved[:, 0] += 1e-9
    assert guest.represent(table(moved)).to_bytes() == sent.to_bytes()


def test_another_learning_with_the_same_key_repeats_the_answers():
    one, other = (shop(naming=NAMING).learn(table(), noise_key=bytes(32)) for _ in range(2))
    assert one.to_bytes() == other.to_bytes()
    without = shop(naming=NAMING).learn(table())
    assert (without.values != one.values).any()


def test_without_ids_each_message_is_counted(tmp_path):
    guest = shop()
    first = guest.learn(X)
    assert guest.disclosed_epsilon == 4.0
    second = guest.represent(X)
    assert (first.values != second.values).any()
    assert guest.disclosed_epsilon == 8.0
    guest.save(tmp_path / "shop")
    assert Guest.load(tmp_path / "shop").disclosed_epsilon == 8.0


def test_looking_at_what_would_leave_discloses_nothing():
    guest = shop()
    guest.learn(X)
    guest.outgoing(Table.of(X))
    assert guest.state.answered == 1


def test_rows_that_are_equal_are_not_seen_to_be():
    same = np.vstack([X, np.repeat(X[:1], 40, axis=0)])
    sent = shop(dim=16, local_epsilon=1.0).learn(same)
    assert len(np.unique(sent.values[ROWS:], axis=0)) > 20


@pytest.mark.parametrize("secret", [False, True])
def test_nothing_but_answers_depends_on_a_row(secret):
    """One person's columns change: with the same coins the message differs in that person's answer, and nowhere else."""
    rows = pd.DataFrame({"club": ["a"] * 60 + ["c"] * 60, "ill": [False] * ROWS, "age": np.arange(ROWS) / 2})
    messages = []
    for club, ill, age in (("a", False, 0.0), ("b", True, 99.0)):
        rows.loc[0, ["club", "ill", "age"]] = (club, ill, age)
        own = replace(Table.of(rows.astype({"ill": bool})), ids=np.array([f"C{row}" for row in range(ROWS)], object))
        guest = shop(public=Public(bounds={"age": (0, 100)}), dim=8, naming=NAMING)
        messages.append(guest.learn(own, noise_key=bytes([secret] * 32)))
    first, second = messages
    assert first._content()[0] == second._content()[0]
    differ = (first.values != second.values).any(axis=1)
    assert differ.sum() <= 1
    assert (first.codec.steps.low == second.codec.steps.low).all()


def test_answers_follow_the_row():
    """With a large epsilon the cell that is disclosed is the row's own, nearly always."""
    guest = shop(local_epsilon=16)
    sent = guest.learn(X).values.argmax(axis=1)
    own = guest.values(guest.preparation.transform(Table.of(X)))[:, 0]
    assert (sent == own).mean() > 0.99


def test_numbers_need_bounds_and_yes_no_columns_and_text_do_not():
    with pytest.raises(InputError, match="has no bounds"):
        shop(public=None).learn(X)
    rows = pd.DataFrame({"ill": np.arange(60) % 2 == 0, "city": [f"city {row % 40}" for row in range(60)]})
    assert shop(public=None, dim=2).learn(rows).dim == 2


@pytest.mark.parametrize("learner", ["pca", "cells", "random", "autoencoder"])
def test_learners_that_look_at_rows_are_refused(learner):
    with pytest.raises(InputError, match="'learner' parameter of Guest"):
        shop(learner=learner)


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
        shop(**more)


def test_a_budget_has_no_place_beside_it():
    purse = budget.Purse("shop", [], ledger.Ledger(1e-5), SecretRandom())
    with pytest.raises(InputError, match="'purse' parameter of Guest must be None with local_epsilon"):
        shop(purse=purse)


@pytest.mark.parametrize(
    "local", ["privunit 4.0", "subset 0.0", "laplace 4.0", "subset 4e9", "subset -1.0", "subset nan"]
)
def test_a_header_that_states_no_epsilon_is_refused(local):
    header, tensors = shop(dim=2).learn(X)._content()
    with pytest.raises(MessageError, match="no mechanism and epsilon"):
        Representation.from_bytes(pack("message", header | {"local": local}, tensors))


def test_estimator_s_ledger_grows_with_every_prediction():
    labels = X[:, 0] + X[:, 2] > 0
    model = FedOnceClassifier(parties=2, model="linear", local_epsilon=3.0, bounds=(-4, 4), random_state=0)
    model.fit(X, labels)
    assert model.representations_["party2"].local_epsilon == 3.0
    assert model.ledger_.epsilon() == 3.0
    for asked in range(2, 5):
        model.predict(X)
        assert model.ledger_.epsilon() == 3.0 * asked
    assert "each row's values, 4 messages" in str(model.ledger_)
    model.set_params(local_epsilon=None, bounds=None).fit(X, labels)
    assert not hasattr(model, "ledger_")


def test_bounds_without_a_budget_or_a_local_epsilon_are_refused():
    with pytest.raises(InputError, match="'bounds' parameter"):
        FedOnceClassifier(parties=2, bounds=(-4, 4)).fit(X, X[:, 0] > 0)


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
    model = FedOnceClassifier(**({"parties": 2, "local_epsilon": 4, "bounds": (-4, 4)} | more))
    named = "local_epsilon" if "epsilon" in more else next(iter(more))
    with pytest.raises(InputError, match=f"'{named}' parameter of FedOnceClassifier"):
        model.fit(X, X[:, 0] > 0)


def test_another_spelling_of_an_id_is_the_same_row():
    """Spaces, capitals and Unicode forms do not draw another answer, whatever form of ids the parties agreed on."""
    guest = shop(naming=NAMING)
    guest.learn(table(), noise_key=bytes(32))
    first, respelt = table().take(slice(0, 40)), table().take(slice(0, 40))
    respelt = replace(respelt, ids=np.array([f" {text.lower()} " for text in first.ids], object))
    np.testing.assert_array_equal(guest.outgoing(first), guest.outgoing(respelt))
    assert guest.answered(first) == guest.answered(respelt)


def test_a_pickled_estimator_predicts_and_counts():
    model = FedOnceClassifier(parties=2, model="linear", local_epsilon=3.0, bounds=(-4, 4), random_state=0)
    again = pickle.loads(pickle.dumps(model.fit(X, X[:, 0] > 0)))
    again.predict(X)
    assert again.ledger_.epsilon() == 6.0
