from __future__ import annotations

import json
import math

import pytest

from fedonce import MessageError
from fedonce.privacy import accountants
from fedonce.privacy.events import Gaussian, SampledGaussian
from fedonce.privacy.ledger import EVENTS_LIMIT, NOMINAL, STEPS_LIMIT, Entry, Ledger, from_text, to_text

DELTA = 1e-5
STEP = SampledGaussian(1.5, 0.01, 1)
GOOD = {"what": "PCA", "noise": 2.0, "times": 1}
STEPS = {"what": "train", "noise": 2.0, "rate": 0.1, "steps": 5}


def book(division="moments", nominal=False):
    ledger = Ledger(DELTA, "rdp", division)
    ledger.spend("bank", "train", SampledGaussian(1.5, 0.01, 100), nominal)
    ledger.spend("shop", "PCA", Gaussian(4.0))
    ledger.spend("shop", "radius", Gaussian(8.0, 2))
    ledger.spend("telco", "Random", None)
    return ledger


def test_equal_steps_are_one_line():
    ledger = Ledger(DELTA)
    for _ in range(3):
        ledger.spend("bank", "train", STEP)
        ledger.spend("shop", "train", STEP)
    ledger.spend("bank", "train", SampledGaussian(1.5, 0.01, 7))
    assert ledger.entries == [
        Entry("bank", "train", SampledGaussian(1.5, 0.01, 10)),
        Entry("shop", "train", SampledGaussian(1.5, 0.01, 3)),
    ]


@pytest.mark.parametrize(
    "other",
    [
        ("shop", "train", STEP),
        ("bank", "pretrain", STEP),
        ("bank", "train", SampledGaussian(1.6, 0.01, 1)),
        ("bank", "train", SampledGaussian(1.5, 0.02, 1)),
        ("bank", "train", Gaussian(1.5)),
        ("bank", "train", None),
    ],
)
def test_other_events_are_lines_of_their_own(other):
    ledger = Ledger(DELTA)
    ledger.spend("bank", "train", STEP)
    ledger.spend(*other)
    assert ledger.entries == [Entry("bank", "train", STEP), Entry(*other)]


def test_equal_releases_are_all_counted():
    ledger = Ledger(DELTA, "rdp")
    for _ in range(2):
        ledger.spend("shop", "PCA", Gaussian(4.0))
    assert ledger.events("shop") == [Gaussian(4.0)] * 2
    assert ledger.epsilon() == pytest.approx(accountants.epsilon([Gaussian(4.0, 2)], DELTA, "rdp"))


def test_steps_find_their_line_behind_other_lines():
    ledger = book()
    ledger.spend("bank", "train", STEP)
    assert ledger.events("bank") == [SampledGaussian(1.5, 0.01, 101)]
    assert len(ledger.entries) == 4


def test_events_and_parties():
    ledger = book()
    assert ledger.parties == ("bank", "shop", "telco")
    assert ledger.events("shop") == [Gaussian(4.0), Gaussian(8.0, 2)]
    assert ledger.events("telco") == []
    assert len(ledger.events()) == 3


def test_what_another_party_says_is_included():
    ledger, theirs = book(), [Entry("gym", "PCA", Gaussian(1.0))]
    before = ledger.epsilon()
    ledger.include(theirs)
    assert ledger.parties[-1] == "gym"
    assert ledger.epsilon() > before


def test_the_ledger_s_accountant_and_division_price_it():
    for division in accountants.DIVISIONS:
        ledger = book(division)
        by_party = [ledger.events(party) for party in ledger.parties]
        assert ledger.epsilon() == pytest.approx(accountants.total(by_party, DELTA, "rdp", division))
        assert ledger.epsilon("shop") == pytest.approx(accountants.epsilon(by_party[1], DELTA, "rdp"))
        assert ledger.epsilon("telco") == 0
    assert book("moments").epsilon() < book("simple").epsilon()
    assert Ledger(DELTA).epsilon() == Ledger(DELTA, division="simple").epsilon() == 0


def test_rows_show_each_line_and_the_total():
    ledger = book()
    *lines, total = ledger.rows()
    assert [(row["party"], row["what"]) for row in lines] == [
        ("bank", "train"),
        ("shop", "PCA"),
        ("shop", "radius"),
        ("telco", "Random"),
    ]
    assert [(row["noise"], row["sampling"], row["steps"]) for row in lines] == [
        (1.5, 0.01, 100),
        (4.0, None, 1),
        (8.0, None, 2),
        (None, None, None),
    ]
    # What a party did costs so much together: told once, in its first line.
    assert [row["party alone"] for row in lines] == [ledger.epsilon("bank"), ledger.epsilon("shop"), None, 0.0]
    assert total["party"] == "total"
    assert (total["epsilon"], total["delta"]) == (ledger.epsilon(), DELTA)
    assert "mark" not in total


def test_the_table_shows_each_line_and_the_total():
    ledger = book()
    head, *lines, total = str(ledger).splitlines()
    assert head.split() == ["party", "what", "noise", "sampling", "steps", "party", "alone"]
    assert [line.split()[:2] for line in lines] == [
        ["bank", "train"],
        ["shop", "PCA"],
        ["shop", "radius"],
        ["telco", "Random"],
    ]
    assert lines[0].split()[2:] == ["1.5", "0.01", "100", f"{ledger.epsilon('bank'):.4g}"]
    assert lines[3].split()[2:] == ["-", "-", "-", "0"]
    assert total == f"total: epsilon {ledger.epsilon():.4g} at delta 1e-05, moments, rdp"


