"""What every encoding of ours keeps."""

from __future__ import annotations

import numpy as np
import pytest

from fedonce import MessageError
from fedonce.messages.codecs import BITS, find, most_state

rng = np.random.default_rng(0)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (5, 3), (9, 64), (4, 65)])
@pytest.mark.parametrize("make", ["fit", "spanning", "around_zero"])
def test_what_is_written_is_read_and_no_longer_than_it_says(bits, shape, make):
    values, encoding = rng.standard_normal(shape).astype(np.float32), find(bits)
    codec = getattr(encoding, make)(values)
    written, state = codec.encode(values), codec.state()
    assert (set(written), set(state)) == (set(encoding.writes), set(encoding.keeps))
    assert sum(each.nbytes for each in written.values()) == encoding.most_payload(*shape)
    assert sum(each.nbytes for each in state.values()) == encoding.most_state(shape[1]) <= most_state(shape[1])
    again = encoding.restore(state, shape[1], MessageError)
    decoded = again.decode(written, *shape, MessageError)
    assert (decoded.dtype, decoded.shape) == (np.float32, shape)
    np.testing.assert_array_equal(decoded, codec.decode(written, *shape, MessageError))


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("dim", [3, 65])
def test_public_bounds_need_no_rows(bits, dim):
    codec = find(bits).public(2.0, dim)
    values = np.array([[-2.0, 2.0, 0.5] + [0.0] * (dim - 3)], np.float32)
    decoded = codec.decode(codec.encode(values), 1, dim, MessageError)
    np.testing.assert_allclose(decoded, values, atol=2 / (2 ** min(bits, 8) - 1) + 1e-6)


@pytest.mark.parametrize("bits", BITS)
def test_wrong_sizes_and_types_are_refused(bits):
    values = rng.standard_normal((5, 3)).astype(np.float32)
    codec = find(bits).fit(values)
    right = codec.encode(values)["values"]
    for wrong in (right[:-1], right[..., None], right.astype(np.int64)):
        with pytest.raises(MessageError, match="announced were"):
            codec.decode({"values": wrong}, 5, 3, MessageError)
    with pytest.raises(MessageError, match="announced were"):
        codec.decode({"values": right}, 2**40, 2**20, MessageError)


def test_nothing_hides_behind_the_last_value():
    values = np.ones((1, 1), np.float32)
    codec = find(4).public(1.0, 1)
    written = codec.encode(values)
    np.testing.assert_allclose(codec.decode(written, 1, 1, MessageError), values)
    with pytest.raises(MessageError, match="beyond its last value"):
        codec.decode({"values": written["values"] | np.uint8(5)}, 1, 1, MessageError)


def test_floats_too_large_for_half_precision_go_to_its_edge():
    values = np.array([[1e6, -1e6, 1.5]], np.float32)
    codec = find(16).fit(values)
    np.testing.assert_array_equal(codec.decode(codec.encode(values), 1, 3, MessageError), [[65504, -65504, 1.5]])
