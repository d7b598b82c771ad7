"""What is coded is equal to the bit to what is written plainly, and other parties' steps are checked."""

from __future__ import annotations

import tracemalloc
import zlib

import constriction
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedonce import Guest, InputError, MessageError
from fedonce.learners import Cells
from fedonce.messages import codecs
from fedonce.messages.codecs import CODED, Coded, find
from fedonce.messages.codecs.coded import Coded4, Coded8, Coded12, coded_by
from fedonce.messages.codecs.floats import Float32
from fedonce.messages.codecs.steps import Steps, added_up

rng = np.random.default_rng(0)


@st.composite
def values(draw):
    """Rows as learners give them: even, with tails, rounded, repeated, constant; few and many, narrow and wide."""
    rows = draw(st.sampled_from([0, 1, 2, 31, 400]))
    dim = draw(st.sampled_from([1, 2, 5, 64, 65, 100]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    found = generator.standard_normal((rows, dim)) * draw(st.sampled_from([1e-6, 1, 3e4, 1e10]))
    kind = draw(st.sampled_from(["normal", "tails", "rounded", "constant columns", "repeated"]))
    if kind == "tails":
        found = generator.standard_t(1.5, (rows, dim)).clip(-1e6, 1e6)
    if kind == "rounded":
        found = np.rint(generator.random((rows, dim)) * 4) / 4
    if kind == "constant columns":
        found[:, ::2] = 2.5
    if kind == "repeated" and rows:
        found = found[generator.integers(0, min(5, rows), rows)]
    return found.astype(np.float32)


@settings(max_examples=150, deadline=None)
@given(values(), st.sampled_from([4, 8]), st.sampled_from(["fit", "spanning", "public"]))
def test_coded_values_are_those_of_the_plain_codec_to_the_bit(given_values, bits, make):
    rows, dim = given_values.shape
    encoding = find(bits)
    plain = encoding.public(2.0, dim) if make == "public" else getattr(encoding, make)(given_values)
    coded = plain.coded
    assert isinstance(coded, Coded)
    assert coded.bits <= bits
    for sent in (given_values, given_values * np.float32(3)):  # the second partly outside the range
        expected = plain.decode(plain.encode(sent), rows, dim, MessageError)
        written, state = coded.encode(sent), coded.state()
        again = type(coded).restore(state, dim, MessageError)
        found = again.decode(written, rows, dim, MessageError)
        assert (found.dtype, found.shape) == (np.float32, (rows, dim))
        np.testing.assert_array_equal(found, expected)
        assert sum(each.nbytes for each in written.values()) <= type(coded).most_payload(rows, dim)
        assert sum(each.nbytes for each in state.values()) <= type(coded).most_state(dim)
        longer = written["coded"].nbytes + state["steps"].nbytes - plain.encode(sent)["values"].nbytes
        assert longer <= 64 + 18 * min(dim, 64) + 2 * (dim > 64) * dim


@pytest.mark.parametrize("kind", [Coded4, Coded8, Coded12])
@pytest.mark.parametrize("shape", [(1, 1), (50, 3), (3000, 64), (500, 65)])
def test_every_number_of_bits(kind, shape):
    given_values = rng.standard_normal(shape).astype(np.float32)
    codec = kind.fit(given_values)
    found = codec.decode(codec.encode(given_values), *shape, MessageError)
    inside = np.clip(given_values, codec.steps.low, codec.steps.low + codec.steps.levels * codec.steps.step)
    assert (np.abs(found - inside) <= codec.steps.step * 0.501).all()
    assert codec.encode(given_values)["coded"].nbytes <= kind.most_payload(*shape)
    public = kind.public(2.0, shape[1])
    assert np.abs(public.decode(public.encode(given_values), *shape, MessageError)).max() <= 2.0001


def layered(layers, dim=5):
    lows = [-np.full(dim, 2.0**-layer, np.float32) for layer in range(layers)]
    return coded_by(added_up([Steps.between(low, -low, 3) for low in lows]))


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_layers_are_added_up(layers):
    codec, dim = layered(layers), 5
    parts = [rng.choice(codec.steps.decode(np.arange(4), dim * layer), (200, dim)) for layer in range(layers)]
    written = codec.encode(np.hstack(parts).astype(np.float32))
    again = Coded4.restore(codec.state(), dim, MessageError)
    assert (again.steps.layers, codec.decoded_dim(dim * layers)) == (layers, dim)
    np.testing.assert_allclose(again.decode(written, 200, dim, MessageError), sum(parts), atol=1e-6)
    assert written["coded"].nbytes <= Coded4.most_payload(200, dim)
    assert codec.state()["steps"].nbytes <= Coded4.most_state(dim) <= codecs.most_state(dim)


@pytest.mark.parametrize("layers", [1, 4])
def test_decoding_takes_the_memory_that_is_announced_however_many_layers(layers):
    rows, dim = 60_000, 8
    codec = layered(layers, dim)
    written = codec.encode(rng.uniform(-1, 1, (rows, dim * layers)).astype(np.float32))
    tracemalloc.start()
    codec.decode(written, rows, dim, MessageError)
    assert tracemalloc.get_traced_memory()[1] <= Coded4.most_memory(rows, dim) + 3 * written["coded"].nbytes
    tracemalloc.stop()
    assert Coded4.most_memory(rows, dim) > Float32.most_memory(rows, dim) == 4 * rows * dim


def test_the_fewest_bits_that_hold_the_steps():
    for most, kind in ((1, Coded4), (15, Coded4), (16, Coded8), (255, Coded8), (256, Coded12), (4095, Coded12)):
        assert type(coded_by(Steps(np.zeros(1), np.ones(1), np.array([0, most])))) is kind


def good():
    return layered(2, 3).state()["steps"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({(0, 0): np.nan}, "not numbers of a range"),
        ({(0, 0): np.inf}, "not numbers of a range"),
        ({(0, 0): 6e11}, "not numbers of a range"),
        ({(1, 2): 2e11}, "not numbers of a range"),
        ({(1, 2): 3e38, (2, 2): 15}, "not numbers of a range"),
        ({(1, 2): np.nan}, "no length"),
        ({(1, 2): 0}, "no length"),
        ({(1, 2): -1}, "no length"),
        ({(2, 1): 16}, "not as many as its bits allow"),
        ({(2, 1): 0.5}, "not as many as its bits allow"),
        ({(2, 1): -1}, "not as many as its bits allow"),
        ({(2, 1): np.nan}, "not as many as its bits allow"),
        ({(3, 0): 6}, "groups that there are not"),
        ({(3, 0): 0.5}, "groups that there are not"),
        ({(3, 0): 1}, "in several layers"),
    ],
)
def test_steps_that_are_none_are_refused(changed, told):
    steps = good()
    for place, value in changed.items():
        steps[place] = value
    with pytest.raises(MessageError, match=told):
        Coded4.restore({"steps": steps}, 3, MessageError)


@pytest.mark.parametrize(
    "steps", [good()[:3], good()[:, :5], good()[:, :2], good().astype(np.float64), good().ravel(), np.float32(1)]
)
def test_steps_of_another_shape_are_refused(steps):
    with pytest.raises(MessageError, match="announced were"):
        Coded4.restore({"steps": np.asarray(steps)}, 3, MessageError)


def test_more_columns_than_can_be_read_in_no_time_are_refused():
    shared = np.array([[0], [1], [1], [0]], np.float32)
    assert Coded4.restore({"steps": shared}, 2**16, MessageError).steps.layers == 1
    with pytest.raises(MessageError, match="65,537 columns of coded integers, and 65,536 are the most"):
        Coded4.restore({"steps": shared}, 2**16 + 1, MessageError)
    with pytest.raises(MessageError, match="80,000 columns"):
        Coded4.restore({"steps": np.ones((4, 80_000), np.float32)}, 20_000, MessageError)


def test_more_layers_than_there_may_be_are_refused():
    with pytest.raises(MessageError, match="5 layers, and 4 are the most"):
        Coded4.restore({"steps": np.hstack([good()[:, :3]] * 5)}, 3, MessageError)


@pytest.mark.parametrize("wrong", [np.zeros(8, np.int8), np.zeros((2, 4), np.uint8), np.zeros(2, np.float32)])
def test_bytes_are_bytes(wrong):
    with pytest.raises(MessageError, match="must be bytes"):
        layered(1, 3).decode({"coded": wrong}, 2, 3, MessageError)


def test_their_names_are_taken_and_no_choice_of_a_user():
    assert [codecs.announced(kind.bits, name) for name, kind in CODED.items()] == [Coded4, Coded8, Coded12]
    with pytest.raises(InputError, match="bits"):
        find("coded8")
    taken = type("Mine", (Coded8,), {"name": "coded8"})
    with pytest.raises(InputError, match="encoding of fedonce's own"):
        codecs.register(taken)


def as_the_document_says(message):
    """Read coded integers by docs/message.md alone."""
    models, coder = constriction.stream.model, constriction.stream.queue.RangeDecoder
    data, steps = message.written["coded"].tobytes(), message.codec.state()["steps"]
    size, rows = int.from_bytes(data[:4], "little"), len(message.values)
    tables = list(zlib.decompress(data[4 : 4 + size]))
    words = coder(np.frombuffer(data[4 + size :], "<u4").astype(np.uint32))

    def counts(many):
        told = [tables.pop(0) for _ in range(many)]
        return np.array([b if b < 16 else (8 + b % 8) * 2 ** (b // 8 - 1) for b in told], np.float64)

    found = np.zeros((rows, steps.shape[1]))
    for group in sorted(set(steps[3])):
        columns = np.flatnonzero(steps[3] == group)
        if tables.pop(0) == 1:
            many = int.from_bytes(bytes(tables.pop(0) for _ in range(4)), "little")
            distinct = np.array([[tables.pop(0) for _ in range(many)] for _ in columns]).T
            frequency = counts(many)
            found[:, columns] = distinct[words.decode(models.Categorical(frequency, perfect=False), rows)]
            continue
        for column in columns:
            most = int(steps[2, column])
            if most:
                counted = tables.pop(0)
                model = models.Categorical(counts(most + 1), perfect=False) if counted else models.Uniform(most + 1)
                found[:, column] = words.decode(model, rows)
    assert not tables
    values = steps[0] + found * steps[1]
    return values.reshape(rows, -1, message.dim).sum(axis=1)


def test_the_bytes_are_as_documented():
    rows = (rng.standard_normal((900, 6)) * 2.0 ** -np.arange(6)).astype(np.float32)
    messages = [
        Guest("shop", "pca", 5).learn(rows),
        Guest("shop", "pca", 3, 4).learn(np.rint(rows)),
        Guest("shop", Cells(cells=10, least=5, layers=2), 3).learn(rows),
    ]
    assert {int(each.codec.steps.layers) for each in messages} == {1, 2}
    for each in messages:
        np.testing.assert_allclose(as_the_document_says(each), each.values, atol=1e-5)
