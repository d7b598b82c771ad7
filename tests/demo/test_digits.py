from __future__ import annotations

from fedonce.demo.digits import methods, run


def test_digits_are_close_to_combine_and_far_from_solo():
    """One seed here; `benchmarks/experiments/digits.toml` has five."""
    told = []
    names = ("Solo", "FedOnce (pca)", "Combine")
    result = run(seed=1, tell=told.append, compared={name: methods()[name] for name in names})
    accuracy = {outcome.method: outcome.accuracy for outcome in result.outcomes}
    assert accuracy["FedOnce (pca)"] > accuracy["Combine"] - 0.025
    assert accuracy["FedOnce (pca)"] > accuracy["Solo"] + 0.15
    assert told == list(names)
    assert [outcome.messages for outcome in result.outcomes] == [0, 3, 0]


def test_what_is_compared():
    assert list(methods()) == ["Solo", "FedOnce (nat)", "FedOnce (pca)", "FedOnce (autoencoder)", "Combine"]
