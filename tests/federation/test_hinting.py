"""Hints in a federation whose guest answers in this process: from the run file to the record of both sides."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from fedonce import Hinting
from fedonce.errors import BudgetError, InputError
from fedonce.federation import allowance
from fedonce.federation.facts import Facts
from fedonce.federation.host_run import HostRun
from fedonce.federation.policy import Policy
from fedonce.federation.request import Request
from fedonce.federation.runfile import RunFile
from fedonce.federation.workplace import Refused
from fedonce.jobs.hint_record import HintRecord
from fedonce.messages.hints import Hints
from fedonce.messages.representation import Representation
from fedonce.party.hinting import publish
from fedonce.rows.alignment import AgreedRows
from fedonce.rows.ids import Naming, keyed
from tests.federation.memory import MemoryTransport
from tests.federation.parties import FREELY
from tests.federation.responders import KEYED, SECRET, a_responder, asks, rows_of

N, BOTH = 300, 260
RUN = 'run = "churn"\ntable = "bank.csv"\nid = "customer"\nlabel = "churned"\nguests = ["shop"]\nlearner = "pca"\ndim = 2\n'
RUN += 'host_epochs = 1\nepochs = 1\nsecret = "shop/secret"\n'
YES = "hints = true\n"
IDS = np.array([f"k{i:06d}" for i in range(N)], dtype=object)


class Listening(MemoryTransport):
    """Keeps what was asked; `claims`: what messages then say of hints, whatever was given."""

    def __init__(self, guests, asked, claims=None):
        super().__init__(guests)
        self.asked, self.claims = asked, claims

    def take(self, guest, job, path, limit):
        super().take(guest, job, path, limit)
        if self.claims is not None:
            path.write_bytes(replace(Representation.from_bytes(path.read_bytes()), hints=self.claims).to_bytes())
        return True

    def submit(self, request, token):
        self.asked.append(request)
        return super().submit(request, token)


@pytest.fixture
def bank(tmp_path):
    """The host's folder: a table of which the shop has most rows."""
    (tmp_path / "shop").mkdir()
    responder = a_responder(tmp_path / "shop", N, policy=YES)
    rng = np.random.default_rng(1)
    lines = [
        f"k{i:06d},{rng.normal():.4f},{rng.integers(3)},{rng.integers(2)},{rng.normal():.4f}"
        for i in range(N - BOTH, N + 20)
    ]
    (tmp_path / "bank.csv").write_text("\n".join(["customer,age,churned,before,debt", *lines]) + "\n")
    return Bank(tmp_path, responder)


class Bank:
    """A host and its guest."""

    def __init__(self, folder, responder):
        self.folder, self.responder, self.asked = folder, responder, []
        self.record = HintRecord(folder / "hints.record")

    def fit(self, more, refit=False, responders=None, out="model", claims=None):
        (self.folder / "run.toml").write_text(RUN + more)
        run = RunFile.read(self.folder / "run.toml")
        guests = {"shop": self.responder} if responders is None else responders

        def transport(terms):
            return Listening(guests, self.asked, claims)

        return HostRun(run, self.folder / "kit", self.folder / out, lambda status: None, transport).run(
            "bank", lambda line: None, refit
        )

    def learnings(self):
        return [each for each in self.responder.record.look().entries if each.what == "learn"]

    def events(self, stage):
        lines = (self.folder / "model" / "federation" / "events.jsonl").read_text().splitlines()
        return [event for line in lines if (event := json.loads(line))["stage"] == stage]


def sent(bank):
    (path,) = (bank.folder / "model" / "federation" / "received").glob("*.fedonce")
    return Representation.from_bytes(path.read_bytes())


