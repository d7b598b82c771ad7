"""Which codec a guest's values get."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedonce import Guest, Representation
from fedonce.learners import PCA, Cells
from fedonce.messages.codecs import find
from fedonce.messages.codecs.coded import Coded4, Coded8, Coded12
from fedonce.messages.codecs.floats import Float16, Float32
from fedonce.party import writing

ROWS = np.random.default_rng(0).standard_normal((600, 6)).astype(np.float32) * 2.0 ** -np.arange(6, dtype=np.float32)
CPU = torch.device("cpu")


@pytest.mark.parametrize(("bits", "kind"), [(32, Float32), (16, Float16), (8, Coded8), (4, Coded4)])
def test_integers_are_coded_and_floats_are_not(bits, kind):
    assert type(writing.fitted(find(bits), ROWS, PCA(), None)) is kind


def test_so_many_columns_that_reading_them_would_take_long_stay_plain(monkeypatch):
    monkeypatch.setattr(writing, "COLUMNS_LIMIT", ROWS.shape[1] - 1)
    assert type(writing.fitted(find(8), ROWS, None, None)) is find(8)


def test_what_is_sent_of_values_of_any_scale_is_what_plain_integers_say():
    plain = find(8).fit(ROWS)
    coded = writing.fitted(find(8), ROWS, None, None)
    found = coded.decode(coded.encode(ROWS), *ROWS.shape, ValueError)
    np.testing.assert_array_equal(found, plain.decode(plain.encode(ROWS), *ROWS.shape, ValueError))


def test_values_of_one_scale_get_steps_of_one_length_which_lose_hardly_anything():
    coded, any_scale = (writing.fitted(find(8), ROWS, learner, None) for learner in (PCA(), None))
    assert len(set(coded.steps.step.tolist())) == 1
    lost = np.square(coded.decode(coded.encode(ROWS), *ROWS.shape, ValueError) - ROWS).sum()
    assert lost <= 0.0011 * np.square(ROWS - ROWS.mean(axis=0)).sum()
    sizes = [each.encode(ROWS)["coded"].nbytes for each in (coded, any_scale)]
    assert sizes[0] < 0.7 * sizes[1]
    # A learner of one's own may give values of any scale: none of them is lost beside a large one.
    assert not Cells().one_scale
    uneven = ROWS * np.float32([1000, 1, 1, 1, 1, 1])
    assert writing.fitted(find(8), uneven, Cells(), None).steps.levels.min() == 255


def fitted(learner, dim=4):
    learner.fit(ROWS, dim, np.random.default_rng(0), CPU)
    return learner


def test_a_learners_own_steps_are_taken_where_the_bits_allow_them():
    cells = fitted(Cells(cells=20, least=5))
    values = cells.transform(ROWS, CPU)
    assert writing.fitted(find(8), values, cells, None).steps.levels.tolist() == cells.steps.levels.tolist()
    assert type(writing.fitted(find(4), values, cells, None)) is Coded4  # 256 steps are more than 4 bits
    # With noise the values are no longer the learner's own.
    noisy = values + np.float32(0.1)
    assert writing.fitted(find(8), noisy, None, None).steps.low.tolist() == find(8).fit(noisy).scale.low.tolist()


def test_bytes_per_row_choose_steps_where_the_learner_has_none():
    codec = writing.fitted(find(8), ROWS, None, 1.5)
    assert type(codec) in (Coded4, Coded8, Coded12)
    assert codec.encode(ROWS)["coded"].nbytes <= 1.5 * len(ROWS)


def test_values_that_are_sums_are_written_in_layers():
    cells = fitted(Cells(cells=20, least=5, layers=2))
    values = cells.transform(ROWS, CPU)
    codec = writing.fitted(find(8), values, cells, None)
    layers = writing.laid_out(codec, cells, ROWS, values, CPU)
    assert (codec.steps.layers, layers.shape) == (2, (600, 2 * values.shape[1]))
    found = codec.decode(codec.encode(layers), *values.shape, ValueError)
    assert (np.abs(found - values) <= codec.steps.step.reshape(2, -1).sum(axis=0) / 2 + 1e-5).all()
    single = writing.fitted(find(8), values, None, None)
    assert writing.laid_out(single, cells, ROWS, values, CPU) is values


@pytest.mark.parametrize("learner", ["pca", Cells(least=5), "autoencoder"])
@pytest.mark.parametrize("bytes_per_row", [0.4, 2.0])
def test_a_guest_keeps_to_its_bytes_and_goes_on_so_when_it_is_loaded(tmp_path, learner, bytes_per_row):
    guest = Guest("shop", learner, epochs=1, bytes_per_row=bytes_per_row)
    message = guest.learn(ROWS)
    assert message.payload_bytes <= bytes_per_row * len(ROWS)
    again = Representation.from_bytes(message.to_bytes())
    np.testing.assert_array_equal(again.values, message.values)
    guest.save(tmp_path / "shop")
    loaded = Guest.load(tmp_path / "shop")
    assert loaded.represent(ROWS[:50]).to_bytes() == guest.represent(ROWS[:50]).to_bytes()
    np.testing.assert_array_equal(loaded.represent(ROWS[:50]).values, message.values[:50])


def test_a_guest_sends_no_more_values_than_it_is_told_whatever_the_bytes():
    message = Guest("shop", "pca", dim=2, bytes_per_row=10).learn(ROWS)
    assert message.dim == 2


def test_floats_and_encodings_of_ones_own_are_written_as_asked():
    assert type(writing.fitted(find(16), ROWS, fitted(Cells(cells=8)), None)) is Float16

    class Mine(find(8)):
        """An encoding of somebody's own."""

        name = "mine"

    assert type(writing.fitted(Mine, ROWS, fitted(Cells(cells=8)), None)) is Mine
    with pytest.raises(ValueError, match="'bits' parameter of Guest must be 8 with bytes_per_row"):
        Guest("shop", bits=16, bytes_per_row=1)
