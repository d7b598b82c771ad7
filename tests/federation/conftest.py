from __future__ import annotations

import pytest

from tests.federation.faults import POLICY
from tests.federation.parties import Parties


@pytest.fixture
def parties(tmp_path):
    """Start nothing: a test starts whom it needs; all that was started is ended."""
    made = []

    def make(*arguments, **settings) -> Parties:
        made.append(Parties(tmp_path, *arguments, **settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def federation(parties):
    """A bank, a shop and a telco that allow much, for faults; nobody is started yet."""
    made = parties()
    for guest in made.guests:
        made.policy(guest, POLICY)
    return made


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A federation of a bank, a shop and a telco that runs, for tests that kill nobody."""
    federation = Parties(tmp_path_factory.mktemp("federation"))
    try:
        federation.start()
        yield federation
    finally:
        federation.close()
