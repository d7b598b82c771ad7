from __future__ import annotations

import json

import numpy as np
import pytest

from fedonce import InputError
from fedonce.data.schema import Reading

READING = Reading("id", ("town", "age"), {"age": "number", "town": "category", "label": "category"}, "label")


def write(path, text):
    path.write_text(text)
    return path


def test_columns_are_read_in_their_order_and_as_their_kind(tmp_path):
    path = write(tmp_path / "bank.csv", "age,label,id,town,more\n1,0,07,3,x\n,1,8,4,y\n")
    table = READING.read(path, "bank")
    assert table.names == ("town", "age")
    assert list(table.ids) == ["07", "8"]
    assert list(table.columns[0]) == ["3", "4"]  # numbers by their look, categories since training
    np.testing.assert_array_equal(table.columns[1], [1.0, np.nan])


def test_the_label_comes_last_where_it_is_wanted(tmp_path):
    path = write(tmp_path / "bank.csv", "age,label,id,town\n1,0,7,3\n2,1,8,4\n")
    table = READING.read(path, "bank", with_label=True)
    assert table.names == ("town", "age", "label")
    label, own = table.pop("label")
    assert list(label) == ["0", "1"]
    assert own.names == ("town", "age")
    assert Reading(None, ("age",)).read(path, "bank", with_label=True).names == ("age",)  # a guest has none


def test_rows_to_predict_need_no_label_and_rows_to_evaluate_do(tmp_path):
    path = write(tmp_path / "bank.csv", "age,id,town\n1,7,3\n")
    assert READING.read(path, "bank").n_rows == 1
    with pytest.raises(InputError, match="bank.csv.*'label'"):
        READING.read(path, "bank", with_label=True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("age,id\n1,7\n", r"bank.csv \(party 'bank'\) has no column 'town'"),
        ("age,town\n1,x\n", r"bank.csv \(party 'bank'\) has no id column 'id'"),
        ("age,id,town\nold,7,x\n", "Column 'age' of .*bank.csv.*'bank'"),
    ],
)
def test_a_column_that_vanished_or_changed_its_kind_is_named(tmp_path, text, told):
    with pytest.raises(InputError, match=told):
        READING.read(write(tmp_path / "bank.csv", text), "bank")


@pytest.mark.parametrize("reading", [READING, Reading(None, ("a",)), Reading("id", ())])
def test_json_and_back(reading):
    assert Reading.from_json(json.loads(json.dumps(reading.to_json()))) == reading
