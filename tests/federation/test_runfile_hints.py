"""Hints in a run file: how they are written, and what they exclude."""

from __future__ import annotations

import math

import pytest

from fedonce import Hinting
from fedonce.errors import InputError
from fedonce.federation.runfile import RunFile

SHORT = (
    'run = "churn"\ntable = "bank.csv"\nid = "customer"\nlabel = "churned"\nguests = ["shop", "telco"]\nsecret = "s"\n'
)
BUDGET = 'task = "classification"\n[budget]\nepsilon = 4.0\ndelta = 1e-5\npublic = "p.toml"\n'


@pytest.fixture
def read(tmp_path):
    def of(text):
        path = tmp_path / "run.toml"
        path.write_text(SHORT + text, encoding="utf-8")
        return RunFile.read(path)

    return of


def test_a_number_is_the_epsilon_of_the_run_s_own_label(read, tmp_path):
    wanted = read("hints = 2\n").hints
    assert (wanted.label, wanted.hinting) == ("churned", Hinting(2.0, label="churned"))
    assert (wanted.record, wanted.limit) == (tmp_path / "hints.record", None)
    assert read("").hints is None


def test_a_section_says_more(read, tmp_path):
    more = (
        'hints_record = "books/hints"\nhints_limit = 4\n[hints]\nepsilon = 1.5\nlabel = "arrears"\nedges = [10, 50.5]\n'
    )
    wanted = read(more).hints
    assert (wanted.label, wanted.hinting) == ("arrears", Hinting(1.5, (10.0, 50.5), "arrears"))
    assert (wanted.record, wanted.limit) == (tmp_path / "books" / "hints", 4)
    wanted = read('[hints]\nlabel = "churned_before"\nproxy = "churn last year"\n').hints
    assert (wanted.label, wanted.hinting) == ("churned_before", Hinting(math.inf, label="churn last year"))


@pytest.mark.parametrize(
    ("written", "classes"),
    [
        ('["no", "yes"]', ("no", "yes")),
        ("[0, 2.0, 1]", (0.0, 1.0, 2.0)),
        ("[false, true]", (False, True)),
    ],
)
def test_public_classes(read, written, classes):
    assert read(f"[hints]\nepsilon = 2.0\nclasses = {written}\n").hints.hinting.classes == classes
    assert read("hints = 2.0\n").hints.hinting.classes is None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("hints = 0", "'hints' must be an epsilon, a number from 0.01 to 20"),
        ("hints = inf", "'hints' must be an epsilon"),
        ("hints = true", "'hints' must be an epsilon"),
        ("hints_limit = 4", "'hints_limit' must be left out, or beside 'hints'"),
        ('hints_record = "x"', "'hints_record' must be left out, or beside 'hints'"),
        ("hints = 2\nhints_limit = 0", "'hints_limit' must be a number above 0"),
        ("[hints]\nepsilon = 51", r"'epsilon' in [hints] must be a number from 0.01 to 20"),
        ("[hints]\nepsilom = 1", "[hints] has no key 'epsilom'"),
        ("[hints]\nedges = [1, 2]", "[hints]: Give the label epsilon with which"),
        ('[hints]\nlabel = "before"\nepsilon = 1\nproxy = "x"', "[hints]: Give the label epsilon with which"),
        ('[hints]\nproxy = "x"', "'label' in [hints] must be another column than the run's own 'label'"),
        ('[hints]\nepsilon = 1\nlabel = "customer"', "'label' in [hints] must be another column than 'id'"),
        (
            "[hints]\nepsilon = 1\nedges = [2, 1]",
            "[hints]: The 'edges' parameter of Hinting must be 1 to 255",
        ),
        ("[hints]\nepsilon = 1\nedges = [nan]", "The 'edges' parameter of Hinting must be"),
        ("[hints]\nepsilon = 1\nedges = 5", "'edges' in [hints] must be a list. Got 5."),
        (
            "[hints]\nepsilon = 1\nclasses = ['no']",
            "The 'classes' parameter of Hinting must be 2 to 256",
        ),
        ("[hints]\nepsilon = 1\nclasses = ['no', 1]", "The 'classes' parameter of Hinting must be"),
        ("[hints]\nepsilon = 1\nclasses = ['no', '']", "The 'classes' parameter of Hinting must be"),
        ("[hints]\nepsilon = 1\nclasses = [1, 1.0]", "The 'classes' parameter of Hinting must be"),
        ("[hints]\nepsilon = 1\nclasses = [1, nan]", "The 'classes' parameter of Hinting must be"),
        ("[hints]\nepsilon = 1\nnew_rows = true", "[hints] has no key 'new_rows'"),
        ("[hints]\nepsilon = 1\nclasses = 'no'", "'classes' in [hints] must be a list. Got 'no'."),
        ("[hints]\nepsilon = 1\nclasses = [0, 1]\nedges = [1]", "in bins (edges); leave out one of the two"),
        ("[hints]\nepsilon = 1\nseed = 2", "'seed' stands in [hints]; put it above"),
        ('hints = 2\ntask = "regression"', "there are hints at numbers, and no bins"),
        ("hints = 2\nrounds = 5", "there are hints, and rounds; what guests learn from hints is not priced there"),
        ("hints = 2\n" + BUDGET, "there are hints, and [budget]"),
        ("hints = 2\nlocal_epsilon = 2", "there are hints, and a local epsilon"),
        ("hints = 2\n[guest.shop]\nlocal_epsilon = 2", "there are hints, and a local epsilon"),
        ('hints = 2\nalign = true\nreveal = "host"', 'there are hints, and reveal = "host"'),
        ('hints = 2\nlearner = "cells"', "there are hints, and the learner 'cells'"),
        ('hints = 2\n[guest.telco]\nlearner = "quantiles"', "Take out the hints, or the learner 'quantiles'."),
        ('hints = 2\nprotect = "cells:20"', "there are hints, and the protection 'cells:20' (protect), whose values"),
        ('hints = 2\n[guest.shop]\nprotect = "cells:9"', "Take out the hints, or the protection 'cells:9' (protect)."),
        ('hints = 2\nlearner = "celss"', "names a learner that does not exist, 'celss'"),
    ],
)
def test_hints_that_cannot_be_meant(read, more, said):
    with pytest.raises(InputError) as caught:
        read(more)
    assert said in str(caught.value)
