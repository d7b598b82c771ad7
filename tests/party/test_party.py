from __future__ import annotations

import tracemalloc
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch

from fedonce import (
    NCF,
    FedOnceClassifier,
    FedOnceRegressor,
    Guest,
    Host,
    InputError,
    MessageError,
    Recipe,
    Representation,
)
from fedonce.data.table import Table
from fedonce.learners import NAT, PCA, Autoencoder, Random
from fedonce.messages.codecs import find
from fedonce.rows.ids import keys_of
from tests.conftest import make_table

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def trained():
    X, y = make_table()
    guest = Guest("shop", "pca", dim=3)
    message = guest.learn(X[:, 4:])
    host = Host("bank", epochs=2)
    host.aggregate(X[:, :4], y, [message])
    return host, guest, X, y


def test_the_guests_values_take_no_more_memory_than_allowed():
    """The finding: one row of 2^17 values made the host take 7 GB for the rows that the guest did not have."""
    X, y = make_table(2000)
    ids = np.array([f"c{i}" for i in range(2000)], dtype=object)
    d = 2**17
    values = np.zeros((1, d), np.float32)
    keys = keys_of("hashed", ids[:1], None, "local", ())
    one = Representation.encode(values, find(32).fit(values), "shop", rows="rows", ids=keys, naming="hashed")
    own = replace(Table.of(X), ids=ids)
    host = Host("bank", epochs=1, max_memory=10**9)
    tracemalloc.start()
    with pytest.raises(
        InputError, match=r"1.05 GB \(2,000 rows of 131,072 values\), .*1 GB \(max_memory\).*fewer values"
    ):
        host.aggregate(own, y, [one])
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()
    host = Host("bank", epochs=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedonce.system.sizes.machine_memory", lambda: 4 * 10**9)
        with pytest.raises(InputError, match="the limit is 1 GB .a quarter of this machine's memory."):
            host.aggregate(own, y, [one])


def test_a_guest_s_message_says_what_it_is():
    X, _ = make_table()
    message = Guest("shop", "pca", dim=20, bits=4, run="june").learn(X[:, 4:])
    assert (message.party, message.run, message.learner, message.bits, message.dim) == (
        "shop",
        "june",
        "pca",
        4,
        4,
    )
    assert message.note == "dim lowered from 20 to 4"
    assert message.spent is None


def test_auto_says_what_it_chose():
    X, _ = make_table()
    assert Guest("shop", "auto").learn(X).learner == "pca"


@pytest.mark.parametrize("bits", [32, 8, 4])
def test_a_row_s_representation_is_the_same_alone_and_in_company(bits):
    X, _ = make_table()
    guest = Guest("shop", "autoencoder", dim=3, bits=bits, epochs=2)
    learnt = guest.learn(X)
    np.testing.assert_array_equal(guest.represent(X[10:11]).values, learnt.values[10:11])


def test_absent_rows_are_zeros(trained):
    host, guest, X, _ = trained
    mask = np.arange(10) % 2 == 0
    some = host.outputs(X[:10, :4], [guest.represent(X[:10, 4:][mask], mask)])
    everything = host.outputs(X[:10, :4], [guest.represent(X[:10, 4:])])
    nothing = host.outputs(X[:10, :4], [])
    np.testing.assert_array_equal(some[mask], everything[mask])
    np.testing.assert_array_equal(some[~mask], nothing[~mask])
    assert not np.allclose(everything, nothing)


def test_regression_gives_numbers_on_the_label_s_scale():
    X, _ = make_table()
    host = Host("bank", "regression", epochs=30)
    host.aggregate(X, 1000 + 50 * X[:, 0], [])
    assert np.corrcoef(host.predict(X, []), X[:, 0])[0, 1] > 0.98
    assert abs(host.predict(X, []).mean() - 1000 - 50 * X[:, 0].mean()) < 5


def test_before_learning(trained):
    X = trained[2]
    with pytest.raises(InputError, match="'shop' has not learnt yet"):
        Guest("shop").represent(X)
    with pytest.raises(InputError, match="'bank' has not been trained yet"):
        Host("bank").predict(X, [])
    with pytest.raises(InputError, match="'shop' has no rows"):
        Guest("shop").learn(X[:0])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "telco"}, "'telco' is refused: the model was trained without this party"),
        ({"run": "july"}, "'shop' is refused: it belongs to run 'july'"),
        ({"learner": "random"}, "'shop' is refused: its learner, bits or scale are not those of the training"),
        ({"dim": 2}, "'shop' is refused: it has 2 values per row, the model was trained with 3"),
    ],
)
def test_messages_that_do_not_belong_are_refused(trained, change, reason):
    host, _, X, _ = trained
    other = Guest(**{"name": "shop", "learner": "pca", "dim": 3} | change)
    with pytest.raises(MessageError, match=reason):
        host.predict(X[:, :4], [other.learn(X[:, 4:])])


