from __future__ import annotations

import json
from dataclasses import replace
from html import escape

import numpy as np
import pytest

from fedonce import Guest
from fedonce.assess.attacked import META, REPORT, UNKNOWN, Attacked, known_of
from fedonce.assess.attacks import Finding
from fedonce.assess.leakage import Leakage
from fedonce.errors import InputError


@pytest.fixture(scope="module")
def message():
    return Guest("shop", "pca", dim=2).learn(np.random.default_rng(0).normal(size=(50, 3)))


def found(column, score, knows=0.0):
    return Finding(
        "some attack", column, "boolean", score, 0.5, low=None if score is None else score - 0.01, knows=knows
    )


READ = Leakage(
    (found("a", 0.99), found("b", 0.97, 0.01), found("c", 0.7), found("d", 0.5), found("e", None)), names=tuple("abcde")
)


def page(folder, attacked, name=REPORT):
    (folder / name).write_text(f'<!doctype html><meta name="{META}" content="{escape(attacked.as_text())}"><p>words')
    return folder / name


def test_verdicts_are_counted_in_a_line(message):
    made = Attacked.of(message, READ, "quick", just_made=True)
    assert made.read == (
        "2 of 5 columns readable (1 of them without knowing a row); 1 partly; 1 not by these attacks; 1 not tried; "
        f"by quick attacks, on {made.made}"
    )
    later = Attacked.of(message, READ, ("numbers and dates", "known rows"))
    assert "by the attacks numbers and dates, known rows, on 20" in later.read
    assert later.lines()["made"] == UNKNOWN["made"]


def test_nothing_that_was_not_tried_is_said_to_be_attacked(message):
    made = Attacked.of(message, Leakage((), names=tuple("ab")), "quick", just_made=True)
    assert made.lines() == {"attacks read": UNKNOWN["attacks read"], "made": f"{made.made}, by its report"}


def test_beside_a_model_with_a_budget_no_figures_are_kept(message):
    kept = Attacked.of(message, READ, "quick", just_made=True).without_figures()
    assert "columns" not in kept.as_text()
    assert kept.lines()["attacks read"].startswith("no figures are kept")
    assert Attacked.of(message, Leakage(()), "quick").without_figures().lines() == UNKNOWN


def test_a_report_counts_for_its_own_message_alone(message, tmp_path):
    made = Attacked.of(message, READ, "all")
    path, file = page(tmp_path, made), tmp_path / "m.fedonce"
    assert Attacked.from_page(path) == made
    assert known_of(message.checksum, file, None) == made.lines()
    other = replace(made, checksum="0" * 64)
    page(tmp_path, other)
    assert known_of(message.checksum, file, None) == UNKNOWN
    with pytest.raises(
        InputError, match=f"about another message, of checksum 000.* this one has checksum {message.checksum}"
    ):
        known_of(message.checksum, file, path)
    path.unlink()
    assert known_of(message.checksum, file, None) == UNKNOWN
    with pytest.raises(InputError, match="cannot be read"):
        known_of(message.checksum, file, path)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", "{}", "[" * 10**5, json.dumps({"checksum": 1, "read": "", "made": ""})],
    ids=["none", "cut", "list", "null", "empty", "deep", "number"],
)
def test_a_page_that_is_no_report_is_none(content, tmp_path):
    (tmp_path / REPORT).write_text(f'<meta name="{META}" content="{escape(content)}">')
    assert Attacked.from_page(tmp_path / REPORT) is None
    assert known_of("0" * 64, tmp_path / "m", None) == UNKNOWN
