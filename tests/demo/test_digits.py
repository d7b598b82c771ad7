from __future__ import annotations

from fedonce.demo.digits import methods, run


def test_digits_are_close_to_combine_and_far_from_solo():
    """One seed and few epochs here; `benchmarks/experiments/digits.toml` has five, and all."""
    told = []
    names = ("Solo", "FedOnce (pca)", "Combine")
    compared = {name: (what, given | {"host_epochs": 10}) for name, (what, given) in methods().items() if name in names}
    result = run(seed=1, tell=told.append, compared=compared)
    accuracy = {outcome.method: outcome.accuracy for outcome in result.outcomes}
    assert accuracy["FedOnce (pca)"] > accuracy["Combine"] - 0.025
    assert accuracy["FedOnce (pca)"] > accuracy["Solo"] + 0.15
    assert told == list(names)
    assert [outcome.messages for outcome in result.outcomes] == [0, 3, 0]


def test_what_is_compared():
    assert list(methods()) == ["Solo", "FedOnce (nat)", "FedOnce (pca)", "FedOnce (autoencoder)", "Combine"]
