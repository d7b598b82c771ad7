from __future__ import annotations

import pytest

from fedonce import FedOnceError, InputError, MessageError
from fedonce.errors import parameter_error


@pytest.mark.parametrize("kind", [InputError, MessageError])
def test_ours_are_standard_errors_too(kind):
    assert issubclass(kind, FedOnceError)
    assert issubclass(kind, ValueError)


def test_one_grammar():
    error = parameter_error("FedOnceClassifier", "dim", "a positive integer", 0)
    assert str(error) == "The 'dim' parameter of FedOnceClassifier must be a positive integer. Got 0 instead."
