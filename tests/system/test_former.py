from __future__ import annotations

import pickle
import subprocess
import sys
from importlib import import_module

import pytest

from fedonce.system.former import FORMER


@pytest.mark.parametrize(("old", "new"), FORMER.items())
def test_a_former_name_is_the_same_module(old, new):
    assert import_module(old) is import_module(new)
    assert import_module(new).__spec__.name == new


def test_former_names_as_they_were_documented():
    code = """
from fedonce import alignment
from fedonce.crypto import read_secret
from fedonce.partition import even, views
from fedonce.preparation import Public
import fedonce.partition as partition
assert partition.even is even and even.__module__ == "fedonce.data.partition"
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_names_that_have_moved_answer_where_they_were():
    from fedonce.hostmodels import network, overlap, recipe

    assert network.ByOverlap is overlap.ByOverlap
    assert pickle.loads(b"cfedonce.hostmodels.network\nByOverlap\n.") is overlap.ByOverlap
    for name in ("Recipe", "find_recipe", "PAPER", "TABLES", "IMAGES", "PRIVATE_CLASSES", "PRIVATE_NUMBERS"):
        assert getattr(network, name) is getattr(recipe, name)
    with pytest.raises(ImportError, match="nothing"):
        from fedonce.hostmodels.network import nothing  # noqa: F401


def test_a_name_that_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError, match="fedonce.nothing"):
        import_module("fedonce.nothing")


def test_the_class_paths_of_jobs_answer():
    pytest.importorskip("nvflare")
    from fedonce.federation.flare import hardening

    for path in [*hardening.GUEST_CLASSES, *hardening.SERVER_CLASSES]:
        module, _, name = path.rpartition(".")
        assert isinstance(getattr(import_module(module), name), type)