def test_what_is_no_guarantee_is_marked():
    ledger = book(nominal=True)
    assert ledger.nominal
    assert ledger.rows()[-1]["mark"] == NOMINAL == "nominal epsilon"
    assert str(ledger).endswith("(nominal epsilon: not a guarantee)")
    assert not book().nominal
    assert "nominal" not in str(book())


def test_no_noise_is_an_infinite_total():
    ledger = book()
    ledger.spend("gym", "PCA", Gaussian(0.0))
    assert ledger.epsilon() == math.inf
    assert "epsilon inf" in str(ledger)


def test_entries_survive_as_text():
    entries = [
        Entry("shop", "PCA: mean", Gaussian(1 / 3, 2)),
        Entry("shop", "NAT", SampledGaussian(0.1 + 0.2, 128 / 60000, 23438)),
        Entry("shop", "Random", None),
        Entry("shop", "früher", SampledGaussian(0.0, 1.0, 1), nominal=True),
        Entry("shop", "none", None, nominal=True),
    ]
    text = to_text(entries)
    assert from_text(text, "shop") == entries
    assert "shop" not in text  # who it is from is known from elsewhere
    assert {entry.party for entry in from_text(text, "gym")} == {"gym"}


def test_the_limits_themselves_are_allowed():
    lines = [{**STEPS, "what": "x" * 100, "rate": 1, "noise": 0}] * EVENTS_LIMIT
    lines[0] = {**lines[0], "steps": STEPS_LIMIT}
    found = from_text(json.dumps(lines), "shop")
    assert len(found) == EVENTS_LIMIT
    assert found[0] == Entry("shop", "x" * 100, SampledGaussian(0.0, 1.0, STEPS_LIMIT))


def test_all_steps_together_have_a_limit():
    lines = [{**STEPS, "steps": STEPS_LIMIT}] * 3
    with pytest.raises(MessageError, match="its events have 6,000,000 steps, and 5,000,000 are the most"):
        from_text(json.dumps(lines), "shop")


HOSTILE = {
    "empty": "",
    "not JSON": "[{]",
    "too deep": "[" * 100_000,
    "not a list": json.dumps(GOOD),
    "a number": "3",
    "empty list": "[]",
    "too many": json.dumps([GOOD] * (EVENTS_LIMIT + 1)),
    "a line that is no mapping": "[[]]",
    "a line that is text": '["what"]',
    "unknown key": json.dumps([GOOD | {"party": "bank"}]),
    "negative noise": json.dumps([GOOD | {"noise": -1.0}]),
    "NaN noise": json.dumps([GOOD | {"noise": math.nan}]),
    "infinite noise": json.dumps([GOOD | {"noise": math.inf}]),
    "noise overflows": '[{"what":"PCA","noise":1e400,"times":1}]',
    "noise as text": json.dumps([GOOD | {"noise": "2"}]),
    "noise as bool": json.dumps([GOOD | {"noise": True}]),
    "noise is null": json.dumps([GOOD | {"noise": None}]),
    "rate 2": json.dumps([STEPS | {"rate": 2}]),
    "negative rate": json.dumps([STEPS | {"rate": -0.1}]),
    "NaN rate": json.dumps([STEPS | {"rate": math.nan}]),
    "rate as bool": json.dumps([STEPS | {"rate": True}]),
    "steps 0": json.dumps([STEPS | {"steps": 0}]),
    "steps as float": json.dumps([STEPS | {"steps": 5.0}]),
    "steps as bool": json.dumps([STEPS | {"steps": True}]),
    "too many steps": json.dumps([STEPS | {"steps": STEPS_LIMIT + 1}]),
    "times 0": json.dumps([GOOD | {"times": 0}]),
    "times as bool": json.dumps([GOOD | {"times": True}]),
    "no times": json.dumps([{"what": "PCA", "noise": 2.0}]),
    "no steps": json.dumps([{"what": "PCA", "noise": 2.0, "rate": 0.1}]),
    "no noise": json.dumps([{"what": "PCA", "rate": 0.1, "steps": 5}]),
    "no what": json.dumps([{"noise": 2.0, "times": 1}]),
    "what too long": json.dumps([GOOD | {"what": "x" * 101}]),
    "what not printable": json.dumps([GOOD | {"what": "PCA\x1b[2J"}]),
    "what with a line break": json.dumps([GOOD | {"what": "PCA\ntotal: epsilon 0"}]),
    "half a surrogate": json.dumps([GOOD | {"what": "\ud800"}]),
    "what as a number": json.dumps([GOOD | {"what": 3}]),
    "nominal as a number": json.dumps([GOOD | {"nominal": 1}]),
    "a bad line after a good one": json.dumps([GOOD, GOOD | {"noise": -1}]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_refused(name):
    with pytest.raises(MessageError, match="party 'shop'") as caught:
        from_text(HOSTILE[name], "shop")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("noise", ["1" + "0" * 400, "1e-200", "1e200", "0.001"])
def test_noise_that_cannot_be_priced_is_refused(noise):
    with pytest.raises(MessageError, match="'shop'"):
        from_text(f'[{{"what":"sum","noise":{noise},"times":1}}]', "shop")


def test_a_nominal_line_stays_nominal():
    ledger = Ledger(1e-5)
    ledger.spend("shop", "training", SampledGaussian(1.0, 0.1, 1), nominal=True)
    ledger.spend("shop", "training", SampledGaussian(1.0, 0.1, 1))
    assert ledger.nominal
    assert ledger.entries[0].event.steps == 2
