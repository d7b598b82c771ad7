from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedonce import Guest, Host, InputError, MessageError
from fedonce.data.table import Table
from fedonce.messages.representation import Representation
from fedonce.party.host import arrange
from fedonce.rows.alignment import AgreedRows, agreed_rows
from fedonce.rows.ids import Naming
from fedonce.rows.matching import HostRows
from tests.conftest import make_table

SECRET, OTHER = bytes(range(32)), bytes(range(1, 33))
N = 40
NAMES = np.array([f"Id{i}" for i in range(N)], dtype=object)
NAMINGS = {"keyed": Naming("keyed", SECRET), "hashed": Naming("hashed"), "plain": Naming("plain")}


def table(rows, seed=0, columns=slice(4, 8)):
    """The guest's columns of some people, in the given order, with their ids."""
    return replace(Table.of(make_table(N, seed)[0][:, columns]), ids=NAMES).take(np.asarray(rows))


def guest(naming=None, **given):
    return Guest(**{"name": "shop", "learner": "pca", "dim": 2, "bits": 32, "naming": naming, **given})


def agreement(rows, secret=None, forms=(), guest="shop", run="local"):
    return AgreedRows.from_bytes(agreed_rows(NAMES[rows], "bank", guest, run, forms, secret))


def laid(message, rows):
    return arrange([message], {"shop": message.dim}, rows, "local")


HOST, GUEST = np.arange(5, 25), np.random.default_rng(0).permutation(np.arange(15, 40))


@pytest.mark.parametrize("form", ["keyed", "hashed", "plain", "agreed", "agreed, with a secret"])
def test_the_host_s_rows_lead(form):
    """Twenty rows at the host, of which the guest has ten; it has fifteen more, all of them shuffled."""
    shared = np.intersect1d(HOST, GUEST)
    if form.startswith("agreed"):
        agreed = agreement(shared, SECRET if "secret" in form else None)
        learner = guest(NAMINGS["keyed"])
        message = learner.learn(table(GUEST), agreed=agreed)
    else:
        agreed, learner = None, guest(NAMINGS[form])
        message = learner.learn(table(GUEST))
    message = Representation.from_bytes(message.to_bytes())
    secret = None if form in ("hashed", "plain") else SECRET
    rows = HostRows(len(HOST), NAMES[HOST], secret, agreed=() if agreed is None else (agreed,))
    values, present = laid(message, rows)
    alone = learner.values(learner.preparation.transform(table(np.arange(N))))  # by person
    has = np.isin(HOST, GUEST)
    assert has.sum() == 10
    np.testing.assert_array_equal(present[:, 0], has)
    np.testing.assert_array_equal(values[has], alone[HOST[has]])
    assert not values[~has].any()


def test_rows_by_position():
    learner = guest()
    mask = np.arange(N) % 3 == 0
    whole = learner.learn(make_table(N)[0][:, 4:])
    values, present = laid(whole, HostRows(N))
    np.testing.assert_array_equal(values, whole.values)
    assert present.all()
    some = learner.represent(make_table(N)[0][mask, 4:], mask)
    values, present = laid(some, HostRows(N))
    np.testing.assert_array_equal(values[mask], whole.values[mask])
    np.testing.assert_array_equal(present[:, 0], mask)
    assert not values[~mask].any()
    with pytest.raises(MessageError, match="'shop' is refused: it is about 40 rows, or others than the host's 39"):
        laid(whole, HostRows(N - 1))
    with pytest.raises(MessageError, match="others than the host's 40"):
        laid(whole, HostRows(N, digest="another order"))


def test_several_guests_lie_side_by_side():
    shop, post = guest(NAMINGS["keyed"]), guest(NAMINGS["keyed"], name="post", dim=3)
    messages = [post.learn(table([2, 0, 5, 7, 1])), shop.learn(table([9, 1, 2, 3]))]
    rows = HostRows(4, NAMES[:4], SECRET)
    values, present = arrange(messages, {"shop": 2, "absent": 1, "post": 3}, rows, "local")
    assert present.tolist() == [[0, 0, 1], [1, 0, 1], [1, 0, 1], [1, 0, 0]]
    people = table(range(4))
    for learner, has, columns in ((shop, [1, 2, 3], slice(0, 2)), (post, [0, 1, 2], slice(3, 6))):
        alone = learner.values(learner.preparation.transform(people))
        np.testing.assert_array_equal(values[has, columns], alone[has])
    assert not values[:, 2].any()


def test_normalised_ids_match():
    naming = Naming("keyed", SECRET, ("trim", "lower"))
    loud = replace(table(range(10)), ids=np.array([f" {name.upper()} " for name in NAMES[:10]], dtype=object))
    message = guest(naming).learn(loud)
    assert message.forms == ("trim", "lower")
    _, present = laid(message, HostRows(N, NAMES, SECRET, ("trim", "lower")))
    np.testing.assert_array_equal(present[:, 0], np.arange(N) < 10)


