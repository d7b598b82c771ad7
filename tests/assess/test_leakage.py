from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from fedonce.assess import what_leaks
from fedonce.assess.attacks import Finding
from fedonce.assess.leakage import NEVER_SAFE, Leakage
from fedonce.data.table import Table
from fedonce.errors import InputError, MessageError


def found(column, score, knows=0.0, kind="boolean", guess=0.5, attack="some attack", **more):
    return Finding(attack, column, kind, score, guess, low=None if score is None else score - 0.01, knows=knows, **more)


def leakage_of(*findings):
    names = dict.fromkeys(each.column for each in findings if each.column is not None)
    return Leakage(tuple(findings), names=tuple(names))


def test_a_verdict_is_told_by_the_attacker_who_knew_least():
    result = leakage_of(
        found("a", 0.99, 0.75), found("a", 0.95, 0.01), found("a", 0.7), found("b", 0.7), found("b", 0.6, 0.75)
    )
    a, b = result.columns
    assert (a.verdict, a.finding.knows) == ("readable", 0.01)
    assert (b.verdict, b.finding.score) == ("partly", 0.7)
    assert result.worst == pytest.approx(0.98)
    assert [each.score for each in result.rebuilt] == [0.95, 0.7]


def test_lines_show_the_worst_first_and_how_many_more():
    many = [found(f"c{j}", j / 100, kind="number", guess=0.0) for j in range(20)]
    more = [found("a\nname " + "x" * 50, 0.97), Finding("some attack", "same", "number", None, note="one value only")]
    text = leakage_of(*many, *more).lines(limit=3)
    assert text[1].startswith("a?name xxx")
    assert "97.0 %" in text[1]
    assert "R² 0.19" in text[2]
    assert text[4:] == ["and 19 more, read no better", NEVER_SAFE]
    assert any("one value only" in line for line in leakage_of(*many, *more).lines(limit=30))


def test_the_warning_names_five_columns_and_what_to_do():
    bad = [found(f"c{j}", 0.91 + j / 100) for j in range(8)]
    result = replace(leakage_of(*bad), remedy="Send fewer values (dim), or leave the column out (drop).")
    many = "Anyone who holds the message can read columns 'c7', 'c6', 'c5', 'c4', 'c3' and 3 more."
    assert result.warning == f"{many} {result.remedy}"
    assert result.remedies == ("dim", "drop")
    assert (
        "Anyone who also knows 75 % of the rows or more can read column 'c0'."
        in leakage_of(found("c0", 0.99, 0.75)).warning
    )
    assert leakage_of(found("c0", 0.6)).warning is None


def test_a_limit_holds_for_every_attack_and_for_whole_records():
    column, record = found("a", 0.6), found(None, 0.9, kind="record", guess=0.0, attack="whole records")
    leakage_of(column).check(0.3)
    with pytest.raises(MessageError, match=r"\(some attack, none of the rows known\) rebuilds column 'a' to 0.20"):
        leakage_of(column).check(0.1)
    with pytest.raises(MessageError, match="rebuilds whole records to 0.90"):
        leakage_of(column, record).check(0.3)
    with pytest.raises(MessageError, match="column 'few' too few values are known"):
        leakage_of(column, Finding("x", "few", "number", None, note="fewer than 20 known rows")).check(0.9)
    leakage_of(column, found(None, 1.0, kind="row", guess=0.0)).check(0.3)  # that rows differ rebuilds nothing


def test_the_result_as_json_keeps_the_words():
    X = np.random.default_rng(0).standard_normal((500, 3))
    said = json.loads(json.dumps(what_leaks(X[:, :1], Table.of(X), ["known rows"]).as_json()))
    assert [each["verdict"] for each in said["columns"]] == ["readable", "not by these attacks", "not by these attacks"]
    assert said["counts"] == {"readable": 1, "partly": 0, "not by these attacks": 2}
    assert said["meaning"] == NEVER_SAFE


def test_an_unknown_attack_is_refused_with_the_one_that_was_meant():
    with pytest.raises(InputError, match="did you mean 'known rows'"):
        what_leaks(np.zeros((4, 1)), Table.of(np.zeros((4, 1))), ["known row"])
