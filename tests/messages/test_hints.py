from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from fedonce import MessageError, Naming
from fedonce.messages import envelope, hints, message_checks
from fedonce.messages import keys as crypto
from fedonce.messages.hints import Hints, check_start, keep_of
from fedonce.messages.representation import row_digest
from fedonce.rows.ids import RULES
from tests.messages.mutations import any_bytes

ROWS = 40
SECRET = b"s" * 32
WORDS = (
    "",
    "0",
    "1",
    "2",
    "3",
    "4",
    "39",
    "41",
    "256",
    "257",
    "-1",
    "9" * 15,
    "1e999",
    "1e-9",
    "nan",
    "inf",
    "2.0",
    "²",
    "٣",
)
WORDS += (
    "plain",
    "hashed",
    "keyed " + "0" * 16,
    "keyed",
    "trim",
    "lower,zz",
    "a\nb",
    "\x1b[2J",
    "x" * 300,
    "0.5",
    "20.1",
)


def make(**changes):
    rng = np.random.default_rng(0)
    told = rng.integers(0, 3, ROWS).astype(np.uint8)
    return replace(Hints("bank", "repaid", 3, 2.0, told, row_digest(ROWS), run="loans"), **changes)


def by_ids(form="keyed"):
    ids = np.array([f"c{i}" for i in range(ROWS)], dtype=object)
    naming = Naming(form, SECRET if form == "keyed" else None, ("trim",))
    keys = naming.keys(ids, "loans")
    return make(ids=keys, rows=row_digest(ROWS, keys), naming=naming.label, forms=naming.forms)


ALL = {
    "in an agreed order": make(),
    "keyed": by_ids(),
    "hashed": by_ids("hashed"),
    "plain": by_ids("plain"),
    "bins": make(edges=np.array([-1.0, 2.5])),
    "as it is": make(epsilon=math.inf, label="last year's"),
    "odd epsilon": make(epsilon=0.1 / 7),
}


def packed(header=None, tensors=None, kind=hints.KIND, base=None):
    """Return hints of another content whose checksum is right: whoever makes files can make any."""
    texts, arrays = (base or make())._content()
    texts |= header or {}
    arrays |= tensors or {}
    return envelope.pack(
        kind,
        {key: text for key, text in texts.items() if text is not None},
        {name: array for name, array in arrays.items() if array is not None},
    )


@pytest.mark.parametrize("name", ALL)
def test_what_is_written_is_read(name, tmp_path):
    sent = ALL[name]
    got = Hints.from_file(sent.to_file(tmp_path / "hints.fedonce"), "bank")
    assert got.to_bytes() == sent.to_bytes()
    assert (got.party, got.label, got.classes, got.epsilon, got.run, got.naming, got.forms, got.rows) == (
        sent.party,
        sent.label,
        sent.classes,
        sent.epsilon,
        sent.run,
        sent.naming,
        sent.forms,
        sent.rows,
    )
    np.testing.assert_array_equal(got.answers, sent.answers)
    for one, other in ((got.ids, sent.ids), (got.edges, sent.edges)):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one, other)


def test_a_row_takes_a_byte_and_its_id():
    assert len(make().to_bytes()) < ROWS + 1000
    assert len(by_ids().to_bytes()) < 9 * ROWS + 1100


def test_the_file_says_with_which_probability_the_truth_is_told():
    header, _ = make()._content()
    assert float(header["keep"]) == make().keep == keep_of(3, 2.0) == pytest.approx(math.e**2 / (math.e**2 + 2))


