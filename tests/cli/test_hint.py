"""`fedonce host hint`, `guest fit --hints`, and what follows of them, as commands."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.jobs.office import FIT_BANK, FIT_SHOP, SHOP, command, done, make_tables, refused, told

HINT = "host hint bank.csv --id customer --label default --name bank --secret secret --out hints.fedonce"


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    folder = tmp_path_factory.mktemp("office")
    make_tables(folder)
    for line in ("keys secret secret", "keys secret other", "keys new bank", "keys new shop"):
        done(folder, line)
    done(folder, f"{HINT} --epsilon 2 --sign bank.key")
    return folder


@pytest.fixture
def fresh(office, tmp_path):
    """A copy that a test may change."""
    return shutil.copytree(office, tmp_path / "office")


def test_hint_prints_what_leaves_and_what_is_spent(fresh):
    result = command(fresh, f"{HINT} --epsilon 1")
    assert result.code == 0
    for line in (
        "What leaves your premises:",
        "kind hints",
        "label default",
        "label epsilon 1, pure, by randomised response",
        "base rates VISIBLE: about ",
        "Disclosed: Column 'default', 2 classes (no, yes): each row's class by randomised response, label epsilon 1",
        "To: anyone who is given the file.",
        "Cost: 1; sum of label epsilons of 'default': 3; of all labels: 3, 8 at most.",
        "The sum holds for each row whose label has not changed",
        "it shows for certain that the label changed, at any epsilon",
        "hints.record (private, stays here, holds the key ",
    ):
        assert line in re.sub(" +", " ", result.out)
    again = "Cost: nothing more, the answers are those of before; sum of label epsilons of 'default': 3;"
    assert again in done(fresh, f"{HINT} --epsilon 1")


def test_rows_that_are_added_cost_nothing_and_a_new_class_costs_the_epsilon_unless_classes_are_named(fresh):
    table = fresh / "bank.csv"
    last = table.read_text().splitlines()[-1].replace("c", "late-", 1)
    table.write_text(f"{table.read_text()}{last}\n")
    assert "Cost: nothing more" in done(fresh, f"{HINT} --epsilon 2")
    assert "Cost: nothing more" in done(fresh, f"{HINT} --epsilon 2 --classes no,yes")
    assert told(fresh, f"{HINT} --epsilon 2 --classes no,unknown,yes")["spent"] == 4.0


def test_a_record_that_is_begun_is_told_of(fresh):
    assert "books (begun: keep it, it is private and holds the key " in done(
        fresh, f"{HINT} --epsilon 2 --record books"
    )


def test_from_hints_to_predictions(fresh):
    printed = done(fresh, f"{FIT_SHOP} --hints hints.fedonce --verify bank.pub --no-attack")
    assert "hints made with hints at 'default', label epsilon 2 (as the guest states it)" in re.sub(" +", " ", printed)
    assert (
        "Hints at 'default' (label epsilon 2, 2 classes): 90 of 110 rows have one; rows without one are fine" in printed
    )
    assert "made with hints at 'default', label epsilon 2" in done(fresh, "inspect shop/representation.fedonce")
    printed = done(fresh, f"{FIT_BANK} {SHOP}")
    assert "shop: made with hints at 'default', label epsilon 2 (as the guest states it)" in printed
    shutil.rmtree(fresh / "bank")
    said = told(fresh, f"{FIT_BANK} {SHOP}")
    assert said["hints"] == {"shop": "made with hints at 'default', label epsilon 2 (as the guest states it)"}
    assert (said["ledger"][0]["party"], said["ledger"][0]["what"]) == ("bank", "hints at 'default' (claimed by shop)")
    assert said["ledger"][-1]["epsilon"] == 2.0
    done(fresh, "guest represent shop.csv --model shop --secret secret --out new.fedonce")
    done(fresh, "host predict bank.csv --model bank --guest new.fedonce --secret secret --out out.csv")
    assert (fresh / "out.csv").exists()


def test_without_hints_no_ledger_is_told(fresh):
    done(fresh, f"{FIT_SHOP} --no-attack")
    said = told(fresh, f"{FIT_BANK} {SHOP}")
    assert (said["hints"], said["ledger"]) == ({}, None)


def test_hints_for_agreed_rows_have_no_ids(fresh):
    bank = "align request bank.csv --id customer --name bank --run local --out bank.request"
    shop = "align respond shop.csv --id who --name shop --request bank.request --out shop.response"
    finish = "align finish bank.csv --id customer --state bank.request.state --response shop.response --out agreed"
    for line in (bank, shop, finish):
        done(fresh, line)
    line = "host hint bank.csv --id customer --label default --name bank --epsilon 2 --rows agreed/shop.rows"
    said = told(fresh, f"{line} --out for-shop.fedonce")
    assert (said["rows"], said["ids"]) == (90, "none: rows are in an agreed order")
    assert said["cost"] == 0.0  # the answers of before
    fit = "guest fit shop.csv --id who --name shop --out shop --rows agreed/shop.rows --no-attack"
    assert told(fresh, f"{fit} --hints for-shop.fedonce")["hinted"]["hinted_rows"] == 90


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ("--epsilon 0", 3, ["must be a number from 0.01 to 20", "Got 0.0"]),
        ("", 3, ["Give the label epsilon", "(--proxy)", "(--epsilon)"]),
        ("--epsilon inf", 3, ["has a proxy", "Got inf"]),
        ("--epsilon 2 --proxy other", 3, "Give one of the two."),
        ("--epsilon 6.5", 5, ["add up to 8.5", "hints.record is 8", "(--limit)"]),
        ("--epsilon 2 --edges 1,x", 3, "--edges must be numbers with commas, like 10,20,30. Got '1,x'"),
        ("--epsilon 2 --edges 1,2", 3, ["are no numbers", "(--edges)"]),
        ("--epsilon 2 --limit 0", 3, ["a number above 0", "(--limit)"]),
        ("--epsilon 2 --plain-ids", 3, "Give a secret (--secret), plain ids (--plain-ids) or hashes"),
    ],
)
def test_what_is_not_published(fresh, more, code, said):
    before = (fresh / "hints.record").read_bytes(), (fresh / "hints.fedonce").read_bytes()
    refused(fresh, code, said, f"{HINT} {more}")
    assert before == ((fresh / "hints.record").read_bytes(), (fresh / "hints.fedonce").read_bytes())


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ("--hints hints.fedonce --run summer", 4, ["belong to run 'local', this is run 'summer'", "(--run)"]),
        ("--hints hints.fedonce --verify shop.pub", 4, ["their signature is not by the key", "(--verify)"]),
        ("--hints plain.fedonce --verify bank.pub", 4, ["they are not signed", "(--verify)"]),
        ("--hints sealed.fedonce", 4, "give the private key that it was sealed to (--key)"),
        ("--hints hints.record", 4, "it is not a fedonce hints file, or it is cut short"),
        ("--hints nowhere", 4, "cannot be read"),
        ("--verify bank.pub", 3, "--verify is for hints of the host"),
        ("--hints hints.fedonce --epsilon 2", 3, "Learn with hints (--hints), or with a privacy budget (--epsilon)"),
        ("--hints hints.fedonce --local-epsilon 2", 3, "a local epsilon (--local-epsilon)"),
        (
            "--hints hints.fedonce --protect cells:20",
            3,
            [
                "Learn with hints (--hints), or with a protection (--protect), not with both",
                "Leave out one of the two.",
            ],
        ),
        (
            "--hints hints.fedonce --learner cells",
            3,
            "(--hints), or with the learner 'cells' (--learner), not with both",
        ),
        ("--hints hints.fedonce --learner quantiles", 3, "or with the learner 'quantiles' (--learner)"),
        (
            "--hints hints.fedonce --learner autoencoder --learner-option rate=0.1",
            3,
            "settings of its own",
        ),
    ],
)
def test_hints_that_are_not_taken(fresh, more, code, said):
    done(fresh, f"{HINT.replace('hints.fedonce', 'plain.fedonce')} --epsilon 2")
    done(fresh, f"{HINT.replace('hints.fedonce', 'sealed.fedonce')} --epsilon 2 --seal-to shop.pub")
    refused(fresh, code, said, f"{FIT_SHOP} {more}")
    assert not (fresh / "shop").exists()


def test_another_secret_is_told_of(fresh):
    line = FIT_SHOP.replace("--secret secret", "--secret other")
    refused(fresh, 4, "give the same to the guest (--secret)", f"{line} --hints hints.fedonce")