def keyed_message(**given):
    return guest(NAMINGS["keyed"], **given).learn(table(range(10)))


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (HostRows(N), r"names rows by ids, and the host's table has none.*\(id\)"),
        (HostRows(N, NAMES, SECRET, ("trim",)), "normalised not at all, the host's trim; use the same 'forms'"),
        (HostRows(N, NAMES), r"hashed with a secret; give it \(secret\)"),
        (HostRows(N, NAMES, OTHER), "hashed with another secret than the host's"),
    ],
)
def test_ids_that_cannot_be_compared_are_refused(rows, told):
    with pytest.raises(MessageError, match=f"The message of party 'shop' is refused: .*{told}"):
        laid(keyed_message(), rows)


def test_a_message_with_a_row_twice_is_refused():
    message = keyed_message()
    forged = replace(message, ids=np.concatenate([message.ids[:1], message.ids[:-1]]))
    assert Representation.from_bytes(forged.to_bytes()).n_rows == 10  # its form is right
    with pytest.raises(MessageError, match="'shop' is refused: it has two values for the same row"):
        laid(forged, HostRows(N, NAMES, SECRET))


def test_a_secret_s_hashes_hold_for_one_run():
    """The same keys under another run's name would match, if anybody could make them; keys of another run do not."""
    message = replace(keyed_message(run="june"), run="local")
    assert not laid(message, HostRows(N, NAMES, SECRET))[1].any()
    with pytest.raises(MessageError, match="'shop' is refused: it belongs to run 'june', this is run 'local'"):
        laid(keyed_message(run="june"), HostRows(N, NAMES, SECRET))


def test_agreements_that_do_not_fit_are_refused():
    agreed = agreement(np.arange(10))
    message = guest().learn(table(range(12)), agreed=agreed)
    missing = "it has no ids, and is not about rows that were agreed with this guest; give the rows of the alignment"
    foreign = replace(agreed, guest="post")
    for others in ((), (foreign,), (agreement(np.arange(10)),), (agreement(np.arange(9)),)):
        with pytest.raises(MessageError, match=f"'shop' is refused: {missing}"):
            laid(message, HostRows(N, NAMES, agreed=others))
    found = laid(message, HostRows(N, NAMES, agreed=(foreign, agreed)))[1]
    np.testing.assert_array_equal(found[:, 0], np.arange(N) < 10)
    forged = replace(message, values=message.values[:-1])
    with pytest.raises(MessageError, match="it is about 9 rows, and 10 were agreed"):
        laid(forged, HostRows(N, NAMES, agreed=(agreed,)))
    with pytest.raises(MessageError, match="others than the host's 10"):  # agreed rows, and a host without ids
        laid(message, HostRows(10, agreed=(agreed,)))


def test_messages_by_position_do_not_fit_a_host_with_ids():
    message = guest().learn(make_table(N)[0][:, 4:])
    with pytest.raises(MessageError, match="it has no ids"):
        laid(message, HostRows(N, NAMES, agreed=(agreement(np.arange(N)),)))


def test_a_secret_is_not_shown():
    assert repr(SECRET) not in repr(HostRows(N, NAMES, SECRET))


def test_rows_that_a_party_lost_since_the_alignment_are_absent():
    agreed = agreement(np.arange(10))
    learner = guest()
    message = learner.learn(table([12, 3, 1, 2, 30]), agreed=agreed)
    assert message.n_rows == 10
    assert message.present.sum() == len(message.values) == 3
    shortened = np.array([7, 3, 0, 2])  # the host has lost row 1
    values, present = laid(message, HostRows(4, NAMES[shortened], agreed=(agreed,)))
    assert present[:, 0].tolist() == [0, 1, 0, 1]
    alone = learner.values(learner.preparation.transform(table([3, 2])))
    np.testing.assert_array_equal(values[[1, 3]], alone)
    with pytest.raises(InputError, match="'shop' has none of the agreed rows; is this the table that was aligned"):
        learner.represent(table([20, 21]), agreed=agreed)


def test_all_rows_serve_the_learning_and_the_agreed_ones_are_sent():
    agreed = agreement(np.arange(10))
    with_all, alone = guest(bits=8), guest(NAMINGS["hashed"], bits=8)
    sent, everything = with_all.learn(table(range(N)), agreed=agreed), alone.learn(table(range(N)))
    assert with_all.model == alone.model
    np.testing.assert_array_equal(with_all.codec.state()["steps"], alone.codec.state()["steps"])
    assert (sent.n_rows, everything.n_rows) == (10, N)
    assert sent.ids is None
    assert sent.present is None
    assert (sent.naming, sent.id_bytes, sent.rows) == ("", 0, agreed.digest)
    fewer = guest(bits=8)
    fewer.learn(table(range(10)), agreed=agreed)
    assert fewer.model != with_all.model


