"""What is read in messages, counted for a report."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.config import Config
from benchmarks.data import fetch
from benchmarks.methods import leakage
from benchmarks.problem import Problem
from benchmarks.run import parties_of
from fedonce import InputError
from fedonce.assess.attacks import Finding


def found(column, score, kind="boolean", guess=0.5, **more):
    return Finding("x", column, kind, score, guess, rows=1000, **more)


def test_each_column_counts_once_with_what_did_best():
    tried = [found("a", 0.6), found("a", 0.95), found("a", 0.8, "missing"), found("b", 0.5), found(None, 1.0)]
    kept = leakage.best([*tried, found("rare", 1.0, guess=0.995), found("c", None)])
    assert [(each.column, each.score) for each in kept] == [("a", 0.95), ("a", 0.8), ("b", 0.5)]
    figures = leakage.figures(kept)
    assert (figures["columns"], figures["readable"], figures["score"]) == (3, 1, 0.95)
    assert figures["points"] == pytest.approx(45)
    assert leakage.figures([]) == {"columns": 0, "readable": 0}


def test_an_attacker_may_take_products_and_messages_as_names():
    values = np.random.default_rng(0).integers(0, 3, (50, 2)).astype(float)
    products, names = leakage.wider(values)
    assert products.shape == (50, 5)
    assert names.shape[1] == len(np.unique(values, axis=0))
    np.testing.assert_array_equal(names.sum(axis=1), 1)
    assert list(leakage.wider(np.random.default_rng(0).standard_normal((400, 9)))) == []


def test_protected_messages_are_read_less():
    data = fetch("shop", {})
    problem = Problem(data, parties_of(data, {}), "bank", *data.split(0))
    settings = {"model": "linear", "validate": False}
    plain = leakage.run(problem, Config(learner="pca", **settings), 0).detail
    protected = leakage.run(problem, Config(protect="cells:20", **settings), 0).detail
    for way in ("by nothing", "by known"):
        assert plain[way]["columns"] == protected[way]["columns"] > 0
        assert plain[way]["gain"] > 0.9
        assert protected[way]["gain"] < 0.3


def test_the_example_s_shop_is_a_data_set():
    data = fetch("shop", {})
    assert list(data.parties) == ["bank", "shop"]
    assert "newsletter" in [data.feature_names[j] for j in data.parties["shop"]]
    assert set(data.target) == {"yes", "no"}


def test_a_protection_that_is_none():
    with pytest.raises(InputError, match="'protect' must be"):
        Config(protect="walls")
