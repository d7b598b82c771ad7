"""What rows held back say: scores, standard errors, and the gain over the host alone."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedonce.hostmodels.base import Examples, Held, Split
from fedonce.hostmodels.linear import LinearModel
from fedonce.hostmodels.validation import MOST_LEARNT, Score, Validation, hold_out, judge

CPU = torch.device("cpu")


def examples(target, weight=None):
    n = len(target)
    rng = np.random.default_rng(0)
    own, values = (rng.standard_normal((n, width)).astype(np.float32) for width in (2, 3))
    return Examples(own, values, np.ones((n, 1), np.float32), np.asarray(target), weight)


def held(outputs):
    return Held((Split(np.zeros(0, np.intp), np.arange(len(outputs))),), np.asarray(outputs, np.float32))


def logits(right, target):
    """Outputs that are right where `right` says so."""
    said = np.where(right, target, 1 - target)
    return np.eye(2)[said] * 4


def test_accuracy_and_gain_with_standard_errors():
    target = np.arange(100) % 2
    joint, alone = np.arange(100) < 90, np.arange(100) < 80
    found = judge(held(logits(joint, target)), held(logits(alone, target)), examples(target), 1.0, "trees")
    assert (found.metric, found.rows, found.chosen) == ("accuracy", 100, "trees")
    assert (found.joint.value, found.alone.value, found.gain.value) == pytest.approx((0.9, 0.8, 0.1))
    assert found.joint.error == pytest.approx(np.sqrt(0.9 * 0.1 / 100))
    assert found.gain.error == pytest.approx(
        np.sqrt(0.1 * 0.9 / 100)
    )  # of the differences: both are asked the same rows
    assert set(found.more) == {
        "calibration error",
        "calibration error, calibrated",
        "area under the curve",
        "average precision of the rarer class",
    }
    assert str(found) == "accuracy 0.9 ± 0.03 on 100 rows held back; the host alone 0.8 ± 0.04; better by 0.1 ± 0.03"


def test_numbers_are_in_the_unit_of_the_labels_and_less_is_better():
    target = np.random.default_rng(0).standard_normal(400)
    joint, alone = held((target + 0.1)[:, None]), held((target + 0.3 * np.tile([1, -1], 200))[:, None])
    found = judge(joint, alone, examples(target), 50.0)
    assert (found.metric, found.more) == ("rmse", {})
    assert (found.joint.value, found.alone.value, found.gain.value) == pytest.approx((5, 15, 10), rel=1e-4)
    assert judge(alone, joint, examples(target), 50.0).gain.value == pytest.approx(-10, rel=1e-4)
    perfect = judge(held(np.zeros((5, 1))), None, examples(np.zeros(5)), 2.0)
    assert (perfect.joint, perfect.gain) == (Score(0.0, 0.0), None)


def test_without_guests_there_is_no_gain():
    target = np.arange(10) % 2
    found = judge(held(logits(target >= 0, target)), None, examples(target), 1.0)
    assert found.alone is None
    assert found.gain is None
    assert str(found) == "accuracy 1 ± 0 on 10 rows held back"


def test_rows_count_by_their_weight_and_alike_where_none_has_one():
    target = np.arange(100) % 2
    right = np.arange(100) < 90
    outputs = held(logits(right, target))
    weight = np.where(right, 0.0, 10.0)
    assert judge(outputs, None, examples(target, weight), 1.0).joint.value == 0
    assert judge(outputs, None, examples(target, np.zeros(100)), 1.0).joint.value == pytest.approx(0.9)
    one_class = examples(target, 2.0 * target)  # the other class does not count: there is no curve
    assert "area under the curve" not in judge(outputs, None, one_class, 1.0).more


@pytest.mark.parametrize("n", [1, 2, 3])
def test_very_few_rows(n):
    target = np.arange(n) % 2
    assert judge(held(logits(target >= 0, target)), None, examples(target), 1.0).joint.value == 1
    assert judge(held(np.ones((n, 1))), None, examples(np.zeros(n)), 1.0).joint.value == 1


def test_it_comes_back_from_a_file():
    target = np.arange(40) % 2
    outputs = held(logits(np.arange(40) < 30, target))
    for alone in (outputs, None):
        found = judge(outputs, alone, examples(target), 1.0, "linear")
        assert Validation.from_json(json.loads(json.dumps(found.as_json))) == found


@pytest.mark.parametrize(
    "forged",
    [
        {"joint": None},
        {"joint": {"value": "high", "error": 0.1}},
        {"joint": [1, 2]},
        {"gain": {"value": 1}},
        {"more": {"calibration error": "low"}},
        {"more": [1]},
        {"rows": "many"},
    ],
)
def test_a_forged_file_is_refused(forged):
    target = np.arange(40) % 2
    content = judge(held(logits(target >= 0, target)), None, examples(target), 1.0).as_json
    with pytest.raises((ValueError, TypeError, LookupError, AttributeError)):
        Validation.from_json(content | forged)


def test_a_model_is_trained_without_the_rows_that_it_is_asked():
    seen = []

    class Watched(LinearModel):
        def fit_watched(self, examples, held, dims, n_outputs, rng, device):
            seen.append((len(examples.target), len(held.target)))
            return super().fit_watched(examples, held, dims, n_outputs, rng, device)

    given = examples(np.arange(90) % 2)
    untouched = Watched()
    found = hold_out(untouched, given, (3,), 2, np.random.default_rng(0), CPU)
    assert seen == [(60, 30)]  # one split: each is a training more
    assert untouched.weights_ is None
    assert found.outputs.shape == (30, 2)
    assert len(set(found.rows.tolist())) == 30
    again = hold_out(untouched, given.alone, (), 2, np.random.default_rng(0), CPU, found.splits)
    np.testing.assert_array_equal(again.rows, found.rows)


def test_of_very_many_rows_some_are_learnt_from():
    given = examples(np.arange(14_000) % 2)
    found = hold_out(LinearModel(), given, (3,), 2, np.random.default_rng(0), CPU)
    assert len(found.splits[0].learn) == MOST_LEARNT
    assert len(found.rows) == 2000


def test_a_host_alone_has_its_own_columns():
    given = replace(examples(np.arange(6) % 2), weight=np.ones(6))
    alone = given.alone
    assert (alone.values.shape, alone.present.shape) == ((6, 0), (6, 0))
    assert alone.own is given.own
    assert alone.weight is given.weight
