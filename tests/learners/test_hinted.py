from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from fedonce import FedOnceWarning, Guest, Hinting, InputError
from fedonce.data.table import Table
from fedonce.learners import NAT, PCA, Cells, Hinted, make
from fedonce.learners.hint_encoder import Told
from fedonce.learners.hinted import LEAST_HINTED
from fedonce.party.hinting import publish
from fedonce.privacy.response import answers
from fedonce.training.checkpoints import Progress
from tests.conftest import make_table

CPU = torch.device("cpu")
N = 1200


def hidden_class(n=N, seed=0):
    """Twelve columns of which those that vary least tell the class: the first principal components miss it."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n)
    rows = rng.standard_normal((n, 12))
    rows[:, 6:] = 0.3 * (rows[:, 6:] + 0.8 * (2 * label[:, None] - 1))
    return rows.astype(np.float32), label


def told_of(label, epsilon=4.0, seed=1):
    rng = np.random.default_rng(seed)
    classes = int(label.max()) + 1
    return Told(answers(label, classes, epsilon, rng.random((len(label), 2))).astype(np.int64), classes, epsilon)


def fitted(rows, told, dim=4, seed=0, coded=(), **settings):
    learner = Hinted(**{"base": "pca", "epochs": 4, **settings})
    learner.fit(rows, dim, np.random.default_rng(seed), CPU, told=told, **({"coded": coded} if coded else {}))
    return learner


def right(values, label):
    """Return how well a line tells the class from values, on rows that it was not fitted to."""
    half = len(label) // 2
    return LogisticRegression(max_iter=500).fit(values[:half], label[:half]).score(values[half:], label[half:])


def same_space(one, other):
    """Tell whether two sets of values are the same but for a turn and a shift."""
    design = np.column_stack([one, np.ones(len(one))])
    left = other - design @ np.linalg.lstsq(design, other, rcond=None)[0]
    return float(np.abs(left).max()) < 1e-4


def images(n=1000, seed=0):
    """Images whose class is a faint stripe, beside pixels that vary far more and tell nothing."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n)
    pixels = rng.standard_normal((n, 1, 8, 8))
    pixels[:, 0, 2] *= 0.3
    pixels[:, 0, 2] += 0.15 * (2 * label[:, None] - 1)
    return pixels.astype(np.float32), label


def test_hints_that_pay_are_taken_for_images_and_tell_the_class():
    rows, label = images(2500)
    learner = fitted(rows, told_of(label), epochs=6, batch=32)
    assert learner.hinted_ > 0
    values = learner.transform(rows, CPU)
    assert values.shape == (2500, 4)
    assert learner.hinted_ + learner.rest_ == 4
    assert right(values, label) > right(fitted(rows, None).transform(rows, CPU), label) + 0.1


def test_hints_at_what_the_rows_do_not_tell_are_left_aside():
    rows, _ = images()
    noise = np.random.default_rng(7).integers(0, 2, len(rows))
    assert fitted(rows, told_of(noise), epochs=6, batch=32).hinted_ == 0


def test_a_table_s_own_values_make_no_room_for_hints():
    """What they are worth beside the columns of others no guest can try."""
    rows, label = hidden_class()
    learner = fitted(rows, told_of(label))
    assert (learner.hinted_, learner.rest_) == (0, 4)


@pytest.mark.parametrize("dim", [1, 4])
def test_without_hints_it_is_the_base(dim):
    rows, label = hidden_class()
    base = PCA()
    base.fit(rows, dim, np.random.default_rng(0), CPU)
    few = told_of(label)
    few.answers[LEAST_HINTED - 1 :] = -1  # and with too few of them
    for told in (None, few):
        learner = fitted(rows, told, dim)
        assert (learner.hinted_, learner.rest_) == (0, dim)
        assert same_space(learner.transform(rows, CPU), base.transform(rows, CPU))


def test_columns_of_codes_ignore_hints():
    """An encoder of codes, which are names, would learn each one's hints."""
    rows, label = hidden_class()
    codes = np.random.default_rng(0).integers(1, 50, (N, 2)).astype(np.float32)
    learner = fitted(np.hstack([codes, rows]), told_of(label), base="auto", coded=(0, 1))
    assert learner.hinted_ == 0


