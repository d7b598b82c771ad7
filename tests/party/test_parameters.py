from __future__ import annotations

import numpy as np
import pytest

from fedonce import InputError
from fedonce.party.parameters import check_counts, of_guest, refuse_unknown_guests, values


def test_one_value_for_all_or_a_dict_by_guest():
    assert [of_guest(3, "shop", 8), of_guest({"shop": 3}, "shop", 8), of_guest({"shop": 3}, "telco", 8)] == [3, 3, 8]
    assert list(values(3)) == list(values({"shop": 3})) == [3]


def test_somebody_who_is_no_guest_is_refused():
    refuse_unknown_guests({"dim": 2, "epochs": {"shop": 2}}, ["shop"], "Me")
    with pytest.raises(InputError, match=r"'epochs' parameter of Me must be keyed by guests \('shop'\). Got 'bank'"):
        refuse_unknown_guests({"dim": 2, "epochs": {"bank": 2}}, ["shop"], "Me")


@pytest.mark.parametrize("wrong", [0, 1.5, True, "2", {"shop": 2, "telco": -1}])
def test_counts_are_positive_integers(wrong):
    check_counts("dim", {"shop": np.int64(2)}, "Me", optional=False)
    check_counts("epochs", None, "Me", optional=True)
    with pytest.raises(InputError, match="'dim' parameter of Me must be a positive integer. Got"):
        check_counts("dim", wrong, "Me", optional=False)
