"""Rounds are timed in whatever engine a training over a federation uses; here with a guest in the same process."""

from __future__ import annotations

import pytest

from tests.federation.test_host_run import a_bank

federation = pytest.importorskip("benchmarks.speed.federation", exc_type=ImportError)


def test_rounds_are_counted_and_timed(tmp_path):
    found = federation.time_rounds(lambda: a_bank(tmp_path).fit("rounds = {rounds = 4, batch = 40}\n"))
    assert (found["rounds"], found["lost"]) == (4, {})
    assert found["seconds"] > 0
    assert found["wire_bytes"] == 1