@pytest.mark.parametrize(("epsilon", "said"), [(2, "2.0 repaid"), (math.inf, "inf repaid")])
def test_what_a_message_says_that_was_made_with_them(epsilon, said):
    assert make(epsilon=epsilon).stated == said


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({"classes": "1"}, "classes=1 are not the sizes of hints"),
        ({"classes": "257"}, "classes=257 are not the sizes"),
        ({"n": "0"}, "n=0"),
        ({"n": "1" + "0" * 13}, "not the sizes of hints"),
        ({"n": "many"}, "'many'"),
        ({"n": "41"}, "41 bytes were announced"),
        ({"n": "39"}, "39 bytes were announced"),
        ({"classes": "2", "keep": repr(keep_of(2, 2.0))}, "it has an answer 2, and there are 2"),
        ({"epsilon": "0.0"}, "from 0.01 to 20, or inf"),
        ({"epsilon": "20.5"}, "from 0.01 to 20, or inf"),
        ({"epsilon": "-1.0"}, "its epsilon is '-1.0'"),
        ({"epsilon": "nan"}, "its epsilon is 'nan'"),
        ({"epsilon": "1e999"}, "its epsilon is '1e999'"),
        ({"epsilon": "1.0"}, "its epsilon 1.0 and its probability of a true answer do not fit together"),
        ({"epsilon": "inf"}, "do not fit together"),
        ({"keep": "0.5"}, "do not fit together"),
        ({"keep": "inf"}, "do not fit together"),
        ({"label": ""}, "its label or its run is not a name"),
        ({"label": "x" * 101}, "is not a name"),
        ({"label": "a\nb"}, "is not a name"),
        ({"run": ""}, "is not a name"),
        ({"party": "a\nb"}, "its party is not a name"),
        ({"ids": "hashed"}, "announces ids and has none"),
        ({"ids": "secretly"}, "secretly"),
        ({"normalised": "trim"}, "it says that ids were normalised, 'trim', and announces none"),
        ({"more": "1"}, "must have the entries"),
        ({"keep": None}, "must have the entries"),
    ],
)
def test_a_header_that_lies_is_refused(header, said):
    with pytest.raises(MessageError, match=said):
        Hints.from_bytes(packed(header))


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({"answers": None}, "must carry answers"),
        ({"more": np.zeros(3)}, "must carry answers"),
        ({"answers": np.zeros(ROWS, np.int8)}, "type int8, 40 bytes were announced"),
        ({"answers": np.zeros((ROWS, 1), np.uint8)}, "40 bytes were announced"),
        ({"answers": np.full(ROWS, 3, np.uint8)}, "it has an answer 3, and there are 3"),
        ({"edges": np.zeros(3)}, "2 numbers were announced"),
        ({"edges": np.zeros(2, np.float32)}, "2 numbers were announced"),
        ({"edges": np.array([1.0, 1.0])}, "finite and ascending"),
        ({"edges": np.array([1.0, np.nan])}, "finite and ascending"),
        ({"edges": np.array([1.0, np.inf])}, "finite and ascending"),
        ({"ids": np.zeros((ROWS, 8), np.uint8)}, "not announced"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tensors, said):
    with pytest.raises(MessageError, match=said):
        Hints.from_bytes(packed(tensors=tensors))


@pytest.mark.parametrize("ids", [np.zeros((ROWS, 7), np.uint8), np.zeros((ROWS - 1, 8), np.uint8), np.zeros((ROWS, 8))])
def test_ids_of_another_shape_are_refused(ids):
    with pytest.raises(MessageError, match="ids|hashes"):
        Hints.from_bytes(packed(tensors={"ids": ids}, base=by_ids()))


@pytest.mark.parametrize("rules", ["foo", "trim,foo", "trim,", ",", "Trim", "trim lower", "trim," * 10 + "trim"])
def test_ids_made_alike_by_no_rule_are_refused(rules):
    with pytest.raises(MessageError, match=r"normalised '.*', which this program does not know; .* trim, lower, nfkc"):
        Hints.from_bytes(packed({"normalised": rules}, base=by_ids()))
    assert Hints.from_bytes(packed({"normalised": "lower,nfkc"}, base=by_ids())).forms == ("lower", "nfkc")


def test_the_rules_are_those_of_ids():
    assert tuple(RULES) == message_checks.FORMS


def test_files_of_another_kind_party_or_length_are_refused(tmp_path):
    data = make().to_bytes()
    with pytest.raises(MessageError, match="file of another kind: 'message'"):
        Hints.from_bytes(packed(kind="message"))
    with pytest.raises(
        MessageError, match="The hints file of party 'shop' is refused: it says that it is from party 'bank'"
    ):
        Hints.from_bytes(data, "shop")
    for end in (0, 7, 100, len(data) - 1):
        with pytest.raises(MessageError):
            Hints.from_bytes(data[:end])
    changed = bytearray(data)
    changed[-1] ^= 1
    with pytest.raises(MessageError, match="checksum"):
        Hints.from_bytes(bytes(changed))
    (tmp_path / "large").write_bytes(data)
    with pytest.raises(MessageError, match="limit"):
        Hints.from_file(tmp_path / "large", most=100)


