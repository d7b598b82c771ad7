from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chisquare

from fedonce.messages.hints import LEAST_EPSILON, MOST_EPSILON, keep_of
from fedonce.privacy.noise import SecretRandom
from fedonce.privacy.response import answers, matrix

CASES = [(2, 0.5), (2, LEAST_EPSILON), (3, 1.0), (10, 2.0), (10, 4.0), (256, 6.0), (2, MOST_EPSILON)]


def told(labels, classes, epsilon, seed=0):
    uniforms = SecretRandom(seed).uniforms(2 * len(labels)).reshape(-1, 2)
    return answers(labels, classes, epsilon, uniforms)


@pytest.mark.parametrize(("classes", "epsilon"), CASES)
def test_no_answer_is_more_than_e_to_the_epsilon_times_as_probable_and_one_is_just_that(classes, epsilon):
    chances = matrix(classes, epsilon)
    worst = chances.max(axis=0) / chances.min(axis=0)
    np.testing.assert_allclose(worst, math.exp(epsilon), rtol=1e-6)


@pytest.mark.parametrize(("classes", "epsilon"), [*CASES, (4, math.inf)])
def test_the_chances_of_a_class_s_answers_sum_to_one_and_the_others_are_even(classes, epsilon):
    chances = matrix(classes, epsilon)
    np.testing.assert_allclose(chances.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(np.diag(chances), keep_of(classes, epsilon))
    assert len(np.unique(chances[~np.eye(classes, dtype=bool)])) == 1


def test_the_chance_of_the_truth_by_hand():
    assert matrix(2, math.log(3)) == pytest.approx(np.array([[0.75, 0.25], [0.25, 0.75]]))
    assert keep_of(10, 2.0) == pytest.approx(math.e**2 / (math.e**2 + 9))
    assert keep_of(10, math.inf) == 1.0


@pytest.mark.parametrize(("classes", "epsilon"), [(2, 0.5), (3, 1.0), (10, 2.0)])
def test_answers_are_as_frequent_as_stated(classes, epsilon):
    n = 20_000
    for label in range(classes):
        counts = np.bincount(told(np.full(n, label), classes, epsilon, label), minlength=classes)
        assert chisquare(counts, n * matrix(classes, epsilon)[label]).pvalue > 0.001


def test_a_wrong_epsilon_is_seen_by_the_same_test():
    counts = np.bincount(told(np.zeros(20_000, int), 3, 1.2), minlength=3)
    assert chisquare(counts, 20_000 * matrix(3, 1.0)[0]).pvalue < 1e-6


def test_an_infinite_epsilon_tells_the_truth():
    labels = np.arange(300) % 7
    np.testing.assert_array_equal(told(labels, 7, math.inf), labels)


def test_the_largest_epsilon_still_lies_where_its_numbers_say_so():
    """Numbers from (0, 1) have 52 bits: at the largest epsilon many of them lie above the chance of the truth."""
    lie = 1 - keep_of(2, MOST_EPSILON)
    assert lie * 2**52 == pytest.approx(math.exp(-MOST_EPSILON) * 2**52, rel=1e-6)
    assert lie * 2**52 > 1e6
    just = np.array([[1 - lie / 2, 0.3], [1 - 2 * lie, 0.3]])
    assert answers(np.zeros(2, int), 2, MOST_EPSILON, just).tolist() == [1, 0]


def test_an_answer_depends_on_its_own_row_alone():
    uniforms = SecretRandom(3).uniforms(200).reshape(-1, 2)
    labels = np.arange(100) % 5
    together = answers(labels, 5, 1.0, uniforms)
    alone = [answers(labels[[row]], 5, 1.0, uniforms[[row]])[0] for row in range(100)]
    assert together.tolist() == alone
