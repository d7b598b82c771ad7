"""Steps by bytes per row keep to the bytes as they are written, and use them."""

from __future__ import annotations

import numpy as np
import pytest

from fedonce.messages.codecs.budget import LEAST_BYTES, MOST_LEVELS, beside, most_values, shared_out, within, worth
from fedonce.messages.codecs.coded import coded_by

rng = np.random.default_rng(0)


def far_from_zero(rows):
    return 100 + rng.standard_normal((rows, 3))


def with_an_outlier(rows):
    found = rng.standard_normal((rows, 3))
    found[1] = 1e7  # a row that a sample by steps may lack
    return found


def mostly_zero(rows):
    found = np.zeros((rows, 4))
    found[1] = 1e6
    return found


KINDS = {
    "normal": lambda rows: rng.standard_normal((rows, 8)),
    "columns of falling spread": lambda rows: rng.standard_normal((rows, 20)) * 2.0 ** -np.arange(20),
    "skewed": lambda rows: rng.exponential(1, (rows, 6)) ** 3,
    "flags": lambda rows: (rng.random((rows, 12)) < 0.1).astype(float),
    "heavy tails": lambda rows: rng.standard_t(1.2, (rows, 5)),
    "one column": lambda rows: rng.standard_normal((rows, 1)),
    "cells": lambda rows: rng.standard_normal((30, 10))[rng.integers(0, 30, rows)],
    "far from zero": far_from_zero,
    "an outlier": with_an_outlier,
    "mostly zero": mostly_zero,
    "even": lambda rows: rng.random((rows, 64)),
}


@pytest.mark.parametrize("bytes_per_row", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [2000, 45_000])
def test_rows_take_no_more_than_they_may(kind, rows, bytes_per_row):
    values = KINDS[kind](rows).astype(np.float32)
    steps = within(values, bytes_per_row)
    assert steps.levels.max() <= MOST_LEVELS
    codec = coded_by(steps)
    written = codec.encode(values)
    assert written["coded"].nbytes <= bytes_per_row * rows
    found = codec.decode(written, *values.shape, ValueError)
    assert (np.abs(found - values) <= steps.step * 0.51).all()


@pytest.mark.parametrize("kind", ["normal", "columns of falling spread"])
def test_more_bytes_tell_more(kind):
    values = KINDS[kind](20_000).astype(np.float32)
    lost = []
    for bytes_per_row in (0.25, 1.0, 3.0):
        codec = coded_by(within(values, bytes_per_row))
        written = codec.encode(values)
        assert written["coded"].nbytes > 0.7 * bytes_per_row * len(values)  # what may be taken is used
        lost.append(np.square(codec.decode(written, *values.shape, ValueError) - values).mean() / values.var())
    assert lost[0] > lost[1] > lost[2]


def test_enough_is_not_exceeded_however_many_bytes_there_are():
    values = KINDS["normal"](5000).astype(np.float32)
    codec = coded_by(within(values, 1000.0))
    written = codec.encode(values)
    lost = np.square(codec.decode(written, *values.shape, ValueError) - values).sum() / values.var(axis=0).sum()
    assert 0.0005 < lost / len(values) < 0.002
    assert written["coded"].nbytes < 8 * len(values)


@pytest.mark.parametrize("rows", [1, 3, 20])
def test_a_few_rows_or_constant_ones_fall_on_one_step(rows):
    for values in (rng.standard_normal((rows, 3)), np.full((rows, 3), 2.0)):
        steps = within(values.astype(np.float32), 0.05)
        assert not steps.levels.any()
        assert len(coded_by(steps).encode(values.astype(np.float32))["coded"]) < 20


def test_more_values_than_by_default_where_bytes_are_given():
    assert [most_values(dim, given) for dim, given in ((8, None), (8, 1.0), (40, 1.0))] == [8, 16, 40]


def test_images_have_two_values_per_byte():
    assert [most_values(8, given, pixels=196) for given in (None, 4.0, 16.0, 20.3)] == [8, 16, 32, 41]
    assert [most_values(dim, 64.0, pixels=20) for dim in (8, 30)] == [20, 30]  # no more than there are pixels


@pytest.mark.parametrize("kind", ["normal", "columns of falling spread", "flags", "cells", "one column"])
@pytest.mark.parametrize("bytes_per_row", [0.05, 1.0, 4.0, 16.0])
def test_values_of_two_kinds_take_no_more_than_they_may_together(kind, bytes_per_row):
    first, rest = 30 * rng.standard_normal((4000, 4)).astype(np.float32), KINDS[kind](4000).astype(np.float32)
    steps, values = beside(first, rest, bytes_per_row, 0.6), np.hstack([first, rest])
    codec = coded_by(steps)
    written = codec.encode(values)
    assert written["coded"].nbytes <= bytes_per_row * 4000
    np.testing.assert_array_equal(codec.decode(written, *values.shape, ValueError), steps.rounded(values))


def test_the_first_kind_is_as_fine_as_it_is_worth_and_the_rest_gets_what_is_left():
    first, rest = (
        rng.standard_normal((4000, 4)).astype(np.float32),
        50 * rng.standard_normal((4000, 6)).astype(np.float32),
    )
    steps = beside(first, rest, 5.0, 0.6)
    np.testing.assert_allclose(steps.step[:4], worth(first).step, rtol=0.02)
    few = beside(first, rest, 2.0, 0.6)  # what they are worth is 2.6 bytes
    assert few.step[0] > steps.step[0]
    for found, most in ((steps, 5.0), (few, 2.0)):
        taken = coded_by(found).encode(np.hstack([first, rest]))["coded"].nbytes / 4000
        assert 0.9 * most < taken <= most


def test_what_the_rest_does_not_need_is_the_first_kind_s():
    first, flag = rng.standard_normal((4000, 8)), (rng.random((4000, 1)) < 0.5).astype(float)
    assert beside(first, flag, 4.0, 0.3).step[0] < 0.6 * within(first, 1.2).step[0]


def test_a_rest_of_few_distinct_rows_is_written_as_such():
    first, rest = rng.standard_normal((4000, 2)), rng.standard_normal((12, 6))[rng.integers(0, 12, 4000)]
    steps = beside(first, rest, 2.0, 0.6)
    lost = np.square(steps.rounded(np.hstack([first, rest]))[:, 2:] - rest).mean() / rest.var()
    assert lost < 0.01


def test_nothing_is_left_for_the_rest_where_the_first_kind_may_take_all():
    first, rest = rng.standard_normal((4000, 4)), rng.standard_normal((4000, 3))
    assert not beside(first, rest, 0.5, 1.0).levels[4:].any()
    assert len(beside(first, rest[:, :0], 0.5, 1.0).levels) == 4


@pytest.mark.parametrize("total", [0.2, 1.0, 4.0, 100.0])
def test_parts_share_bytes_as_if_they_were_one_table(total):
    parts = [rng.standard_normal((3000, 6)), (rng.random((3000, 6)) < 0.02).astype(float), np.zeros((3000, 2))]
    found = shared_out(parts, [3000] * 3, total)
    assert sum(found) <= total
    assert min(found) >= LEAST_BYTES
    assert found[2] == LEAST_BYTES
    if total >= 1:
        assert found[0] > 3 * found[1]


def test_parts_with_the_same_to_tell_get_the_same():
    part = rng.standard_normal((3000, 4))
    first, second = shared_out([part, part], [3000, 3000], 2.0)
    assert first == second
    assert 1.9 < first + second <= 2.0