def test_rows_without_a_hint_are_represented_but_not_learnt_from():
    rows, label = hidden_class()
    told = told_of(label)
    told.answers[::3] = -1
    odd = rows.copy()
    odd[::3, 6:] += 100.0  # were these learnt from, the encoder would be another
    learners = [fitted(each, told, share=1.0, base="random") for each in (rows, odd)]
    assert learners[0].hinted_ == 4
    np.testing.assert_allclose(*(each.transform(rows, CPU) for each in learners), rtol=1e-5, atol=1e-5)
    assert len(learners[0].transform(rows, CPU)) == N


@pytest.mark.parametrize(("share", "values"), [(0.0, 0), (0.1, 1), (0.5, 2), (1.0, 4)])
def test_a_share_that_is_given_is_not_tried(share, values):
    rows, label = hidden_class()
    learner = fitted(rows, told_of(label), share=share, epochs=1)
    assert (learner.hinted_, learner.rest_) == (values, 4 - values)


class TestBytesPerRow:
    """Values by hints get the finest steps that are worth their bytes, the rest what is left."""

    def test_the_rest_is_rounded_and_not_given_up(self):
        rows, label = images(2500)
        learner = fitted(rows, told_of(label), dim=12, epochs=6, batch=32, bytes_per_row=4.0)
        assert learner.hinted_ == 1
        assert learner.rest_ > 4
        steps = learner.steps
        assert len(steps.levels) == learner.hinted_ + learner.rest_ == learner.transform(rows, CPU).shape[1]
        assert len(set(steps.step[1:].tolist())) == 1
        assert 10 < steps.levels[0] < 80  # five bits or so

    def test_what_there_is_no_room_for_is_left_away(self):
        rows, label = images(2500)
        rows[:, 0, 5:] *= 0.01
        fine, coarse = (
            fitted(rows, told_of(label), dim=60, share=0.05, epochs=1, bytes_per_row=most) for most in (40.0, 4.0)
        )
        assert fine.hinted_ == coarse.hinted_ == 3
        assert coarse.rest_ < fine.rest_
        assert coarse.transform(rows, CPU).shape[1] == coarse.hinted_ + coarse.rest_ == len(coarse.steps.levels)

    def test_a_message_keeps_to_its_bytes_and_is_read_as_it_was_meant(self):
        rows, label = images(2500)
        hints = publish(label, Hinting(4.0))
        shop = Guest("shop", Hinted(base="pca", epochs=2, share=0.2), 12, shape=(1, 8, 8), bytes_per_row=3.0)
        message = shop.learn(rows.reshape(2500, -1), hints=hints)
        assert message.note.startswith("2 of ")
        assert message.payload_bytes <= 3.0 * 2500
        prepared = shop.preparation.transform(Table.of(rows.reshape(2500, -1)))
        np.testing.assert_array_equal(message.values, shop.learner.steps.rounded(shop.values(prepared)))
        again = shop.represent(rows[:7].reshape(7, -1))
        np.testing.assert_array_equal(again.values, message.values[:7])

    def test_without_hints_it_is_the_base_with_as_many_bytes(self):
        rows, label = hidden_class()
        learner = fitted(rows, told_of(label), bytes_per_row=0.5, base="auto")
        assert (learner.hinted_, learner.base_.chosen_.name) == (0, "cells")
        np.testing.assert_array_equal(learner.steps.low, learner.base_.steps.low)
        for each in ("transform", "transform_in_layers"):
            np.testing.assert_array_equal(getattr(learner, each)(rows, CPU), getattr(learner.base_, each)(rows, CPU))

    @pytest.mark.parametrize("most", [0.05, 2.0, 16.0])
    def test_of_a_table_with_two_classes_one_value_is_enough(self, most):
        rows, label = hidden_class()
        told = replace(told_of(label), asked=True)
        assert fitted(rows, told, 16, epochs=1, bytes_per_row=most).hinted_ == 1

    def test_so_few_that_hints_would_tell_nothing(self):
        """Then the learner of the rest has them all, and gives what it would have given alone."""
        rows, label = images(260)
        hints, rows = publish(label, Hinting(4.0)), rows.reshape(260, -1)
        learner = Hinted(base="autoencoder", share=0.5, epochs=2)
        given, alone = (
            Guest("shop", each, 4, shape=(1, 8, 8), epochs=2, bytes_per_row=0.05) for each in (learner, "autoencoder")
        )
        messages = given.learn(rows, hints=hints), alone.learn(rows)
        assert (given.learner.hinted_, given.learner.network_) == (0, None)
        assert given.history == alone.history
        np.testing.assert_array_equal(*(each.values for each in messages))

    @pytest.mark.parametrize("most", [math.inf, 0.0, 2000.0, True, "16"])
    def test_what_is_no_number_of_bytes_is_refused(self, most):
        rows, label = hidden_class(300)
        with pytest.raises(
            InputError, match="'bytes_per_row' parameter of the learner 'hinted' must be a number from 0.05"
        ):
            fitted(rows, told_of(label), bytes_per_row=most)

    def test_those_of_the_learner_it_is_put_around(self):
        X, y = make_table(300)
        hints = publish(y > np.median(y), Hinting(2.0))
        message = Guest("shop", PCA(bytes_per_row=1.0), 5, shape=None).learn(X, hints=hints)
        assert message.payload_bytes <= 300


