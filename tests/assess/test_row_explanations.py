from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from fedonce import Guest, Host, InputError
from fedonce.assess.row_explanations import explain_rows
from fedonce.hostmodels import NetworkModel
from fedonce.hostmodels.blend import BlendModel

N = 240
THEIRS = np.random.default_rng(1).standard_normal((N, 2))


def parties(label, model="linear", **settings):
    """A host with a number, a category and gaps, a guest that has most rows; both trained."""
    rng = np.random.default_rng(0)
    own = pd.DataFrame({"age": rng.standard_normal(N), "city": rng.choice(["Bern", "Genf", "Chur"], N), "idle": 1.0})
    own.loc[::7, "age"] = np.nan
    present = np.arange(N) % 5 > 0
    shop = Guest("shop", "pca", 2, 32)
    shop.learn(THEIRS)
    message = shop.represent(THEIRS[present], present)
    host = Host("bank", "regression" if label == "number" else "classification", model=model, **settings)
    score = own["age"].fillna(0).to_numpy() + (own["city"] == "Bern") + 2 * THEIRS[:, 0] * present
    goal = {"number": 10 + 5 * score, "two": score > 0.3, "three": np.digitize(score, [-0.5, 1])}[label]
    host.aggregate(own, goal, [message])
    return host, own, message


def columns_of(found):
    return np.column_stack([*found.columns.values()])


@pytest.mark.parametrize("model", ["linear", "trees"])
@pytest.mark.parametrize("label", ["two", "three", "number"])
def test_exact_parts_add_up_to_the_prediction(label, model):
    host, own, message = parties(label, model, validate=False, calibrate=label == "two")
    found = explain_rows(host, own, [message])
    outputs = host.outputs(own, [message])
    assert (found.exact, found.how) == (True, "exact")
    assert list(found.parties) == ["bank", "shop"]
    assert list(found.columns) == ["age", "city", "idle"]
    np.testing.assert_allclose(columns_of(found).sum(axis=1), found.parties["bank"], atol=1e-5)
    np.testing.assert_array_equal(found.columns["idle"], 0)
    if label == "number":
        np.testing.assert_allclose(found.explained, outputs)
    else:
        best = outputs.argmax(axis=1)
        logs = np.log(outputs)
        rest = (logs.sum(axis=1) - logs.max(axis=1)) / (outputs.shape[1] - 1)
        np.testing.assert_allclose(found.explained, logs.max(axis=1) - rest, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(found.prediction, host.classes[best])
    for own_class in np.unique(found.prediction) if label != "number" else [...]:
        whole = (found.prediction == own_class if label != "number" else np.ones(N, bool)) & (np.arange(N) % 5 > 0)
        np.testing.assert_allclose(found.rest[whole], found.rest[whole][0], atol=1e-4)  # the same for all rows


def test_what_is_approximate_is_right_where_nothing_but_sums_matters():
    host, own, message = parties("number", LinearRegression(), validate=False)
    found = explain_rows(host, own, [message], background=N)
    assert found.how == "approximate"
    np.testing.assert_allclose(found.rest, found.rest[0], atol=1e-3)  # of a sum nothing is left but the mean
    np.testing.assert_allclose(found.rest.mean(), host.outputs(own, [message]).mean(), atol=1e-2)
    known = own["age"].notna().to_numpy()
    assert np.corrcoef(found.columns["age"][known], own["age"][known])[0, 1] > 0.999


@pytest.mark.parametrize(
    ("model", "how"),
    [
        (NetworkModel(epochs=5), "approximate"),
        (BlendModel(("linear",)), "exact"),  # a blend of one
    ],
    ids=["network", "blend of one"],
)
def test_any_model_tells_which_party_moved_a_prediction(model, how):
    host, own, message = parties("two", model, validate=False)
    found = explain_rows(host, own, [message])
    assert found.how == how
    again = explain_rows(host, own, [message])
    np.testing.assert_array_equal(found.parties["shop"], again.parties["shop"])
    toward_true = np.where(found.prediction, 1, -1) * found.parties["shop"]
    here = np.arange(N) % 5 > 0
    assert np.corrcoef(toward_true[here], THEIRS[here, 0])[0, 1] > 0.8
    assert list(found.as_columns()) == [
        "prediction",
        "explained",
        "moved_by_bank",
        "moved_by_shop",
        "moved_by_bank.age",
        "moved_by_bank.city",
        "moved_by_bank.idle",
        "rest",
        "how",
    ]


def test_a_blend_of_two_is_no_sum_of_parts():
    host, own, message = parties("two", BlendModel(("linear",)), validate=False)
    one = explain_rows(host, own, [message])
    host.model.members_, host.model.weights_ = (*host.model.members_, *host.model.members_), (0.5, 0.5)
    host.model.alone_ = (False, False)
    two = explain_rows(host, own, [message])
    assert (one.how, two.how) == ("exact", "approximate")
    assert np.corrcoef(one.parties["shop"], two.parties["shop"])[0, 1] > 0.5  # chances near 0 are cut off in a blend


def test_of_images_parties_are_told_apart_and_pixels_are_not():
    rng = np.random.default_rng(0)
    pixels = rng.random((60, 64))
    host = Host("bank", epochs=1, shape=(1, 8, 8), validate=False)
    host.aggregate(pixels, np.arange(60) % 2, [])
    found = explain_rows(host, pixels[:5], [])
    assert (list(found.parties), dict(found.columns)) == (["bank"], {})


def test_there_must_be_a_background():
    host, own, message = parties("two", validate=False)
    with pytest.raises(InputError, match="'background'"):
        explain_rows(host, own, [message], background=0)