def test_other_rows_and_two_messages_are_refused(trained):
    host, guest, X, _ = trained
    message = guest.represent(X[:5, 4:])
    with pytest.raises(MessageError, match="it is about 5 rows"):
        host.predict(X[:6, :4], [message])
    with pytest.raises(MessageError, match="there are two"):
        host.predict(X[:5, :4], [message, message])


def test_labels_must_match():
    X, y = make_table()
    with pytest.raises(InputError, match=r"300 rows and labels of shape \(299,\)"):
        Host("bank").aggregate(X, y[:-1], [])
    with pytest.raises(InputError, match="one class only"):
        Host("bank").aggregate(X, np.zeros(300), [])


def test_a_learner_s_values_are_checked():
    X, _ = make_table()

    class Odd(PCA):
        def transform(self, rows, device):
            return super().transform(rows, device).astype(np.float64) if self.good else np.zeros(len(rows))

    odd = Odd()
    odd.good = True
    message = Guest("shop", odd, 3).learn(X)
    assert Representation.from_bytes(message.to_bytes()).dim == 3
    odd.good = False
    with pytest.raises(InputError, match=r"'pca' of party 'shop' must give 300 rows of 1 to 3 values. Got .* \(300,\)"):
        Guest("shop", odd, 3).learn(X)


def test_a_guest_s_table_must_fit(trained):
    _, guest, X, _ = trained
    assert guest.represent(X[:0, 4:]).n_rows == 0
    with pytest.raises(InputError, match="'shop' learnt from 4 columns"):
        guest.represent(X[:5, 4:7])
    with pytest.raises(InputError, match="10 rows, and 'present' marks 5"):
        guest.represent(X[:10, 4:], np.arange(10) < 5)


def test_named_columns_keep_their_order():
    X, _ = make_table()
    frame = pd.DataFrame(X[:, :3], columns=list("abc"))
    guest = Guest("shop", "pca", 2)
    guest.learn(frame)
    with pytest.raises(
        InputError, match=r"'shop' learnt from 3 columns \('a', 'b', 'c'\); got 3 columns \('c', 'b', 'a'\)"
    ):
        guest.represent(frame[list("cba")])


def test_messages_with_ids_or_the_host_s_name_are_refused(trained):
    host, guest, X, y = trained
    message = replace(guest.represent(X[:5, 4:]), ids=np.zeros((5, 8), np.uint8))
    with pytest.raises(MessageError, match="names rows by ids"):
        host.predict(X[:5, :4], [message])
    with pytest.raises(MessageError, match="host's own name"):
        Host("shop").aggregate(X[:, :4], y, [guest.represent(X[:, 4:])])


@pytest.mark.parametrize(
    ("change", "name"), [({"dim": 0}, "dim"), ({"bits": 7}, "bits"), ({"learner": "x"}, "learner")]
)
def test_wrong_parameters(change, name):
    with pytest.raises(InputError, match=f"The '{name}' parameter of Guest"):
        Guest("shop", **change)
    with pytest.raises(InputError, match="The 'task' parameter of Host"):
        Host("bank", task="ranking")


@pytest.mark.parametrize(
    ("change", "name"),
    [({"name": 3}, "name"), ({"name": ""}, "name"), ({"random_state": None}, "random_state"), ({"dim": "8"}, "dim")],
)
def test_wrong_names_and_seeds(change, name):
    with pytest.raises(InputError, match=f"The '{name}' parameter of Guest"):
        Guest(**{"name": "shop"} | change)


