from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedonce import FedOnceClassifier, InputError, read_table
from fedonce.data.mistyped import misfits
from fedonce.data.table import Table
from fedonce.errors import FedOnceWarning


def write(path, name, cells):
    pd.DataFrame({"id": range(len(cells)), name: cells}).to_csv(path, index=False)
    return path


@pytest.fixture
def typo(tmp_path):
    """The numbers of 3,001 rows, one of them with a letter in place of a digit, and one missing."""
    cells = [f"{value:.2f}" for value in np.random.default_rng(0).standard_normal(3001)]
    cells[1203], cells[7] = "1.2O", ""
    return write(tmp_path / "bank.csv", "income", cells)


def test_one_typo_among_numbers_is_told(typo):
    with pytest.warns(FedOnceWarning) as told:
        table = read_table(typo, id="id", party="bank")
    assert table.kinds == {"income": "category"}
    (said,) = [str(each.message) for each in told]
    assert said.startswith(
        f"column 'income' of {typo} (party 'bank'): 2,999 of 3,000 values are numbers; row 1,204 is '1.2O', "
    )
    assert "Give the column its type (types), as in income=number" in said


def test_forced_it_is_an_error_and_meant_it_is_text(typo):
    with pytest.raises(InputError, match="'income' of .* has '1.2O' in row 1204, and must hold numbers"):
        read_table(typo, id="id", types={"income": "number"})
    assert read_table(typo, id="id", types={"income": "category"}).kinds == {"income": "category"}
    typo.write_text(typo.read_text().replace("1.2O", ""))
    assert np.isnan(read_table(typo, id="id").columns[0]).sum() == 2


@pytest.mark.parametrize(("good", "kind"), [("2024-05-0{}", "dates"), ("TRUE", "booleans"), ("-{}e3", "numbers")])
@pytest.mark.parametrize("position", [0, 40, 99])
def test_other_kinds_and_wherever_it_is(tmp_path, good, kind, position):
    cells = [good.format(j % 9 + 1) for j in range(100)]
    cells[position] = "?" * 50 + "\x1b"
    with pytest.warns(FedOnceWarning, match=f"99 of 100 values are {kind}; row {position + 1} is '[?]{{20}}...', so"):
        read_table(write(tmp_path / "a.csv", "x{0}", cells), id="id")


@pytest.mark.parametrize(
    "cells", [["1", "2", "north"] * 30, ["a"] * 50, ["C-1", "7"] * 20, [f"A{j}" for j in range(5000)]]
)
def test_what_is_text_is_text(tmp_path, cells):
    assert read_table(write(tmp_path / "a.csv", "code", cells), id="id").kinds == {"code": "category"}


def test_most_texts_are_asked_only_where_some_of_them_look_like_it():
    many = [str(j) for j in range(5000)]
    kind, bad = misfits([*many, "x"], np.ones(5001, np.int64))
    assert (kind, bad.sum(), bad[-1]) == ("number", 1, True)
    assert misfits(many, np.ones(5000, np.int64)) is None


def test_columns_of_objects_are_told_too():
    column = [1.5] * 40 + ["n/a"]
    with pytest.warns(FedOnceWarning, match="column 'a': 40 of 41 values are numbers; row 41 is 'n/a'"):
        Table.of(pd.DataFrame({"a": column, "b": range(41)}))
    with pytest.warns(FedOnceWarning, match="column 0: 40 of 41 values are numbers"):
        Table.of(np.array([[value] for value in column], dtype=object))
    postcodes = pd.DataFrame({"a": ["8001", "8002"] * 20, "b": pd.Categorical(["1"] * 39 + ["x"])})
    assert Table.of(postcodes).kinds == {"a": "category", "b": "category"}
    frame = pd.DataFrame({"a": ["1"] * 60 + ["x"] * 2, "b": np.arange(62.0)})
    with pytest.warns(FedOnceWarning, match="60 of 62 values are numbers"):
        FedOnceClassifier({"bank": ["b"], "shop": ["a"]}, host_epochs=1).fit(frame, np.arange(62) % 2)
