from __future__ import annotations

import hashlib
import hmac

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedonce import InputError
from fedonce.rows import ids
from fedonce.rows.ids import (
    Naming,
    fingerprint,
    hashed,
    keyed,
    keys_of,
    locate,
    normalise,
    parse_forms,
    plain,
    repeated,
)

SECRET = bytes(range(32))


def texts(*values):
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def keys_from(values, width):
    return np.frombuffer(b"".join(values), np.uint8).reshape(len(values), width)


@pytest.mark.parametrize(
    ("forms", "raw", "made"),
    [
        (["trim"], " A1\t\n", "A1"),
        (["lower"], "Straße ÀB ", "strasse àb "),
        (["nfkc"], "ﬁx Ａ１ e\u0301", "fix A1 é"),
        (["lower", "trim"], "\u3000Ab ", "ab"),
        (["trim", "lower", "nfkc"], " ＡB ", "ab"),
        ([], " Ab ", " Ab "),
    ],
)
def test_each_rule_and_their_order(forms, raw, made):
    assert list(normalise(texts(raw), forms)) == [made]
    assert list(normalise(texts(raw), forms[::-1])) == [made]


@given(st.text(min_size=1, max_size=8))
@settings(max_examples=300, deadline=None)
def test_what_is_normalised_stays_as_it_is(text):
    forms = ("trim", "lower", "nfkc")
    try:
        once = normalise(texts(text), forms)
    except InputError:  # spaces, which become nothing
        assume(False)
    assert list(normalise(once, forms)) == list(once)


def test_ids_that_become_one_or_nothing():
    assert list(normalise(texts("a", "A"), ())) == ["a", "A"]
    with pytest.raises(InputError, match=r"'a 1' and 'A 1' are the same once they are normalised \(lower\); keep one"):
        normalise(texts("b", "a 1", "A 1"), ["lower"])
    with pytest.raises(InputError, match=r"The id '  ' is empty once it is normalised \(trim\); drop the row"):
        normalise(texts("a", "  "), ["trim"])


def test_forms_by_name():
    assert parse_forms("nfkc,trim, lower ,") == ("trim", "lower", "nfkc")
    assert parse_forms("") == ()
    with pytest.raises(InputError, match="some of trim, lower, nfkc, with commas.*'upper'"):
        parse_forms("upper")


def test_keyed_is_hmac_by_the_run_s_own_key():
    key = hmac.new(SECRET, b"fedonce ids of run june", hashlib.sha256).digest()
    wanted = [hmac.new(key, text.encode(), hashlib.sha256).digest()[:8] for text in ("é1", "b")]
    assert [bytes(row) for row in keyed(texts("é1", "b"), SECRET, "june")] == wanted


def test_another_run_or_secret_gives_other_keys():
    own = texts(*map(str, range(50)))
    several = [keyed(own, SECRET, "june"), keyed(own, SECRET, "july"), keyed(own, SECRET[::-1], "june"), hashed(own)]
    assert repeated(np.concatenate(several)) is None
    with pytest.raises(InputError, match="16 bytes or more, this one has 15; make one with `fedonce keys secret`"):
        keyed(own, SECRET[:15], "june")
    assert fingerprint(SECRET) == hmac.new(SECRET, b"fedonce secret", hashlib.sha256).hexdigest()[:16]
    assert fingerprint(SECRET) != fingerprint(SECRET[::-1])


def test_hashed_is_sha256():
    assert bytes(hashed(texts("b"))[0]) == hashlib.sha256(b"fedonce id\nb").digest()[:8]


def test_plain_is_utf8_filled_with_zeros():
    assert plain(texts("é1", "b")).tolist() == [[0xC3, 0xA9, 0x31], [0x62, 0, 0]]
    assert plain(texts("x" * 256)).shape == (1, 256)
    for bad in ("x" * 257, "é" * 129, "a\0"):
        with pytest.raises(InputError, match="cannot travel as it is: longer than 256 bytes, or with a NUL"):
            plain(texts("good", bad))


@pytest.mark.parametrize("make", [plain, hashed, lambda own: keyed(own, SECRET, "june")])
def test_no_rows_have_no_keys_and_odd_texts_have(make):
    assert len(make(texts())) == 0
    assert len(make(texts("\ud800", "\udfff"))) == 2  # what a file's bytes may become when read as text


@pytest.mark.parametrize("make", [plain, hashed, lambda own: keyed(own, SECRET, "june")])
def test_an_id_that_is_there_twice_is_named(make):
    with pytest.raises(InputError, match="The id 'b' is there twice; keep one of the rows"):
        make(texts("a", "b", "c", "b"))


def test_collisions_are_noticed(monkeypatch):
    monkeypatch.setattr(ids, "WIDTH", 1)
    own = texts(*(f"id{i}" for i in range(300)))
    for make in (hashed, lambda own: keyed(own, SECRET, "june")):
        with pytest.raises(
            InputError, match=r"The ids 'id\d+' and 'id\d+' have the same hash; use another secret"
        ) as told:
            make(own)
        pair = str(told.value).split("'")[1::2][:2]
        assert (make(texts(pair[0])) == make(texts(pair[1]))).all()


few = st.integers(1, 4).flatmap(
    lambda width: st.tuples(
        *[st.lists(st.binary(min_size=width, max_size=width), unique=unique) for unique in (False, True)],
        st.just(width),
    )
)


@given(few)
@settings(max_examples=200, deadline=None)
def test_locate_and_repeated_are_those_of_a_dict(drawn):
    wanted, held, width = drawn
    places = {key: place for place, key in enumerate(held)}
    found = locate(keys_from(wanted, width), keys_from(held, width))
    assert found.tolist() == [places.get(key, -1) for key in wanted]
    twice = repeated(keys_from(wanted, width))
    assert (twice is None) == (len(set(wanted)) == len(wanted))
    if twice is not None:
        assert twice[0] != twice[1]
        assert wanted[twice[0]] == wanted[twice[1]]


def test_plain_ids_of_another_width_are_found():
    held = plain(texts("ab", "b"))
    assert locate(plain(texts("b", "abc", "ab")), held).tolist() == [1, -1, 0]
    assert locate(held, plain(texts("abc", "b"))).tolist() == [-1, 1]


def test_names_of_rows():
    own = texts(" A", "b")
    assert Naming().label == "hashed"
    assert Naming("plain").label == "plain"
    secret = Naming("keyed", SECRET, ("trim", "lower"))
    assert secret.label == f"keyed {fingerprint(SECRET)}"
    np.testing.assert_array_equal(secret.keys(own, "june"), keyed(texts("a", "b"), SECRET, "june"))
    np.testing.assert_array_equal(Naming("plain", forms=("trim",)).keys(own, "june"), plain(texts("A", "b")))
    np.testing.assert_array_equal(keys_of("hashed", own, SECRET, "june", ()), hashed(own))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"form": "sha"}, "'form' parameter of Naming must be 'keyed', 'hashed' or 'plain'. Got 'sha'"),
        ({"form": "keyed"}, "'secret' parameter of Naming"),
        ({"form": "hashed", "secret": SECRET}, "'secret' parameter of Naming"),
        ({"form": "plain", "secret": SECRET}, "'secret' parameter of Naming"),
        ({"forms": ("upper",)}, "some of trim, lower, nfkc"),
    ],
)
def test_namings_that_are_none(given, told):
    with pytest.raises(InputError, match=told):
        Naming(**given)


def test_a_secret_is_not_shown():
    assert repr(SECRET) not in repr(Naming("keyed", SECRET))
