from __future__ import annotations

import torch

from fedonce.training.randomness import party_generator, torch_seeded


def test_a_party_s_numbers_depend_on_seed_and_name_alone():
    draws = {(seed, name): party_generator(seed, name).random() for seed in (0, 1) for name in ("bank", "shop", "")}
    assert len(set(draws.values())) == 6
    assert party_generator(1, "shop").random() == draws[1, "shop"]


def test_global_state_is_left_as_it_was():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    with torch_seeded(party_generator(0, "shop")):
        inside = torch.rand(1)
    assert torch.rand(1) == expected
    assert inside != expected
