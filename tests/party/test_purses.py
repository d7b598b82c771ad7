from __future__ import annotations

import pytest

from fedonce import InputError, Privacy, hostmodels
from fedonce.learners import PCA
from fedonce.party import purses

ROWS = {"bank": 400, "shop": 400, "telco": 0}


def divided(**given):
    privacy = Privacy(**{"epsilon": 4.0, "accountant": "rdp"} | given)
    model, guests = hostmodels.make("network"), {"shop": PCA(), "telco": PCA()}
    return purses.divide(privacy, "bank", model, "classification", guests, ROWS, "Me")


def test_a_party_without_rows_has_no_purse_and_no_share():
    own, plan = divided(budget_shares={"bank": 3, "shop": 1, "telco": 1}, clip=0.2)
    assert list(own) == ["bank", "shop"]
    assert {entry.party for entry in plan.entries} == {"bank", "shop"}
    assert all(purse.clip == 0.2 and purse.planned == plan.of(name) for name, purse in own.items())
    assert own["bank"].ledger is own["shop"].ledger
    assert plan.delta == 1 / 4000


def test_shares_of_parties_with_rows_must_be_there():
    with pytest.raises(InputError, match="'budget_shares'.*every party"):
        divided(budget_shares={"bank": 3, "telco": 1})


def test_noise_is_secret_unless_seeded():
    assert not any(purse.random.insecure for purse in divided()[0].values())
    assert all(purse.random.insecure for purse in divided(insecure_test_seed=0)[0].values())