def test_hints_travel_with_the_request_and_everybody_says_so(bank):
    figures = bank.fit("hints = 2.0\n").as_json()
    hints = Hints.from_bytes(bank.asked[0].hints)
    assert (hints.party, hints.label, hints.epsilon, hints.classes) == ("bank", "churned", 2.0, 3)
    assert (hints.run, hints.n_rows, hints.naming) == ("churn", BOTH + 20, KEYED)
    assert (figures["took part"], figures["refused"]) == (["shop"], {})
    told = figures["hinted"]
    assert (told["label"], told["epsilon"], told["classes"], told["guests"]) == ("churned", 2.0, 3, ["shop"])
    assert (told["cost"], told["spent on label"], told["spent"], told["limit"]) == (2.0, 2.0, 2.0, 8.0)
    assert told["disclosed"][0].endswith("label epsilon 2 (the true class in 78.7 % of answers). To: shop.")
    assert figures["hints"] == {"shop": "made with hints at 'churned', label epsilon 2 (as the guest states it)"}
    assert (figures["ledger"][0]["party"], figures["ledger"][0]["what"]) == ("bank", "hints at 'churned'")
    assert Facts.read(bank.folder / "model").hints == "2.0 churned"
    assert bank.events("hints")[0]["label"] == "churned"
    assert (sent(bank).hints, sent(bank).learner) == ("2.0 churned", "pca")  # a table that did not ask for more
    assert [each.hints for each in bank.learnings()] == ["2.0 churned"]
    shown = allowance.as_json(bank.responder.policy(), bank.responder.record.look())
    assert [each["hints"] for each in shown["last"]] == ["2.0 churned"]
    assert bank.record.look().spent() == 2.0


def test_without_hints_nobody_speaks_of_them(bank):
    figures = bank.fit("").as_json()
    assert (figures["hinted"], figures["hints"], figures["ledger"]) == (None, {}, None)
    assert bank.asked[0].hints is None
    assert [each.hints for each in bank.learnings()] == [None]
    assert not (bank.folder / "hints.record").exists()


def test_a_host_that_starts_again_sends_the_same_bytes(bank):
    bank.fit('hints = 2.0\nmin_guests = 0\ndeadline = "1s"\n', responders={})  # nobody was there
    bank.fit("hints = 2.0\n", refit=True)
    bank.fit("hints = 2.0\n", out="other")
    first, *others = [request.to_bytes() for request in bank.asked]
    assert others
    assert set(others) == {first}
    assert bank.record.look().spent() == 2.0
    assert len(bank.learnings()) == 1  # the same request is answered once


@pytest.mark.parametrize(
    ("given", "claims", "said"),
    [
        (
            "hints = 2.0\n",
            "1.0 churned",
            "hints at 'churned', label epsilon 1, and in this run the host gave it hints at 'churned'",
        ),
        ("hints = 2.0\n", "2.0 debt", "hints at 'debt', label epsilon 2, and in this run"),
        ("hints = 2.0\n", "inf churned", "hints at 'churned', as it is, and in this run"),
        (
            "hints = 2.0\n",
            "",
            "learnt with no hints, and in this run the host gave it hints at 'churned', label epsilon 2",
        ),
        ("", "2.0 churned", "label epsilon 2, and in this run the host gave it no hints; ask shop what it learnt with"),
    ],
)
def test_a_guest_that_claims_other_hints_than_it_was_given_is_named_and_refused(bank, given, claims, said):
    figures = bank.fit(f"{given}min_guests = 0\n", claims=claims).as_json()
    assert said in figures["refused"]["shop"]
    assert (figures["took part"], figures["hints"], figures["ledger"]) == ([], {}, None)


def test_a_guest_that_did_not_say_yes_refuses_in_words_and_it_costs_nothing(bank):
    (bank.folder / "shop" / "policy.toml").write_text(FREELY)
    figures = bank.fit("hints = 2.0\nmin_guests = 0\n").as_json()
    assert "shop does not learn with hints (hints = false)" in figures["refused"]["shop"]
    assert bank.learnings() == []
    assert bank.responder.record.tally().values_per_row == 0
    figures = bank.fit("", refit=True).as_json()
    assert figures["took part"] == ["shop"]


