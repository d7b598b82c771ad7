"""Hints as a guest takes them: from a file that is not trusted, into a report that says what came of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedonce import Guest
from fedonce.errors import FedOnceWarning, InputError, MessageError
from fedonce.jobs import GuestBudget, GuestJob, HintsFile, Learning, RowNames, TableSource
from fedonce.jobs import hint as hint_job
from fedonce.jobs.hint import Taken
from fedonce.learners.hinted import Hinted
from fedonce.messages import hints
from fedonce.messages.keys import read_private
from tests.jobs.office import done

N = 900
HINT = "host hint bank.csv --id who --label repaid --epsilon 3 --name bank --run spring --secret secret"


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """A bank that has all but fifty of the shop's customers, and labels that hang on two of the shop's columns."""
    folder = tmp_path_factory.mktemp("office")
    rng = np.random.default_rng(3)
    ids = np.array([f"c{i}" for i in range(N)])
    columns = rng.standard_normal((N, 8))
    repaid = np.where(columns[:, 6] + columns[:, 7] > 0, "yes", "no")
    columns[:, :6] *= 5
    pd.DataFrame({"who": ids[: N - 50], "age": columns[: N - 50, 0], "repaid": repaid[: N - 50]}).to_csv(
        folder / "bank.csv", index=False
    )
    shop = pd.DataFrame(columns, columns=[f"c{j}" for j in range(8)]).assign(who=ids)
    shop.to_csv(folder / "shop.csv", index=False)
    for line in ("keys secret secret", "keys secret other", "keys new bank", "keys new shop"):
        done(folder, line)
    done(folder, f"{HINT} --sign bank.key --out signed.fedonce")
    done(folder, f"{HINT} --out plain.fedonce")
    done(folder, f"{HINT} --seal-to shop.pub --out sealed.fedonce")
    return folder


@pytest.fixture(autouse=True)
def there(office, monkeypatch):
    monkeypatch.chdir(office)


def read(path, verify=None, run="spring", guest="shop", key=None):
    return HintsFile(path, verify).read(run, guest, None if key is None else read_private(key))


def learn(out, hints, rows=None, **more):
    learning = Learning("spring", Hinted(base="pca", epochs=2, share=0.5), 2)
    source = TableSource("shop.csv", id="who")
    return GuestJob(source, "shop", out, learning, rows or RowNames("secret"), attack=False, hints=hints, **more).run()


def test_hints_signed_plain_or_sealed_are_the_same():
    made = [read("signed.fedonce", "bank.pub"), read("plain.fedonce"), read("sealed.fedonce", key="shop.key")]
    assert len({each.checksum for each in made}) == 1
    assert made[0].label == "repaid"


def test_a_report_says_what_came_of_hints(tmp_path):
    report = learn(tmp_path / "model", HintsFile("signed.fedonce", "bank.pub"))
    figures = report.as_json()
    assert report.message.leaving.message.learner == "hinted"
    assert figures["hints"] == "made with hints at 'repaid', label epsilon 3 (as the guest states it)"
    hinted = figures["hinted"]
    assert (hinted["label"], hinted["epsilon"], hinted["classes"]) == ("repaid", 3.0, 2)
    assert (hinted["rows"], hinted["hinted_rows"], hinted["values"]) == (N, N - 50, 2)
    assert hinted["hinted_values"] == report.party.learner.hinted_ == 1
    assert report.hints.endswith("1 of 2 values is learnt from hints.")
    assert f"{N - 50} of {N} rows have one; rows without one are fine." in report.hints
    json.dumps(figures)
    again = Guest.load(tmp_path / "model")
    assert again.state.hints == "3.0 repaid"


def test_a_learner_that_takes_no_value_by_hints_says_so(tmp_path):
    learning = Learning("spring", Hinted(base="pca", share=0.0), 2)
    job = GuestJob(TableSource("shop.csv", id="who"), "shop", tmp_path / "model", learning, RowNames("secret"))
    report = replace(job, attack=False, hints=HintsFile("plain.fedonce")).run()
    assert report.as_json()["hinted"]["hinted_values"] == 0
    assert "No value is by hints" in report.hints


def test_sealed_hints_are_judged_by_their_size_before_they_are_opened(monkeypatch):
    size = Path("sealed.fedonce").stat().st_size
    monkeypatch.setattr(hints, "memory_limit", lambda: 4 * size - 1)
    monkeypatch.setattr(hint_job, "unseal", lambda raw, key: pytest.fail("opened"))
    with pytest.raises(
        MessageError, match=r"sealed.fedonce are refused: it has .*, which take .* to read, and the limit is"
    ):
        read("sealed.fedonce", key="shop.key")


def test_a_key_opens_sealed_hints_as_it_opens_agreed_rows(tmp_path):
    rows = RowNames("secret", key="shop.key")
    assert learn(tmp_path / "model", HintsFile("sealed.fedonce"), rows).hinted.hinted_rows == N - 50


def test_rows_known_by_their_places(tmp_path):
    done(tmp_path, f"host hint {Path.cwd()}/bank.csv --label repaid --epsilon 3 --name bank --out hints.fedonce")
    shop = pd.read_csv("shop.csv")
    shop[: N - 50].drop(columns="who").to_csv(tmp_path / "shop.csv", index=False)
    shop.drop(columns="who").to_csv(tmp_path / "longer.csv", index=False)
    learning, hints = (
        Learning("local", Hinted(base="pca", epochs=1, share=0.5), 2),
        HintsFile(tmp_path / "hints.fedonce"),
    )
    job = GuestJob(TableSource(tmp_path / "shop.csv"), "shop", tmp_path / "model", learning, attack=False, hints=hints)
    assert job.run().hinted.hinted_rows == N - 50
    with pytest.raises(MessageError, match=f"they are about {N - 50} rows, and the agreed ones are {N}"):
        replace(job, table=TableSource(tmp_path / "longer.csv"), out=tmp_path / "other").run()


@pytest.mark.parametrize(
    ("rows", "values", "said"),
    [
        (1000, 3, "1,000 of 1,000 rows have one. 3 of 8 values are learnt from hints."),
        (
            199,
            0,
            "199 of 1,000 rows have one; rows without one are fine. No value is by hints: fewer than 200 rows have one.",
        ),
        (
            1000,
            0,
            "No value is by hints: a table uses hints only if you ask for the learner 'hinted', images only if a trial on rows",
        ),
    ],
)
def test_what_became_of_hints_is_said_in_words(rows, values, said):
    assert said in Taken("repaid", 2.0, 2, 1000, rows, 8, values).in_words


def test_without_hints_nothing_is_said_of_them(tmp_path):
    with pytest.warns(FedOnceWarning, match="Party 'shop' has no hints"):
        report = learn(tmp_path / "model", None)
    assert (report.hints, report.as_json()["hinted"], report.as_json()["hints"]) == (None, None, "none")


@pytest.mark.parametrize(
    ("given", "said", "parameters"),
    [
        ({"path": "plain.fedonce", "run": "summer"}, "they belong to run 'spring', this is run 'summer'", ("run",)),
        ({"path": "plain.fedonce", "verify": "bank.pub"}, "they are not signed, and must be", ("verify",)),
        ({"path": "signed.fedonce", "verify": "shop.pub"}, "their signature is not by the key", ("verify",)),
        ({"path": "sealed.fedonce"}, "is sealed; give the private key", ("key",)),
        ({"path": "sealed.fedonce", "key": "bank.key"}, "was sealed to another key", ()),
        ({"path": "nowhere.fedonce"}, "cannot be read: No such file", ()),
        ({"path": "bank.csv"}, "not a file of fedonce's", ()),
        ({"path": "plain.fedonce", "guest": "bank"}, "another than the guest's. Got the guest's own, 'bank'", ()),
    ],
)
def test_hints_that_cannot_be_used_are_refused_in_words(given, said, parameters):
    with pytest.raises(MessageError, match=said) as error:
        read(**given)
    assert error.value.parameters == parameters


@pytest.mark.parametrize("size", [0, 7, 40, 700, 2000, -1])
def test_hints_that_are_cut_short_are_refused(office, tmp_path, size):
    data = (office / "plain.fedonce").read_bytes()
    (tmp_path / "cut.fedonce").write_bytes(data[:size])
    with pytest.raises(MessageError, match="cut short"):
        read(tmp_path / "cut.fedonce")


def test_a_message_is_no_hints(tmp_path):
    with pytest.warns(FedOnceWarning, match="Party 'shop' has no hints"):
        learn(tmp_path / "model", None)
    with pytest.raises(MessageError, match="The hints file is refused: it is a file of another kind: 'message'"):
        read(tmp_path / "model" / "representation.fedonce")


@pytest.mark.parametrize("rows", [RowNames("other"), RowNames(plain_ids=True)])
def test_another_secret_or_none_is_refused_and_nothing_is_written(tmp_path, rows):
    with pytest.raises(MessageError, match="give the same to the guest .secret.") as error:
        learn(tmp_path / "model", HintsFile("plain.fedonce"), rows)
    assert error.value.parameters == ("secret",)
    assert not list(tmp_path.glob("model/*"))


def test_hints_beside_a_budget_or_a_local_epsilon_are_refused():
    source, hints = TableSource("shop.csv", id="who"), HintsFile("plain.fedonce")
    with pytest.raises(InputError, match="with a privacy budget .epsilon., not with both"):
        GuestJob(source, "shop", "model", budget=GuestBudget(epsilon=1.0), hints=hints)
    with pytest.raises(InputError, match="with a local epsilon .local_epsilon., not with both"):
        GuestJob(source, "shop", "model", Learning(local_epsilon=1.0), hints=hints)
