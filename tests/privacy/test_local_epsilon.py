"""Answers of a stated epsilon: right on average, the same for the same row and cell, independent otherwise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedonce.messages.message_checks import is_epsilon
from fedonce.privacy import LocalEpsilon

KEY = bytes(range(32))
ROWS = [f"C{row}" for row in range(400)]
CELLS = np.random.default_rng(0).integers(0, 8, (400, 1)).astype(np.float32)


def test_answers_are_right_on_average():
    made, cells = LocalEpsilon(4.0, 5, KEY), np.full((20_000, 1), 2, np.float32)
    sent = made.answers(cells, None, "encoder")
    assert sorted(set(np.unique(sent).tolist())) == pytest.approx(made.marks)
    assert (np.abs(sent.mean(axis=0) - np.eye(5)[2]) < 5 * sent.std(axis=0) / math.sqrt(20_000)).all()


def test_the_same_row_gets_the_same_answer_wherever_it_stands(monkeypatch):
    monkeypatch.setattr("fedonce.privacy.local_epsilon.BLOCK", 150)
    made, order = LocalEpsilon(1.0, 8, KEY), np.random.default_rng(1).permutation(400)
    once = made.answers(CELLS, ROWS, "encoder")
    again = made.answers(CELLS[order], [ROWS[row] for row in order], "encoder")
    np.testing.assert_array_equal(once[order], again)


@pytest.mark.parametrize("change", ["row", "cell", "key", "epsilon", "encoder"])
def test_what_differs_is_answered_independently(change):
    """With epsilon near 0 answers say nothing of the cell: two independent ones agree as often as chance has it."""
    made = LocalEpsilon(0.01, 8, bytes(32) if change == "key" else KEY)
    if change == "epsilon":
        made = LocalEpsilon(0.010001, 8, KEY)
    before = LocalEpsilon(0.01, 8, KEY).answers(CELLS, ROWS, "encoder")
    after = made.answers(
        (CELLS + 1) % 8 if change == "cell" else CELLS,
        [f"{row}x" for row in ROWS] if change == "row" else ROWS,
        "other" if change == "encoder" else "encoder",
    )
    agree = (np.sign(before) == np.sign(after)).all(axis=1).mean()
    assert agree < 0.1  # one of 70 sets of four


def test_reading_all_answers_about_a_row_gives_what_epsilon_allows():
    """Asked forty times, in any order and company, a cell is guessed right as often as by one answer."""
    epsilon, cells = 1.0, (CELLS % 2)
    made, votes = LocalEpsilon(epsilon, 2, KEY), np.zeros((400, 2))
    for seed in range(40):
        order = np.random.default_rng(seed).permutation(400)
        votes[order] += made.answers(cells[order], [ROWS[row] for row in order], "encoder")
    right = (votes.argmax(axis=1) == cells[:, 0]).mean()
    allowed = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert right < allowed + 3 * math.sqrt(allowed * (1 - allowed) / 400)


def test_without_ids_each_message_has_answers_of_its_own():
    made = LocalEpsilon(1.0, 8, KEY)
    first, second = (made.answers(CELLS, None, "encoder") for _ in range(2))
    assert (first != second).any(axis=1).mean() > 0.5


def test_no_rows():
    assert LocalEpsilon(1.0, 8, KEY).answers(np.zeros((0, 1), np.float32), [], "encoder").shape == (0, 8)


def test_the_key_is_not_shown():
    assert str(KEY) not in repr(LocalEpsilon(1.0, 8, KEY))


@pytest.mark.parametrize(("epsilon", "fits"), [(0.01, True), (50, True), (0, False), (51, False), (math.nan, False)])
def test_which_epsilons_there_are(epsilon, fits):
    assert is_epsilon(epsilon) is fits
