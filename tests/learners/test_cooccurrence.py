"""Vectors of categories with many values, and what is shared out between them and other columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from fedonce import BudgetError, FedOnceRegressor, FedOnceWarning, Guest, InputError
from fedonce.data.table import Table
from fedonce.export.onnx import export_guest
from fedonce.learners import Auto, Cooccurrence
from fedonce.learners.cooccurrence import _shared_out
from fedonce.party import storage

CPU = torch.device("cpu")
GROUPS, VALUES, N = 4, 60, 6000


def groups(columns=2, n=N, seed=0):
    """Codes of columns whose values belong to groups; nine rows in ten have values of one group alone."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, GROUPS, n)
    codes = []
    for _ in range(columns):
        own = np.where(rng.random(n) < 0.9, group, rng.integers(0, GROUPS, n))
        codes.append(1 + GROUPS * (VALUES // GROUPS * rng.random(n) ** 2).astype(int) + own)
    return np.column_stack(codes).astype(np.float32)


def fitted(rows, dim, coded):
    learner = Cooccurrence()
    assert learner.fit(rows, dim, np.random.default_rng(0), CPU, coded=coded) == []
    return learner


def own_groups(vectors):
    """How many values are nearest to the mean of their own group, without counts."""
    places, group = vectors[1:, 1:], (np.arange(1, len(vectors)) - 1) % GROUPS
    means = np.stack([places[group == each].mean(axis=0) for each in range(GROUPS)])
    nearest = ((places[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    return np.mean(nearest == group)


def table(n=N, seed=0):
    """Two columns of text with 60 values each, and two of numbers."""
    rng, codes = np.random.default_rng(seed), groups(n=n, seed=seed).astype(int)
    numbers = {"price": rng.standard_normal(n), "weight": rng.standard_normal(n)}
    return pd.DataFrame({"user": [f"u{c}" for c in codes[:, 0]], "film": [f"f{c}" for c in codes[:, 1]], **numbers})


@pytest.mark.parametrize("columns", [2, 3])
def test_values_that_occur_with_the_same_have_vectors_alike(columns):
    learner = fitted(groups(columns), 4 * columns, tuple(range(columns)))
    assert [each.shape for each in learner.vectors_] == [(VALUES + 1, 4)] * columns
    assert min(map(own_groups, learner.vectors_)) > 0.95


def test_vectors_are_those_of_the_normalised_counts():
    rows = groups()
    counts = np.zeros((VALUES + 1, VALUES + 1))
    np.add.at(counts, tuple(rows.astype(int).T), 1)
    margins = [counts.sum(axis=1), counts.sum(axis=0)]
    left, strengths, right = np.linalg.svd(counts / np.sqrt(np.outer(*(margin + 1 for margin in margins))))
    for vectors, margin, exact in zip(fitted(rows, 6, (0, 1)).vectors_, margins, (left, right.T), strict=True):
        np.testing.assert_allclose(vectors[:, 0], np.log1p(margin), rtol=1e-6)
        wanted = exact[:, 1:3] * np.sqrt(strengths[1:3] * (VALUES + 1))
        np.testing.assert_allclose(np.abs(vectors[:, 1:]), np.abs(wanted), atol=1e-3)


def test_one_column_is_placed_by_the_rest():
    rows, rng = groups(1), np.random.default_rng(1)
    rest = np.eye(GROUPS, dtype=np.float32)[(rows[:, 0].astype(int) - 1) % GROUPS]
    rest += 0.5 * rng.standard_normal(rest.shape, dtype=np.float32)
    learner = fitted(np.hstack([rest[:, :2], rows, rest[:, 2:]]), 7, (2,))
    assert own_groups(learner.vectors_[0]) > 0.95
    assert learner.rest_.directions_.shape == (3, 4)


def test_one_column_alone_is_its_counts():
    rows = groups(1)
    values = fitted(rows, 8, (0,)).transform(rows, CPU)
    np.testing.assert_allclose(
        values[:, 0], np.log1p(np.bincount(rows[:, 0].astype(int)))[rows[:, 0].astype(int)], rtol=1e-6
    )
    assert values.shape == (N, 1)


def test_what_was_not_seen_is_zeros():
    learner = fitted(groups(), 6, (0, 1))
    values = learner.transform(np.array([[0, 5], [VALUES + 7, 5], [5, 0], [1e6, -3]], np.float32), CPU)
    zeros = [[True, False], [True, False], [False, True], [True, True]]
    np.testing.assert_array_equal(values.reshape(4, 2, 3) == 0, np.repeat(np.array(zeros)[:, :, None], 3, axis=2))


def test_missing_values_say_nothing():
    rows = groups()
    rows[::5, 0] = 0
    both = (rows > 0).all(axis=1)
    first, second = (fitted(each, 8, (0, 1)).vectors_ for each in (rows, rows[both]))
    np.testing.assert_allclose(first[0][:, 0], second[0][:, 0])  # counts of the column with gaps
    assert min(own_groups(vectors) for vectors in first) > 0.95
    assert not first[0][0].any()
    assert Cooccurrence().fit(np.zeros((50, 2), np.float32), 4, np.random.default_rng(0), CPU, coded=(0, 1)) == []


def test_room_goes_to_what_adds_most():
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal((N, 3), dtype=np.float32)
    related = fitted(np.hstack([groups(), numbers]), 8, (0, 1))
    assert [each.shape[1] for each in related.vectors_] == [
        3,
        2,
    ]  # a third axis adds more than any number, but there is no room
    assert related.rest_.directions_.shape == (3, 3)
    chance = rng.integers(1, VALUES + 1, (N, 2)).astype(np.float32)
    assert [each.shape[1] for each in fitted(np.hstack([chance, numbers]), 5, (0, 1)).vectors_] == [1, 1]
    assert _shared_out([np.array([1.0, 0.2]), np.array([1.0, 0.5]), np.array([0.7, 0.1])], 4) == [1, 2, 1]


@pytest.mark.parametrize("learner", ["cooccurrence", "auto"])
def test_a_guest_learns_is_kept_and_meets_values_that_are_new(learner, tmp_path):
    guest = Guest("shop", learner, 8)
    message = guest.learn(table())
    assert (message.learner, message.dim) == ("cooccurrence", 8)
    assert guest.preparation.coded == (0, 1)
    new = table(50, seed=1)
    new.loc[:9, "user"], new.loc[5:14, "film"], new.loc[20, "price"] = "nobody", None, np.nan
    guest.save(tmp_path)
    loaded = Guest.load(tmp_path)
    np.testing.assert_array_equal(loaded.represent(new).values, guest.represent(new).values)
    values = guest.values(guest.preparation.transform(Table.of(new)))
    np.testing.assert_array_equal((values[:, :3] == 0).all(axis=1), new["user"] == "nobody")
    assert loaded.learn(table()).model == message.model  # a guest from disk still takes codes


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (table(1000)[["user"]], "nothing that its values could occur with"),
        (table(120), "too few rows"),
        (table(1000).assign(user=range(1000), film=range(1000)), "numbers, unless the table says otherwise"),
    ],
)
def test_auto_leaves_other_tables_as_they_were(frame, why):
    guest = Guest("shop", "auto", 8)
    assert guest.learn(frame).learner != "cooccurrence", why
    assert guest.preparation.coded == ()


def test_numbers_that_are_names_count_as_such():
    frame = table(1000)[["user", "price"]]
    frame["user"] = pd.Categorical(frame["user"].str[1:].astype(int))
    assert Guest("shop", "auto", 8).learn(frame).learner == "cooccurrence"


def test_the_host_learns_from_it():
    frame, rng = table(), np.random.default_rng(0)
    codes = groups().astype(int)
    y = ((codes - 1) % GROUPS @ [1.0, 0.5]) + 0.1 * rng.standard_normal(N)
    X = frame.assign(own=rng.standard_normal(N))
    parties = {"bank": ["own"], "shop": ["user", "film", "price", "weight"]}
    errors = {}
    for learner in ("auto", "pca"):
        model = FedOnceRegressor(parties, learner=learner, dim=8, model="trees", validate=False, random_state=0)
        errors[learner] = np.sqrt(np.mean((model.fit(X[:5000], y[:5000]).predict(X[5000:]) - y[5000:]) ** 2))
        assert model.learners_ == {"shop": "cooccurrence" if learner == "auto" else "pca"}
    assert errors["auto"] < 0.6 * errors["pca"]


def test_a_budget_is_refused_and_says_who_can():
    with pytest.raises(BudgetError, match="'cooccurrence' has no private version: .* learn by 'auto', 'pca'"):
        FedOnceRegressor(
            {"bank": ["weight"], "shop": ["price"]},
            learner="cooccurrence",
            epsilon=1.0,
            bounds=(0, 1),
            target_bounds=(0, 1),
        ).fit(table()[["price", "weight"]], np.linspace(0, 1, N))


def test_with_codes_it_keeps_the_contract_of_learners():
    rows = np.hstack([groups(), np.random.default_rng(1).standard_normal((N, 3), dtype=np.float32)])
    np.random.seed(0)
    learner = fitted(rows, 7, (0, 1))
    after = np.random.rand()
    np.random.seed(0)
    assert after == np.random.rand()
    values, restored = learner.transform(rows, CPU), Cooccurrence()
    assert (values.shape, values.dtype) == ((N, 7), np.float32)
    np.testing.assert_array_equal(values, fitted(rows, 7, (0, 1)).transform(rows, CPU))
    np.testing.assert_array_equal(values[7:8], learner.transform(rows[7:8], CPU))
    restored.restore(learner.state())
    np.testing.assert_array_equal(values, restored.transform(rows, CPU))


def test_export_is_refused_in_words(tmp_path):
    guest = Guest("shop", "auto", 4)
    guest.learn(table())
    with pytest.raises(InputError, match="'cooccurrence' gives no network to export"):
        export_guest(guest, tmp_path / "shop.onnx")


FORGED = {
    "columns beyond the row": ("coded", lambda coded: coded + 90),
    "columns twice": ("coded", lambda coded: coded * 0),
    "columns below zero": ("coded", lambda coded: coded - 1),
    "columns of fractions": ("coded", lambda coded: coded.astype(np.float64)),
    "columns without vectors": ("coded", lambda coded: np.append(coded, 2)),
    "no vectors": ("vectors.0", lambda vectors: vectors[:0]),
    "too many entries": ("vectors.0", lambda vectors: np.hstack([vectors] * 9)),
    "flat": ("vectors.1", lambda vectors: vectors.ravel()),
    "not finite": ("vectors.1", lambda vectors: vectors * np.float32("nan")),
    "integers": ("vectors.1", lambda vectors: vectors.astype(np.int64)),
    "something for the unseen": ("vectors.0", lambda vectors: vectors + 1),
    "components of other columns": ("rest.directions", lambda directions: directions[:, :1]),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_folder_is_refused(what, tmp_path):
    guest = Guest("shop", "cooccurrence", 8)
    guest.learn(table(1000))
    guest.save(tmp_path)
    stored = storage.load(tmp_path, "guest")
    name, forge = FORGED[what]
    stored.weights[f"learner.{name}"] = np.ascontiguousarray(forge(stored.weights[f"learner.{name}"]))
    storage.save(tmp_path, stored)
    with pytest.raises(InputError):
        Guest.load(tmp_path)


def test_columns_of_codes_are_not_dates_later():
    guest = Guest("shop", "cooccurrence", 4)
    guest.learn(table(1000))
    new = table(5).assign(user=pd.Timestamp("2024-01-01"))
    with pytest.raises(InputError, match="Column 'user' of party 'shop' was text at training and is dates now"):
        guest.represent(new)


@pytest.mark.parametrize(("most", "per_byte", "entries"), [(0.5, None, 2), (2, None, 4), (2, 3, 6), (100, None, 12)])
def test_fewer_bytes_are_spent_on_fewer_entries(most, per_byte, entries):
    learner = Cooccurrence(bytes_per_row=most, values_per_byte=per_byte)
    learner.fit(groups(), 12, np.random.default_rng(0), CPU, coded=(0, 1))
    assert learner.transform(groups(), CPU).shape[1] == entries


def test_a_guest_hands_its_bytes_to_what_auto_chose():
    guest = Guest("shop", dim=16, bytes_per_row=1.5)
    message = guest.learn(table())
    assert (message.learner, message.dim) == ("cooccurrence", 3)
    assert message.payload_bytes <= 1.5 * N


def test_a_message_that_may_be_read_is_not_made_of_such_categories():
    with pytest.warns(FedOnceWarning, match="readable=True has no effect"):
        assert Guest("shop", Auto(readable=True)).learn(table()).learner == "cooccurrence"


def test_no_entries_per_byte_cannot_be_meant():
    with pytest.raises(InputError, match="'values_per_byte' parameter of Cooccurrence must be a number above 0"):
        Cooccurrence(1.0, 0).fit(groups(), 4, np.random.default_rng(0), CPU, coded=(0, 1))
