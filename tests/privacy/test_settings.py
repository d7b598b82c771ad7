from __future__ import annotations

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from fedonce import InputError, Privacy
from fedonce.privacy import settings


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epsilon": 0}, "'epsilon' parameter of Privacy must be a number above 0.*Got 0"),
        ({"epsilon": math.nan}, "'epsilon'.*Got nan"),
        ({"epsilon": True}, "'epsilon'.*Got True"),
        ({"delta": 1.0}, "'delta' parameter of Privacy must be a number between 0 and 1.*Got 1.0"),
        ({"accountant": "mine"}, "'accountant'.*pld, rdp, reference.*'mine'"),
        ({"division": "equal"}, "'division'.*moments, simple.*'equal'"),
        ({"categories": ["a"]}, "'categories'.*a dict of columns"),
        ({"clip": 0}, "'clip' parameter of Privacy must be a number above 0.*Got 0"),
        ({"clip": math.inf}, "'clip'.*Got inf"),
        ({"clip": "1"}, "'clip'.*Got '1'"),
    ],
)
def test_what_can_be_nobody_s_budget_is_refused(given, said):
    with pytest.raises(InputError, match=said):
        Privacy(**given)


def test_privacy_is_frozen():
    with pytest.raises(FrozenInstanceError):
        Privacy().epsilon = 1.0


def test_delta_follows_from_the_rows():
    assert Privacy(epsilon=1.0).delta_for(200) == 1 / 2000
    assert Privacy(epsilon=1.0, delta=1e-5).delta_for(200) == 1e-5
    with pytest.raises(InputError, match=r"'delta' parameter of Privacy.*0.005.*allow_large_delta=True.*Got 0.01"):
        Privacy(epsilon=1.0, delta=0.01).delta_for(200)
    assert Privacy(epsilon=1.0, delta=0.01, allow_large_delta=True).delta_for(200) == 0.01


@pytest.mark.parametrize("pairs", [[(0, 1), (2, 3)], np.array([[0, 1], [2, 3]])])
def test_bounds_by_position_become_bounds_by_name(pairs):
    public = Privacy(bounds=pairs).public(["a", "b"])
    assert [public.of(name, 0, "shop") for name in "ab"] == [(0, 1), (2, 3)]
    with pytest.raises(InputError, match="'bounds'.*one pair for each of 3 columns.*2 pairs"):
        Privacy(bounds=pairs).public(["a", "b", "c"])


@pytest.mark.parametrize("given", [{"bounds": {"x": (0, 1)}}, {"categories": {"x": ["n", "s"]}}])
def test_columns_that_are_not_there_are_refused(given):
    (parameter,) = given
    with pytest.raises(InputError, match=f"'{parameter}'.*keyed by columns of the table.*Got 'x'"):
        Privacy(**given).public(["a", "b"])


def test_noise_is_seeded_by_party_for_tests_alone():
    seeded = Privacy(insecure_test_seed=0)
    first, again, other = (seeded.random_of(name).normals(3) for name in ("bank", "bank", "shop"))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not Privacy().random_of("bank").insecure


SHORT = {name: settings.DEFAULTS[name] for name in settings.SHORT_FORMS}


@pytest.mark.parametrize(
    ("own", "short"),
    [
        ({"bounds": [0, 1]}, {"bounds": (0, 1)}),
        ({"target_bounds": range(3)}, {"target_bounds": np.arange(3)}),
        ({"bounds": {"a": (0, 1)}}, {"bounds": {"a": (0, 1)}}),
        ({"accountant": "rdp"}, {"accountant": "pld"}),  # a default says nothing
        ({}, {"delta": 1e-6, "division": "simple"}),
    ],
)
def test_short_forms_fill_in_what_privacy_leaves_open(own, short):
    whole = settings.resolve(Privacy(epsilon=1.0, **own), SHORT | short, "Me")
    for name, value in (short | own).items():
        assert np.array_equal(getattr(whole, name), value)


@pytest.mark.parametrize(
    ("own", "short"),
    [
        ({"bounds": (0, 1)}, {"bounds": (0, 2)}),
        ({"bounds": (0, 1)}, {"bounds": {"a": (0, 1)}}),
        ({"bounds": {"a": np.zeros(2)}}, {"bounds": {"a": np.ones(2)}}),
        ({"categories": {"a": ["x"]}}, {"categories": {"a": ["y"]}}),
    ],
)
def test_two_that_differ_are_refused(own, short):
    (name,) = own
    with pytest.raises(InputError, match=rf"'{name}' parameter of Me is .*privacy=Privacy\({name}=...\) is"):
        settings.resolve(Privacy(epsilon=1.0, **own), SHORT | short, "Me")


def test_whose_parameter_is_wrong_is_told():
    with pytest.raises(InputError, match="'delta' parameter of Me "):
        settings.resolve(Privacy(epsilon=1.0), SHORT | {"delta": 2.0}, "Me")
    with pytest.raises(InputError, match="'delta' parameter of Me must be left out without epsilon"):
        settings.resolve(None, SHORT | {"delta": 0.5}, "Me")
    with pytest.raises(InputError, match="'clip' parameter of Privacy must be left out without epsilon"):
        settings.resolve(Privacy(clip=1.0), SHORT, "Me")
