from __future__ import annotations

import pickle

import pytest

from fedonce import FedOnceClassifier, Guest, Host, InputError, MessageError, Representation
from fedonce.data.partition import resolve
from fedonce.messages.names import KeptName, is_party_name, kept, why_not
from tests.conftest import make_table

DZE, WIDE = "\u0455hop", "\uff53hop"  # Cyrillic, and a wide Latin s


@pytest.mark.parametrize("name", ["a", "7", "shop", "shop-2.north_x", "A" * 100])
def test_plain_names(name):
    assert is_party_name(name)
    assert kept(name) is name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (DZE, r"'\\u0455hop': '\\u0455' is CYRILLIC SMALL LETTER DZE, which looks like 's'"),
        (WIDE, "FULLWIDTH LATIN SMALL LETTER S, which looks like 's'"),
        ("sh\u03bfp", "GREEK SMALL LETTER OMICRON, which looks like 'o'"),
        ("m\u00fcller", r"'m\\xfcller': '\\xfc' is LATIN SMALL LETTER U WITH DIAERESIS$"),
        ("sh\u200bop", r"'\\u200b' is ZERO WIDTH SPACE$"),
        ("the shop", "' ' is a space"),
        ("a/b", "'/' is SOLIDUS"),
        ("a\nb", r"'\\n' is a character without a name"),
        ("-shop", "it begins with '-'"),
        ("..", "it begins with '.'"),
        ("", "it has 0 characters"),
        ("x" * 101, "it has 101 characters"),
        (3, "3: it is no text"),
        (None, "no text"),
    ],
)
def test_names_that_are_refused_and_why(name, why):
    assert not is_party_name(name)
    with pytest.raises(InputError, match=rf"'name' parameter of Guest must be ASCII letters.*Got .*{why.rstrip('$')}"):
        Guest(name)
    assert why_not(name).isascii()
    with pytest.raises(InputError, match="'name' parameter of Host must be ASCII"):
        Host(name)
    with pytest.raises(InputError, match="'parties' parameter of x must be keyed by names: ASCII"):
        resolve({name: [0], "bank": [1]}, None, ("a", "b"), "x")


def test_estimators_refuse_them_before_anybody_learns():
    X, y = make_table()
    with pytest.raises(InputError, match=r"CYRILLIC SMALL LETTER DZE, which looks like 's'"):
        FedOnceClassifier(parties={"shop": [0, 1], DZE: [2, 3]}).fit(X, y)


def test_a_name_from_disk_stays():
    old = kept("m\u00fcller")
    assert isinstance(old, KeptName)
    assert (old, repr(old)) == ("m\u00fcller", repr("m\u00fcller"))
    assert Guest(old).name == pickle.loads(pickle.dumps(old)) == "m\u00fcller"


def test_a_host_takes_no_message_of_such_a_party_but_of_those_it_has():
    X, y = make_table()
    message = Representation.from_bytes(Guest(KeptName(DZE), "random", 2).learn(X[:, 4:]).to_bytes())
    host = Host("bank", epochs=1)
    with pytest.raises(MessageError, match="party's name must be ASCII.*looks like 's'"):
        host.aggregate(X[:, :4], y, [message])
    host = Host("bank", epochs=1, known=[DZE])  # a model of before is trained again
    host.aggregate(X[:, :4], y, [message])