class TestWithoutHints:
    """It learns as the learner of the rest would, in all respects."""

    def test_as_long_and_in_as_many_bytes(self):
        learner = Hinted(base="autoencoder", epochs=2).without_hints()
        assert (learner.name, learner.epochs) == ("autoencoder", 2)
        assert Hinted(base="auto", bytes_per_row=0.5).without_hints().bytes_per_row == 0.5

    def test_epochs_are_those_that_were_asked_for_where_hints_are_of_no_use(self):
        X, y = make_table(300)
        guest = Guest("shop", "autoencoder", 3, epochs=2)
        guest.learn(X, hints=publish(y > np.median(y), Hinting(2.0)))
        assert len(guest.history) == 2

    @pytest.mark.parametrize("settings", [{}, {"bytes_per_row": 1.0}], ids=["", "bytes"])
    @pytest.mark.parametrize(
        ("name", "shape"), [("pca", None), ("autoencoder", None), ("auto", (1, 8, 8)), ("autoencoder", (1, 8, 8))]
    )
    def test_a_message_for_which_hints_are_of_no_use_is_that_without_them(self, name, shape, settings):
        rows, _ = images(400) if shape else hidden_class(400)
        rows = rows.reshape(400, -1)
        hints = publish(np.random.default_rng(7).integers(0, 2, 400), Hinting(4.0), key=bytes(32))
        guests = [Guest("shop", name, 4, epochs=1, shape=shape, **settings) for _ in range(2)]
        given, none = (guest.learn(rows, hints=told) for guest, told in zip(guests, (hints, None), strict=True))
        assert (given.note.split(";")[0], given.learner) == (f"0 of {given.dim} values by hints", none.learner)
        np.testing.assert_array_equal(given.values, none.values)
        assert guests[0].history == guests[1].history

    def test_epochs_of_the_rest_are_told_too(self):
        rows, _ = images(400)
        stages = []
        guest = Guest("shop", "autoencoder", 4, epochs=2, shape=(1, 8, 8))
        progress = Progress(lambda done, epochs, stage: stages.append((stage, done, epochs)))
        hints = publish(np.random.default_rng(7).integers(0, 2, 400), Hinting(4.0), key=bytes(32))
        guest.learn(rows.reshape(400, -1), hints=hints, progress=progress)
        assert stages == [("autoencoder", 1, 2), ("autoencoder", 2, 2)]

    def test_a_share_of_none_takes_the_bytes_of_the_base(self):
        rows, label = hidden_class()
        learner = fitted(rows, told_of(label), bytes_per_row=0.5, base="auto", share=0.0)
        assert learner.base_.chosen_.name == "cells"

    def test_few_rows_are_learnt_kept_and_read_again(self, tmp_path):
        X, _ = make_table(5)
        guest = Guest("shop", "random", 8)
        guest.learn(X, hints=publish(np.arange(5) > 2, Hinting(2.0)))
        guest.save(tmp_path / "shop")
        again = Guest.load(tmp_path / "shop")
        np.testing.assert_array_equal(again.represent(X).values, guest.represent(X).values)

    def test_a_guest_that_did_not_ask_for_it_learns_as_it_did_when_it_comes_from_disk(self, tmp_path, recwarn):
        X, y = make_table(300)
        hints = publish(y > np.median(y), Hinting(2.0))
        guest = Guest("shop", "pca", 4)
        notes = [guest.learn(X, hints=hints).note]
        guest.save(tmp_path / "shop")
        again = Guest.load(tmp_path / "shop")
        notes += [again.learn(X, hints=hints).note, again.learn(X).note]
        assert notes == ["0 of 4 values by hints"] * 2 + [""]
        assert not recwarn.list

    def test_a_guest_that_took_hints_unasked_learns_without_them_as_it_was_made(self, tmp_path, recwarn):
        rows, label = images(2500)
        rows = rows.reshape(2500, -1)
        guest = Guest("shop", "pca", 4, shape=(1, 8, 8), epochs=6)
        assert not guest.learn(rows, hints=publish(label, Hinting(8.0))).note.startswith("0 of ")
        guest.save(tmp_path / "shop")
        again = Guest.load(tmp_path / "shop")
        np.testing.assert_array_equal(again.represent(rows[:9]).values, guest.represent(rows[:9]).values)
        messages = [each.learn(rows) for each in (again, Guest("shop", "pca", 4, shape=(1, 8, 8), epochs=6))]
        assert [(each.learner, each.model) for each in messages] == [("pca", messages[0].model)] * 2
        assert not recwarn.list