def test_a_policy_that_changes_its_mind_holds_for_models_learnt_before(bank):
    bank.fit("hints = 2.0\n")
    (bank.folder / "shop" / "policy.toml").write_text(FREELY)
    with pytest.raises(Refused, match="does not learn with hints"):
        bank.responder.answer(bank.asked[0])


def test_after_an_alignment_each_guest_has_hints_in_its_agreed_order(bank):
    bank.fit("hints = 2.0\nalign = true\n")
    request = next(each for each in bank.asked if each.what == "learn")
    hints, agreed = Hints.from_bytes(request.hints), AgreedRows.from_bytes(request.rows)
    assert (hints.ids, hints.rows, hints.n_rows) == (None, agreed.digest, BOTH)
    assert bank.learnings()[0].hints == "2.0 churned"
    both = Hints.from_bytes(publish_again(bank))
    keys = {key.tobytes(): answer for key, answer in zip(both.ids, both.answers, strict=True)}
    own = IDS[N - BOTH :]
    by_id = {name: keys[key.tobytes()] for name, key in zip(own, keyed(own, SECRET, "churn"), strict=True)}
    places = agreed.positions(own, SECRET)
    assert [by_id[own[place]] for place in places] == hints.answers.tolist()


def publish_again(bank):
    """Ask without an alignment, by the same record, and return the hints."""
    bank.fit("hints = 2.0\nmin_guests = 0\n", out="plain")
    assert bank.record.look().spent() == 2.0
    return bank.asked[-1].hints


def test_rows_that_are_added_cost_nothing_and_others_have_the_answers_of_before(bank):
    bank.fit("hints = 2.0\n")
    table = bank.folder / "bank.csv"
    table.write_text(table.read_text() + "late1,0.5,1,0,0.1\nlate2,0.5,2,1,0.1\n")
    (bank.folder / "shop" / "policy.toml").write_text(YES + "max_learnings = 5\n")
    told = bank.fit("hints = 2.0\nhints_limit = 2\n", refit=True).as_json()["hinted"]
    assert (told["cost"], told["spent"]) == (0.0, 2.0)
    before, after = (Hints.from_bytes(each.hints) for each in bank.asked)
    said = {key.tobytes(): answer for key, answer in zip(after.ids, after.answers, strict=True)}
    assert len(said) == before.n_rows + 2
    assert [said[key.tobytes()] for key in before.ids] == before.answers.tolist()


def test_another_epsilon_adds_up_and_beyond_the_limit_nobody_is_asked(bank):
    bank.fit("hints = 2.0\nhints_limit = 3\n")
    asked = len(bank.asked)
    with pytest.raises(BudgetError, match=r"add up to 4, and the limit in .*hints.record is 3"):
        bank.fit('[hints]\nepsilon = 2.0\nlabel = "before"\n', out="other")
    assert len(bank.asked) == asked
    assert bank.record.look().spent() == 2.0


def test_classes_by_public_knowledge(bank):
    bank.fit("[hints]\nepsilon = 2.0\nclasses = [0, 1, 2, 3]\n")
    assert Hints.from_bytes(bank.asked[-1].hints).classes == 4
    with pytest.raises(InputError, match=r"labels are none of the classes given, \[0, 1\]"):
        bank.fit("[hints]\nepsilon = 2.0\nclasses = [0, 1]\n", out="other")


def test_numbers_in_bins_and_a_stand_in(bank):
    with pytest.raises(InputError, match="hints at numbers need bins"):
        bank.fit('[hints]\nepsilon = 2.0\nlabel = "debt"\n')
    bank.fit('[hints]\nepsilon = 1.0\nlabel = "debt"\nedges = [-0.5, 0.5]\n')
    hints = Hints.from_bytes(bank.asked[-1].hints)
    assert (hints.label, hints.classes, hints.edges.tolist()) == ("debt", 3, [-0.5, 0.5])
    (bank.folder / "shop" / "policy.toml").write_text(YES + "max_learnings = 5\n")
    figures = bank.fit('[hints]\nlabel = "before"\nproxy = "churn last year"\n', refit=True).as_json()
    assert (figures["hinted"]["label"], figures["hinted"]["epsilon"], figures["hinted"]["spent"]) == (
        "churn last year",
        None,
        1.0,
    )
    assert figures["ledger"][0]["what"] == "hints at 'churn last year', as it is"
    assert [each.hints for each in bank.learnings()] == ["1.0 debt", "inf churn last year"]