def test_a_file_is_judged_by_its_header_before_it_is_read(monkeypatch):
    data = make().to_bytes()
    assert check_start(data, len(data)) == (ROWS, 3, 2.0)
    with pytest.raises(MessageError, match=r"it has 1,000,000 bytes, and 40 rows take no more than"):
        check_start(data, 10**6)
    monkeypatch.setattr(
        hints, "memory_limit", lambda: 3 * len(data)
    )  # read, taken apart, put in order: several times its size
    with pytest.raises(MessageError, match="a quarter of this machine's memory"):
        Hints.from_bytes(data)


@pytest.mark.parametrize(
    "answers",
    [
        {"dtype": "U8", "shape": [2**39], "data_offsets": [0, 2**39]},
        {"dtype": "U8", "shape": [2**32, 2**32], "data_offsets": [0, 0]},
        {"dtype": "U8", "shape": [-1], "data_offsets": [0, 8]},
        {"dtype": "F8_E4M3", "shape": [40], "data_offsets": [0, 40]},
        [[[[]]]],
    ],
)
def test_promises_of_large_arrays_are_refused(answers):
    header, _ = make()._content()
    texts = {"format": f"hints {envelope.VERSION}", **header, "n": str(2**39), "checksum": "0" * 64}
    head = json.dumps({"__metadata__": texts, "answers": answers}, sort_keys=True, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    with pytest.raises(MessageError):
        Hints.from_bytes(len(head).to_bytes(8, "little") + head + b"\0" * 40)


def forged(sent, rng):
    """Return hints with one or two changes, and a checksum that fits."""
    header, tensors = sent._content()
    for _ in range(rng.randint(1, 2)):
        if rng.random() < 0.6:
            header[rng.choice((*header, "ids", "normalised", "n", "classes", "epsilon", "keep"))] = rng.choice(WORDS)
            continue
        name = rng.choice((*tensors, "edges", "ids", "more"))
        old = tensors.get(name, np.zeros((ROWS, 8), np.uint8))
        tensors[name] = rng.choice(
            (old[:0], old[:-1], old.ravel(), old[None], old.astype(np.float64), np.full_like(old, 2), old[::-1])
        )
    return envelope.pack(hints.KIND, header, tensors, rng.choice(("", "x", "ab" * 64)))


def read(data):
    """Tell whether bytes are hints, which are then whole; anything but a refusal is raised."""
    try:
        got = Hints.from_bytes(data)
    except MessageError:
        return False
    assert got.answers.shape == (got.n_rows,)
    assert got.answers.max() < got.classes <= hints.MOST_CLASSES
    assert got.epsilon >= hints.LEAST_EPSILON
    assert got.ids is None or len(got.ids) == got.n_rows
    assert got.edges is None or len(got.edges) == got.classes - 1
    assert Hints.from_bytes(got.to_bytes()).to_bytes() == got.to_bytes()
    return True


def test_four_thousand_changed_files_are_refused_or_whole():
    rng, found = random.Random(5), {False: 0, True: 0}
    files = [each.to_bytes() for each in ALL.values()]
    assert all(map(read, files))
    for _ in range(4000):
        which = rng.randrange(len(files))
        damaged = rng.random() < 0.4
        bad = any_bytes(files[which], files, rng) if damaged else forged(list(ALL.values())[which], rng)
        found[read(bad)] += 1
    assert found[False] > 2500
    assert found[True] > 100  # whoever makes hints may say many things that cannot be told from the truth


def test_signed_and_sealed_like_a_message(tmp_path):
    for name in ("bank", "other"):
        crypto.new_keys(name, tmp_path)
    key, other = (crypto.read_private(tmp_path / f"{name}.key") for name in ("bank", "other"))
    sent = make()
    signed = replace(sent, signature=key.sign(sent.checksum))
    got = Hints.from_bytes(crypto.unseal(crypto.seal(signed.to_bytes(), key.public), key))
    assert key.public.verify(got.checksum, got.signature)
    assert not other.public.verify(got.checksum, got.signature)
    assert not key.public.verify(replace(got, epsilon=1.0).checksum, got.signature)
    with pytest.raises(MessageError, match="it is sealed"):
        Hints.from_bytes(crypto.seal(signed.to_bytes(), key.public))
