from __future__ import annotations

import numpy as np
import pytest

from fedonce import InputError
from fedonce.data.schema import Reading
from fedonce.jobs.weighing import Weighing, column_weights


def test_all_rows_count_alike_by_default():
    assert Weighing().weights(None, np.array([0, 1]), "classification", "bank.csv") is None


def test_a_column_and_classes_are_multiplied():
    label = np.array(["no", "no", "no", "yes"], object)
    given = np.array([1, 2, 0, 4])
    balanced = Weighing("trust", "balanced").weights(given, label, "classification", "bank.csv")
    np.testing.assert_allclose(balanced, given * np.array([4 / 6, 4 / 6, 4 / 6, 2]))
    named = Weighing(None, {"yes": 5}).weights(None, label, "classification", "bank.csv")
    assert named.tolist() == [1, 1, 1, 5]  # classes that are not named count 1


@pytest.mark.parametrize(
    ("label", "classes"),
    [([0, 1], {"1": 3}), ([0.0, 1.0], {"1": 3}), ([False, True], {"True": 3}), ([False, True], {"true": 3})],
)
def test_classes_are_named_as_text(label, classes):
    assert Weighing(None, classes).weights(None, np.array(label), "classification", "x").tolist() == [1, 3]


@pytest.mark.parametrize("classes", ["rare", {"yes": -1}, {"yes": float("nan")}, {"yes": "5"}, {"yes": True}, 5])
def test_weights_of_classes_that_cannot_be_meant(classes):
    with pytest.raises(InputError, match="'class_weight' parameter of HostJob") as error:
        Weighing(None, classes)
    assert error.value.parameters == ("class_weight",)


def test_columns_that_cannot_be_weights():
    for values, said in (
        (np.array(["a", "b"], object), "holds text"),
        (np.array(["2020-01-01"], "datetime64[us]"), "holds dates"),
        (np.array([1.0, np.nan]), "no weight in 1 of 2 rows, first in row 2"),
        (np.array([1.0, -1.0]), "1 of 2 are below 0 or infinite, first in row 2"),
        (np.array([1.0, np.inf]), "1 of 2 are below 0 or infinite"),
        (np.zeros(3), "0 in every row"),
    ):
        with pytest.raises(InputError, match=said) as error:
            column_weights(values, "Column 'trust' of bank.csv")
        assert "Column 'trust' of bank.csv" in str(error.value)
        assert error.value.parameters == ("weight",)
    assert column_weights(np.array([True, False]), "x").tolist() == [1.0, 0.0]


def test_how_rows_count_is_kept_where_they_do():
    plain = Reading("customer", ("age",), {"age": "number"}, "default")
    assert set(plain.to_json()) == {"id", "columns", "types", "label"}  # as written before there were weights
    weighed = Reading("customer", ("age",), {"age": "number"}, "default", "trust", {"yes": 2.0})
    assert Reading.from_json(weighed.to_json()) == weighed
    assert Reading.from_json(plain.to_json()) == plain
