from __future__ import annotations

import numpy as np
import pytest

from fedonce.assess.attacks.base import Exposed
from fedonce.assess.attacks.hashes import GuessedIds
from fedonce.data.table import Table
from fedonce.rows.ids import hashed, keyed, plain

IDS = np.array([f"C-{number:06d}" for number in np.random.default_rng(0).permutation(20_000)[:500]], dtype=object)
TABLE = Table.of(np.zeros((500, 1)))


def found(keys, naming, ids=IDS, **settings):
    exposed = Exposed(np.zeros((500, 1)), TABLE, ids=keys, naming=naming, own_ids=ids)
    return GuessedIds(**settings).run(exposed, np.random.default_rng(0))[0]


def test_hashes_without_a_key_are_guessed_and_with_one_they_are_not():
    assert found(hashed(IDS), "hashed").score == 1.0
    assert found(plain(IDS), "plain").score == 1.0
    assert found(keyed(IDS, b"s" * 32, "run"), "keyed 0123456789abcdef").score == 0.0


def test_what_cannot_all_be_tried_is_tried_in_part():
    each = found(hashed(IDS), "hashed", most_tried=2_000)
    assert each.score == pytest.approx(1.0, abs=0.3)
    assert "possible ids hashed" in each.note


def test_ids_without_a_number_are_not_counted_through():
    words = np.array(
        [f"{'abcdefghij'[k % 10]}{'klmnopqrst'[k // 10 % 10]}{'uvwxy'[k // 100]}" for k in range(500)], object
    )
    assert "who has a list of them" in found(hashed(words), "hashed", words).note
