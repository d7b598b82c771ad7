from __future__ import annotations

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


def test_a_name_that_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError, match="fedonce.nothing"):
        import_module("fedonce.nothing")


def test_the_class_paths_of_jobs_answer():
    pytest.importorskip("nvflare")
    from fedonce.federation.flare import hardening

    for path in [*hardening.GUEST_CLASSES, *hardening.SERVER_CLASSES]:
        module, _, name = path.rpartition(".")
        assert isinstance(getattr(import_module(module), name), type)