# What a guest refuses of a request that is forged.


@pytest.fixture
def responder(tmp_path):
    return a_responder(tmp_path, N, policy=YES)


def hints_of(run="churn", party="bank", ids=IDS):
    label, naming = np.arange(len(ids)) % 3, Naming("keyed", SECRET)
    return publish(label, Hinting(2.0, label="churned"), party=party, run=run, ids=ids, naming=naming).to_bytes()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"hints": b"nonsense"}, "it is not a fedonce hints file"),
        ({"hints": hints_of()[:900]}, "cut short"),
        ({"hints": hints_of(run="other")}, "its hints belong to run 'other', and it is about run 'churn'"),
        ({"hints": hints_of(party="thief")}, "it says that it is from party 'thief'"),
        ({"hints": hints_of(), "local_epsilon": 4.0}, "by which nobody has priced them"),
        ({"hints": hints_of(ids=np.array(["a", "b", "c"], dtype=object))}, "none of their ids is in the guest's table"),
    ],
)
def test_forged_hints_are_refused_and_cost_nothing(responder, settings, said):
    request = Request.from_bytes(asks(**settings).to_bytes())
    with pytest.raises(Refused, match=said):
        responder.answer(request)
    assert responder.record.look().learnings() == []


def test_hints_for_rows_of_another_agreement_are_refused(responder):
    rows = rows_of(responder)
    hints = publish(
        np.arange(N - 1) % 3,
        Hinting(2.0),
        party="bank",
        run="churn",
        ids=IDS[:-1],
        agreed=AgreedRows.from_bytes(rows_of(responder, IDS[:-1])),
    )
    with pytest.raises(Refused, match="not about rows that were agreed with this guest"):
        responder.answer(asks(naming="agreed", rows=rows, hints=hints.to_bytes()))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"learner": "cells"},
            "its hints stand beside the learner 'cells', .* leave one of the two out of the run file",
        ),
        ({"protect": "cells:20"}, "its hints stand beside the protection 'cells:20'"),
    ],
)
def test_what_leaves_no_room_for_hints_is_refused_before_anything_is_learnt(responder, settings, said):
    with pytest.raises(Refused, match=said):
        responder.answer(asks(hints=hints_of(), **settings))
    assert responder.record.look().learnings() == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('learners = ["cells", "quantiles"]', "allows cells, quantiles alone, .* Drop hints, or allow 'hinted'"),
        ('budget = "required"', 'with budget = "required": .* Drop one of the two'),
        ("max_local_epsilon = 4.0", "with max_local_epsilon: .* Drop one of the two"),
    ],
)
def test_a_policy_that_allows_hints_and_nothing_that_could_learn_from_them(tmp_path, more, said):
    path = tmp_path / "policy.toml"
    path.write_text(f"hints = false\n{more}\n")
    assert Policy.read(path).hints is False
    path.write_text(f"hints = true\n{more}\n")
    with pytest.raises(InputError, match=f"'hints' must be false, or left out, .*{said}"):
        Policy.read(path)
    path.write_text('hints = true\nlearners = ["cells", "hinted"]\n')
    assert Policy.read(path).hints is True


def test_a_policy_that_bounds_epochs_bounds_those_of_hints():
    request = asks(hints=hints_of())
    policy = Policy(hints=True, max_epochs=50)
    assert "learning with hints may take 100" in policy.refusal(request, ["c0"])
    assert policy.refusal(replace(request, epochs=50), ["c0"]) is None
    assert policy.refusal(asks(), ["c0"]) is None