def test_agreed_rows_are_for_one_guest_and_run_and_need_ids():
    learner = guest()
    learner.learn(make_table(N)[0][:, 4:])
    for wrong in (agreement(np.arange(9), guest="post"), agreement(np.arange(9), run="june")):
        with pytest.raises(InputError, match="agreed rows are for party .*; this is 'shop', run 'local'"):
            learner.represent(table(range(N)), agreed=wrong)
    with pytest.raises(InputError, match="'shop' has agreed rows and a table without ids; name the column"):
        learner.represent(make_table(N)[0][:, 4:], agreed=agreement(np.arange(9)))
    with pytest.raises(InputError, match="'shop' has a table with ids, which say what is present; leave 'present' out"):
        guest(NAMINGS["hashed"]).learn(table(range(N)), np.ones(N, bool))
    with pytest.raises(InputError, match="hashed with their secret; give it"):
        learner.represent(table(range(N)), agreed=agreement(np.arange(9), SECRET))


def test_ids_are_not_sent_as_hashes_without_a_key_unless_they_were_asked_for():
    wanted = r"'shop' would name rows by their ids, .* a secret \(naming\), or agree on rows by an alignment \(agreed\)"
    silent = guest()
    with pytest.raises(InputError, match=wanted) as error:
        silent.learn(table(range(10)))
    assert error.value.parameters == ("naming", "agreed")
    assert silent.codec is None  # nothing was learnt in vain
    silent.learn(table(range(10)), agreed=agreement(np.arange(10)))
    with pytest.raises(InputError, match=wanted):
        silent.represent(table(range(10)))
    asked = guest(Naming("hashed"))
    assert (asked.learn(table(range(10))).naming, asked.represent(table(range(10))).naming) == ("hashed", "hashed")


@pytest.mark.parametrize("form", list(NAMINGS))
def test_a_message_does_not_show_the_order_of_the_table(form):
    messages = [guest(NAMINGS[form]).learn(table(order)) for order in (range(N), GUEST.tolist() + list(range(15)))]
    np.testing.assert_array_equal(messages[0].ids, messages[1].ids)
    assert messages[0].rows == messages[1].rows
    np.testing.assert_allclose(messages[0].values, messages[1].values, atol=1e-5)


@pytest.mark.parametrize("form", ["hashed", "plain"])
def test_a_host_with_a_secret_takes_no_ids_that_were_made_without_it(form):
    message = guest(NAMINGS[form]).learn(table(GUEST))
    with pytest.raises(MessageError, match=f"'shop' is refused: its ids are {form}, made without the secret"):
        laid(message, HostRows(len(HOST), NAMES[HOST], SECRET))


def test_repeated_ids_are_refused_at_either_side():
    twice = replace(table(range(3)), ids=np.array(["a", "b", "a"], dtype=object))
    for naming in NAMINGS.values():
        with pytest.raises(InputError, match="The id 'a' is there twice"):
            guest(naming).learn(twice)
        with pytest.raises(InputError, match="The id 'a' is there twice"):
            laid(guest(naming).learn(table(range(3))), HostRows(3, twice.ids, naming.secret))


def test_a_host_trains_and_predicts_by_ids():
    y = make_table(N)[1]
    learner = guest(NAMINGS["keyed"])
    host = Host("bank", epochs=1, secret=SECRET)
    own = table(HOST, columns=slice(0, 4))
    host.aggregate(own, y[HOST], [learner.learn(table(GUEST))])
    assert host.overlap == {"shop": 0.5}
    outputs = host.outputs(own, [learner.represent(table(GUEST[::-1]))])
    np.testing.assert_array_equal(outputs, host.outputs(own, [learner.represent(table(GUEST))]))
    order = np.random.default_rng(1).permutation(len(HOST))
    shuffled = host.outputs(own.take(order), [learner.represent(table(GUEST))])
    np.testing.assert_array_equal(shuffled, outputs[order])
    host.outputs(own, [])
    assert host.overlap == {"shop": 0.0}


def test_a_guest_that_matches_nobody_is_refused_in_training():
    y = make_table(N)[1]
    strangers = guest(NAMINGS["keyed"]).learn(table(range(20, 40)))
    host = Host("bank", epochs=1, secret=SECRET)
    with pytest.raises(
        MessageError, match=r"'shop' is refused: none of its rows is one of the host's 20\..*leave this guest"
    ):
        host.aggregate(table(range(20), columns=slice(0, 4)), y[:20], [strangers])
    assert host.model is None
