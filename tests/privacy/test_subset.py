"""Subset selection: the ratio of probabilities is exp(epsilon), marks are right on average, errors as computed."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from fedonce.privacy.subset import SubsetSelection, best


@pytest.mark.parametrize("values", [2, 8, 64, 500])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 16.0])
def test_ratio_and_sum_of_probabilities(values, epsilon):
    made = best(values, epsilon)
    with_it, without = made.levels
    assert with_it - without == pytest.approx(epsilon, abs=1e-9)
    sets = [math.comb(values - 1, made.size - 1), math.comb(values - 1, made.size)]
    whole = sum(math.exp(level + math.log(many)) for level, many in zip(made.levels, sets, strict=True))
    assert whole == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("values", [2, 3, 10, 60])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
def test_no_size_is_better(values, epsilon):
    sizes = [SubsetSelection(values, epsilon, size).error for size in range(1, values)]
    assert best(values, epsilon).error == pytest.approx(min(sizes), rel=1e-12)


def test_with_sets_of_one_it_is_randomised_response():
    made = best(4, 2.0)
    assert made.size == 1
    assert made.true == pytest.approx(math.exp(2) / (math.exp(2) + 3))


def test_every_set_has_its_probability():
    made, rows = SubsetSelection(5, 1.0, 2), 50_000
    marks = made.answers(np.full(rows, 3), np.random.default_rng(0).random((rows, 6)))
    found = Counter(tuple(np.flatnonzero(row > 0)) for row in marks)
    sets = list(combinations(range(5), 2))
    expected = [rows * math.exp(made.levels[3 not in each]) for each in sets]
    assert stats.chisquare([found[each] for each in sets], expected).pvalue > 1e-4


@pytest.mark.parametrize("values", [2, 8, 200])
def test_right_on_average_and_error(values):
    made, rows = best(values, 2.0), 20_000
    marks = made.answers(np.full(rows, 1), np.random.default_rng(1).random((rows, values + 1)))
    wanted = np.eye(values)[1]
    assert (np.abs(marks.mean(axis=0) - wanted) < 5 * marks.std(axis=0) / math.sqrt(rows)).all()
    squares = np.square(marks - wanted).sum(axis=1)
    assert squares.mean() == pytest.approx(made.error, abs=5 * squares.std() / math.sqrt(rows))
