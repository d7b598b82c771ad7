from __future__ import annotations

import numpy as np
import pytest

from fedonce import Guest, MessageError
from fedonce.messages.received import Received


@pytest.fixture
def sent():
    return Guest("shop", "pca", 2).learn(np.random.default_rng(0).standard_normal((50, 4)))


def test_a_message_is_decoded_and_counted(sent):
    data = sent.to_bytes()
    received = Received.of(data, "shop")
    assert received.moved == len(data)
    assert received.representation.to_bytes() == data


@pytest.mark.parametrize(
    ("limits", "reason"),
    [({"party": "telco"}, "shop"), ({"max_dim": 1}, "max_dim"), ({"max_memory": 100}, "max_memory")],
)
def test_limits_are_those_of_whoever_decodes(sent, limits, reason):
    with pytest.raises(MessageError, match=reason):
        Received.of(sent.to_bytes(), **{"party": "shop"} | limits)


def test_the_host_s_own_limits_hold_whatever_the_engine_allowed(sent):
    received = Received.of(sent.to_bytes(), "shop")
    received.check("shop", None)
    received.check("shop", 50 * 2 * 4 + 50)
    with pytest.raises(MessageError, match="max_memory"):
        received.check("shop", 50 * 2 * 4 + 49)
    with pytest.raises(MessageError, match="'telco' is refused: it is by 'shop'"):
        received.check("telco", None)
