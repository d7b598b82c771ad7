from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from fedonce import FedOnceError, InputError, MessageError
from fedonce.errors import parameter_error, quoted, shown


@pytest.mark.parametrize("kind", [InputError, MessageError])
def test_ours_are_standard_errors_too(kind):
    assert issubclass(kind, FedOnceError)
    assert issubclass(kind, ValueError)


def test_one_grammar():
    error = parameter_error("FedOnceClassifier", "dim", "a positive integer", 0)
    assert str(error) == "The 'dim' parameter of FedOnceClassifier must be a positive integer. Got 0 instead."


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "None"),
        (2.5, "2.5"),
        ("nat", "'nat'"),
        (("a", 1), "('a', 1)"),
        ({"shop": 0}, "{'shop': 0}"),
        (int, "<class 'int'>"),
        (np.float64(3), "np.float64(3.0)"),
        ([1, 2, 3, 4, 5, 6], "a list of length 6"),
        ([[1, 2]], "a list of length 1"),
        ({"a": [1]}, "a dict of length 1"),
        ("x" * 90, "a str of length 90"),
        (np.zeros((3, 2)), "a ndarray of shape (3, 2)"),
        (np.zeros(2), "a ndarray of shape (2,)"),
        (pd.DataFrame({"a": [1]}), "a DataFrame of shape (1, 1)"),
        (object(), "an object"),
        (sparse.eye_array(4), "a dia_array of shape (4, 4)"),
    ],
)
def test_values_that_may_hold_rows_are_shown_by_type_and_size(value, said):
    assert shown(value) == said
    assert str(parameter_error("Host", "run", "a name", value)).endswith(f"Got {said} instead.")


def test_a_cell_is_cut_short_and_printable():
    assert quoted("1.2O") == "'1.2O'"
    assert quoted("\x1b[2J" + "x" * 50) == "'\\x1b[2J" + "x" * 16 + "...'"