def test_a_table_with_a_column_of_many_categories_uses_hints_where_that_is_asked_for():
    rows, label = hidden_class()
    table = pd.DataFrame(rows).rename(columns=str).assign(town=[f"town {number}" for number in np.arange(N) % 150])
    message = Guest("shop", "hinted", 4, epochs=1).learn(table, hints=publish(label, Hinting(4.0)))
    assert message.note.startswith("2 of 4 values by hints")


def test_a_learner_that_has_no_name_here_is_not_put_beside_hints():
    class Mine(PCA):
        name = "mine"

    rows, label = hidden_class(300)
    with pytest.raises(InputError, match=r"'mine' is not known by it; call fedonce\.learners\.register"):
        Guest("shop", Mine(), 2).learn(rows, hints=publish(label, Hinting(4.0)))


def test_a_learning_of_images_that_was_killed_goes_on_to_the_same_bits(tmp_path):
    rows, label = images(400)
    rows, hints = rows.reshape(400, -1), publish(label, Hinting(4.0))

    def guest():
        return Guest("shop", Hinted(base="autoencoder", share=0.5, epochs=3), 4, 32, shape=(1, 8, 8))

    def learn(stage=None, epoch=None):
        def tell(done, _epochs, what):
            if (what, done) == (stage, epoch):
                raise KeyboardInterrupt

        progress = Progress(tell, tmp_path / "kept", fingerprint="mine", every=0.0)
        return guest().learn(rows, hints=hints, progress=progress).to_bytes()

    whole = guest().learn(rows, hints=hints).to_bytes()
    for stage, epoch in (("autoencoder", 2), ("hinted", 1), ("hinted", 2)):
        with pytest.raises(KeyboardInterrupt):
            learn(stage, epoch)
        assert learn() == whole


@pytest.mark.parametrize("shape", [(12,), (1, 8, 8)])
@pytest.mark.parametrize("share", [0.5, 1.0])
class TestContract:
    """What `test_learners.py` asks of every learner, here with hints."""

    def made(self, shape, share):
        rng = np.random.default_rng(0)
        rows = rng.standard_normal((260, *shape)).astype(np.float32)
        label = (rows.reshape(260, -1)[:, :3].sum(axis=1) > 0).astype(int)
        return rows, fitted(rows, told_of(label), share=share, epochs=1)

    def test_a_row_does_not_depend_on_its_company(self, shape, share):
        rows, learner = self.made(shape, share)
        whole = learner.transform(rows, CPU)
        assert (whole.dtype, whole.shape) == (np.float32, (260, 4))
        np.testing.assert_array_equal(learner.transform(rows[7:8], CPU), whole[7:8])

    def test_repeatable_and_global_randomness_is_left_alone(self, shape, share):
        torch.manual_seed(0)
        rows, first = self.made(shape, share)
        after = torch.rand(1).item()
        torch.manual_seed(0)
        assert after == torch.rand(1).item()
        np.testing.assert_array_equal(first.transform(rows, CPU), self.made(shape, share)[1].transform(rows, CPU))

    def test_state_and_back(self, shape, share):
        rows, learner = self.made(shape, share)
        restored = Hinted(base="pca")
        restored.restore({name: value.copy() for name, value in learner.state().items()})
        np.testing.assert_array_equal(restored.transform(rows, CPU), learner.transform(rows, CPU))


