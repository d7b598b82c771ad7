from __future__ import annotations

import pytest

from fedonce import AbsentPartyError, InputError
from fedonce.party.presence import Needed, check_present

TRAINED = {"shop": 0.8, "telco": 1.0}


@pytest.mark.parametrize(
    ("now", "needed", "less"),
    [
        ({"shop": 0.4, "telco": 0.5}, Needed(), {"shop": 0.39, "telco": 0.5}),
        ({"shop": 0.0, "telco": 0.0}, Needed(min_overlap=0), {"shop": 0.0}),
        ({"telco": 0.5}, Needed(min_guests=1), {"telco": 0.49}),
        ({"shop": 0.1, "telco": 0.3}, Needed(min_guests=1, min_overlap=0.3), {"shop": 0.1, "telco": 0.29}),
    ],
)
def test_just_enough(now, needed, less):
    check_present(TRAINED, now, needed)
    with pytest.raises(AbsentPartyError):
        check_present(TRAINED, less, needed)


@pytest.mark.parametrize("needed", [Needed(min_guests=0), Needed(allow_absent=True)])
def test_nobody_is_needed(needed):
    assert check_present(TRAINED, {}, needed) is None


@pytest.mark.parametrize(
    ("now", "needed", "said"),
    [
        (
            {},
            None,
            "At least 2 guests of the training .shop, telco. must be there, with half of its share .* and 0 are",
        ),
        ({"shop": 0.39, "telco": 1}, None, r"and 1 is; .* 'shop' has 39.0 % of the rows \(80.0 % in training\)\. Ask"),
        ({"shop": 0.8}, None, r"'telco' has sent no message \(100.0 % in training\)\. Ask .*min_guests=1"),
        ({"shop": 0.0}, Needed(min_overlap=0), "'telco' has sent no message"),
        ({"shop": 0.5, "telco": 0.5}, Needed(1, 0.6), "with 60.0 % of the rows or more, and 0 are"),
    ],
)
def test_too_few(now, needed, said):
    with pytest.raises(AbsentPartyError, match=said) as error:
        check_present(TRAINED, now, needed)
    assert "allow_absent" in str(error.value)


def test_reasons_are_told():
    with pytest.raises(AbsentPartyError) as error:
        check_present(TRAINED, {}, None, {"shop": "late", "a.fedonce": "It is damaged."})
    assert "'shop' has sent no message (80.0 % in training): late. " in str(error.value)
    assert "a.fedonce was refused: It is damaged." in str(error.value)


def test_a_host_alone_needs_nobody():
    check_present({}, {})
    with pytest.raises(InputError, match="At least 1 guests .min_guests. .* trained with 0 .the host alone."):
        check_present({}, {}, Needed(1))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"min_guests": -1}, "at least 0"),
        ({"min_overlap": 1.5}, "0 to 1"),
        ({"allow_absent": True, "min_guests": 1}, "not both"),
        ({"allow_absent": True, "min_overlap": 0.1}, "not both"),
    ],
)
def test_what_cannot_be_needed(settings, said):
    with pytest.raises(InputError, match=said):
        Needed(**settings)