def test_messages_must_be_read_first(trained):
    host, guest, X, y = trained
    message = guest.represent(X[:, 4:])
    for wrong in ([message.to_bytes()], message, {"shop": message}):
        with pytest.raises(InputError, match="read bytes with from_bytes"):
            host.predict(X[:, :4], wrong)
        with pytest.raises(InputError, match="read bytes with from_bytes"):
            Host("bank").aggregate(X[:, :4], y, wrong)


def test_present_may_be_a_list(trained):
    _, guest, X, _ = trained
    assert guest.represent(X[:2, 4:], [True, False, True]).n_rows == 3
    with pytest.raises(InputError, match="'present' marks 2"):
        guest.represent(X[:3, 4:], [True, False, True])
    with pytest.raises(InputError, match="The 'device' parameter of Guest or Host"):
        Guest("shop", device="gpu").learn(X)


def ratings(n=300):
    rng = np.random.default_rng(0)
    users, movies = rng.integers(0, 40, n), rng.integers(0, 30, n)
    stars = users % 5 + movies % 3
    table = pd.DataFrame({"user": [f"u{u}" for u in users], "movie": [f"m{m}" for m in movies]})
    return table, stars.astype(float)


def test_a_host_with_embeddings_tells_its_users_apart():
    table, stars = ratings(600)
    errors = {}
    for name, network in (("embeddings", NCF((8, 8), (16,))), ("columns", None)):
        host = Host("bank", "regression", Recipe(network=network, epochs=30, batch=64))
        host.aggregate(table[:500], stars[:500], [])
        errors[name] = np.sqrt(np.mean((host.predict(table[500:], []) - stars[500:]) ** 2))
    assert errors["embeddings"] < 0.7 * errors["columns"]


@pytest.mark.parametrize("learner", [NAT, Random])
def test_a_guest_with_embeddings_represents_rows_one_by_one(learner):
    table, _ = ratings()
    guest = Guest("shop", learner(network=NCF((8, 8), (16,)), **({} if learner is Random else {"epochs": 2})), dim=4)
    guest.learn(table)
    strangers = pd.DataFrame({"user": ["nobody", "u1"], "movie": ["m1", "m1"]})
    both = guest.represent(strangers).values
    np.testing.assert_array_equal(guest.represent(strangers[1:]).values, both[1:])
    again = learner(network=NCF((8, 8), (16,)))
    again.restore(guest.learner.state())
    rows = guest.preparation.transform(Table.of(strangers))
    np.testing.assert_array_equal(again.transform(rows, CPU), guest.learner.transform(rows, CPU))


def test_an_autoencoder_does_not_rebuild_codes():
    with pytest.raises(InputError, match="'network' parameter of Autoencoder must be no NCF"):
        Guest("shop", Autoencoder(network=NCF((8, 8), (16,)))).learn(ratings()[0])


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (["SECRET"], "single values, one per row. Got a list in row 0"),
        (("SECRET",), "Got a tuple in row 0"),
        ({"SECRET": 1}, "Got a dict in row 0"),
        (np.array(["SECRET", "SECRET"]), "Got a ndarray in row 0"),
        (10**400, "a whole number beyond 1.8e308"),
        (Decimal("sNaN"), "write None or NaN"),
    ],
)
def test_labels_that_are_no_single_values_are_refused_without_content(task, cell, said):
    X, _ = make_table(20)
    for y in (pd.Series([cell] * 20), pd.Series([cell, 1] * 10)):
        with pytest.raises(InputError, match=said) as caught:
            Host("bank", task).aggregate(X, y, [])
        assert "SECRET" not in str(caught.value)


def test_labels_that_are_text_are_no_numbers():
    X, _ = make_table(20)
    with pytest.raises(InputError, match="must be numbers for regression") as caught:
        Host("bank", "regression").aggregate(X, pd.Series(["SECRET", "x"] * 10), [])
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("estimator", [FedOnceClassifier, FedOnceRegressor])
@pytest.mark.parametrize(("cell", "said"), [(["SECRET"], "must be single values"), (10**400, "a whole number beyond")])
def test_estimators_refuse_such_labels_too(estimator, cell, said):
    X, _ = make_table(20)
    with pytest.raises(InputError, match=said) as caught:
        estimator(2).fit(X, pd.Series([cell] * 20))
    assert "SECRET" not in str(caught.value)