@pytest.mark.parametrize(
    "forged",
    [
        {"rest": np.array(5)},
        {"rest": np.array(-1)},
        {"mean": np.zeros(3)},
        {"turn": np.zeros(4)},
        {"turn": np.zeros((4, 3))},
        {"hinted": np.array(-1)},
        {"hinted": np.array(3)},
        {"dim": np.array(9)},
        {"shape": np.array([11])},
    ],
    ids=str,
)
def test_a_forged_state_is_refused(forged):
    rows, label = hidden_class(300)
    state = fitted(rows, told_of(label), share=0.5, epochs=1).state() | forged
    with pytest.raises((ValueError, InputError)):
        Hinted(base="pca").restore(state)


def test_batches_that_end_with_one_row():
    """Batch norm has no spread of one row."""
    rng = np.random.default_rng(0)
    rows, label = rng.standard_normal((257, 1, 8, 8)).astype(np.float32), rng.integers(0, 2, 257)
    learner = fitted(rows, told_of(label), share=0.5, epochs=1)
    assert np.isfinite(learner.transform(rows, CPU)).all()


class TestAround:
    def test_takes_name_and_epochs(self):
        assert (Hinted.around(PCA()).base, Hinted.around(make("autoencoder", epochs=3)).epochs) == ("pca", 3)
        assert Hinted.around(PCA(), 4.0).bytes_per_row == 4.0
        own = Hinted(share=0.5)
        assert Hinted.around(own) is own

    def test_a_learner_with_settings_of_its_own_is_refused(self):
        with pytest.raises(InputError, match=r"this 'nat' has settings of its own. Give learner='nat'"):
            Hinted.around(NAT(rate=0.5))

    @pytest.mark.parametrize("name", ["cells", "quantiles"])
    def test_values_on_steps_of_their_own_are_refused(self, name):
        X, y = make_table(300)
        with pytest.raises(InputError, match=f"The learner '{name}' gives values on steps.*learn by 'auto', 'pca'"):
            fitted(X.astype(np.float32), told_of(y), base=name)

    def test_cells_with_settings(self):
        with pytest.raises(InputError, match="has settings of its own"):
            Hinted.around(Cells(cells=7))


def test_not_learnt_yet_and_not_exported():
    rows, label = hidden_class(300)
    with pytest.raises(InputError, match="has not learnt yet"):
        Hinted().transform(rows, CPU)
    with pytest.raises(InputError, match="gives no network to export"):
        fitted(rows, told_of(label), share=0.5, epochs=1).module()


def test_it_learns_the_class_and_not_the_noise():
    """A loss that knows the noise finds the same odds from noisy answers as from labels: not odds that are too even."""
    rows, label = hidden_class(4000)
    learner = fitted(rows, told_of(label, 1.0), share=1.0, epochs=10, dim=1)
    truth = fitted(rows, told_of(label, math.inf), share=1.0, epochs=10, dim=1)
    assert right(learner.transform(rows, CPU), label) > right(truth.transform(rows, CPU), label) - 0.03


def test_a_guest_without_hints_learns_as_without_it_and_says_so():
    X, _ = make_table(300)
    with pytest.warns(FedOnceWarning, match="Party 'shop' has no hints: the learner 'hinted' learns as 'auto'"):
        message = Guest("shop", "hinted", 3).learn(X)
    assert (message.learner, message.dim, message.hints, message.note) == ("pca", 3, "", "")


@pytest.mark.parametrize(
    "wrong",
    [
        {"share": "x"},
        {"share": 2},
        {"bytes_per_row": 0},
        {"bytes_per_row": math.nan},
        {"bytes_per_row": "16"},
        {"base": "nope"},
        {"base": "hinted"},
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    X, y = make_table(300)
    hints = publish(y > np.median(y), Hinting(2.0))
    with pytest.raises(InputError, match="parameter of the learner 'hinted' must be"):
        Guest("shop", Hinted(**wrong), 3).learn(X, hints=hints)
