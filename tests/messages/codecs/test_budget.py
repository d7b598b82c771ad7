"""Steps by bytes per row keep to the bytes as they are written, and use them."""

from __future__ import annotations

import numpy as np
import pytest

from fedonce.messages.codecs.budget import LEAST_BYTES, MOST_LEVELS, most_values, shared_out, within
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
