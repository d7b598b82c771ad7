"""A trial of hints: they are taken where a message is better with them beyond doubt."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedonce.learners import hint_encoder
from fedonce.learners.hint_encoder import SURE, Told, Trial, encoder, errors_better, values_by_hints
from fedonce.training.settings import Training

CPU = torch.device("cpu")
N = 2400


@pytest.mark.parametrize(
    ("classes", "dim", "values"), [(2, 16, 1), (3, 16, 2), (10, 16, 4), (16, 16, 4), (17, 16, 5), (10, 2, 2), (2, 1, 1)]
)
def test_seldom_true_hints_get_as_many_values_as_number_the_classes(classes, dim, values):
    assert values_by_hints(classes, 0.45, dim) == values


@pytest.mark.parametrize(
    ("classes", "dim", "values"), [(2, 16, 1), (3, 16, 2), (10, 16, 9), (10, 8, 5), (10, 4, 4), (100, 16, 10)]
)
def test_mostly_true_hints_get_a_value_for_each_class_but_one_as_far_as_there_is_room(classes, dim, values):
    assert values_by_hints(classes, 0.86, dim) == values


@pytest.mark.parametrize("keep", [0.23, 0.86])
@pytest.mark.parametrize(("most", "values"), [(16.0, 9), (8.5, 8), (4.0, 4), (2.5, 2), (0.3, 1)])
def test_where_bytes_are_given_there_is_room_for_all_but_no_more_of_them_than_bytes(keep, most, values):
    assert values_by_hints(10, keep, 32, most) == values


@pytest.mark.parametrize("errors", [-9, 0, 1.5, 4])
def test_how_much_better_hints_are_is_told_in_standard_errors(errors):
    rng = np.random.default_rng(0)
    without = rng.normal(2, 1, 2000)  # the noise of rows is largely common to both
    noise = rng.normal(0, 0.5, 2000)
    noise -= noise.mean()
    assert errors_better(without, without - errors * noise.std() / np.sqrt(2000) + noise) == pytest.approx(errors)


def test_rows_alike_are_not_better():
    assert errors_better(np.ones(5), np.ones(5)) == 0


def images(told_by_last=True):
    """Images and values without hints: three that vary and tell nothing, and one that tells the class, or does not."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, N)
    pixels = rng.standard_normal((N, 1, 8, 8))
    pixels[:, 0, 2] += 0.5 * (2 * label[:, None] - 1)
    values = rng.standard_normal((N, 4))
    if told_by_last:
        values[:, 3] = 2.0 * label + 0.1 * rng.standard_normal(N)
    return pixels.astype(np.float32), values.astype(np.float32), Told(label.astype(np.int64), 2, 4.0)


def pays(rows, values, told, dim=4, by_hints=1, most=None):
    training = Training(4, 64, 3e-3, 1e-3, "one-cycle", "adamw")

    def build(shape, width):
        return encoder(shape, (), width)

    return Trial(build, training, most).pays(rows, values, told, by_hints, dim, np.random.default_rng(0), CPU)


def test_what_hints_take_the_place_of_counts():
    """The last value alone goes: hints must be better than that one."""
    assert pays(*images(told_by_last=False))
    assert not pays(*images())


def test_messages_are_rounded_as_they_would_be_sent():
    """The class is in the low digits of the last value: with few bytes they are not sent, and hints pay."""
    rows, values, told = images()
    values[:, :3] *= 100
    assert not pays(rows, values, told)
    assert pays(rows, values, told, most=2.0)


@pytest.fixture
def widths(monkeypatch):
    """What a reader is given: how many values of each of the two messages; that with hints is better by 1, or not."""
    found = []

    def read(sent, told, n_held, rng):
        found.append(sent.shape[1])
        return np.arange(n_held) % 2 + (2.0 if len(found) == 1 else 1.0)

    monkeypatch.setattr(hint_encoder, "_read", read)
    return found


@pytest.mark.parametrize(("there", "dim", "by_hints", "read"), [(4, 4, 1, 4), (2, 4, 1, 3), (2, 4, 3, 4), (4, 4, 4, 4)])
def test_messages_are_read_as_they_would_be_sent(widths, there, dim, by_hints, read):
    rows, values, told = images()
    pays(rows, values[:, :there], told, dim, by_hints)
    assert widths == [there, read]


@pytest.mark.parametrize(("errors", "taken"), [(0.9 * SURE, False), (1.1 * SURE, True)])
def test_hints_are_taken_where_they_are_better_beyond_doubt(widths, monkeypatch, caplog, errors, taken):
    monkeypatch.setattr(hint_encoder, "errors_better", lambda without, with_hints: errors)
    with caplog.at_level("INFO"):
        assert pays(*images()) == taken
    word = "taken" if taken else "not taken"
    assert f"1 of 4 values by hints: {word}. The message is better by {errors:.1f} standard errors" in caplog.text


def test_hints_at_what_images_do_not_tell():
    rows, values, _ = images(told_by_last=False)
    noise = np.random.default_rng(7).integers(0, 2, N)
    assert not pays(rows, values, Told(noise, 2, 4.0))
