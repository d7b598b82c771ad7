from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedonce.errors import FedOnceWarning, InputError, MessageError
from fedonce.jobs import GuestJob, LeakageJob, Learning, RowNames, TableSource
from fedonce.jobs.guest import MESSAGE
from fedonce.messages.keys import new_secret


@pytest.fixture
def folder(tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    n = 600
    flags = rng.random(n) < 0.4
    table = pd.DataFrame({"who": [f"C-{k:05d}" for k in rng.permutation(5000)[:n]], "spent": rng.lognormal(size=n)})
    table["visits"], table["card"] = rng.poisson(5, n), np.where(flags, "yes", "no")
    table.to_csv("shop.csv", index=False)
    new_secret("secret")
    return tmp_path


@pytest.fixture
def source(folder):
    return TableSource("shop.csv", "who")


def fitted(source, out, seed=0, **names):
    rows = RowNames(**names)
    GuestJob(source, "shop", out, Learning(dim=4, learner="pca", seed=seed), rows, attack=False).run()
    return f"{out}/{MESSAGE}"


def test_a_message_is_attacked_by_its_ids_and_the_table(source):
    report = LeakageJob(fitted(source, "model", secret="secret"), source, RowNames("secret"), attacks="quick").run()
    verdicts = {each.column: each for each in report.leakage.columns}
    assert verdicts["card"].verdict == "readable"
    assert verdicts["card"].finding.knows == 0
    assert report.rows == 600
    assert report.as_json()["counts"]["readable"] >= 1


def test_hashes_without_a_key_are_told_and_two_messages_are_linked(source):
    first, second = (fitted(source, out, seed, unkeyed_ids=True) for seed, out in enumerate("ab"))
    found = LeakageJob(first, source, attacks=["guessing ids"]).run().leakage
    assert [each.score for each in found.findings] == [1.0]
    linked = LeakageJob(first, source, second=second, attacks=["linking"]).run().leakage
    assert max(each.low for each in linked.findings) > 0.3  # rows with the same values cannot be told apart
    assert LeakageJob(first, source, attacks=["linking"]).run().leakage.untried == {"linking": ("second",)}


def test_a_limit_refuses_and_the_page_says_what_was_found(source, folder):
    message = fitted(source, "model", secret="secret")
    job = LeakageJob(message, source, RowNames("secret"), attacks="quick", html="leakage.html")
    with pytest.raises(MessageError, match="refused: an attack"):
        replace(job, refuse_above=0.5).run()
    assert not (folder / "leakage.html").exists()
    job.run()
    page = (folder / "leakage.html").read_text()
    for text in ("readable", "card", "does not mean safe", "yes/no columns"):
        assert text in page


def test_a_guest_writes_nothing_above_its_limit(source, folder):
    job = GuestJob(source, "shop", "model", Learning(dim=4, learner="pca"), RowNames("secret"), refuse_above=0.5)
    with pytest.raises(MessageError, match="refuse_above"):
        job.run()
    assert not (folder / "model" / MESSAGE).exists()
    assert replace(job, refuse_above=1.0).run().leakage.worst > 0.9
    with pytest.raises(InputError, match="refuse_above"):
        replace(job, attack=False)


def test_what_does_not_fit_is_refused(source, folder):
    message = fitted(source, "model", secret="secret")
    with pytest.raises(MessageError, match="secret"):
        LeakageJob(message, source).run()
    pd.DataFrame({"who": ["x", "y"], "spent": [1.0, 2.0]}).to_csv("other.csv", index=False)
    with pytest.raises(MessageError, match="none of the rows"):
        LeakageJob(message, TableSource("other.csv", "who"), RowNames("secret")).run()
    with pytest.raises(InputError, match="did you mean 'known rows'"):
        LeakageJob(message, source, attacks=["known row"])


def test_a_table_that_lacks_rows_of_the_message_is_warned_of(source, folder):
    message = fitted(source, "model", secret="secret")
    pd.read_csv("shop.csv").head(500).to_csv("part.csv", index=False)
    job = LeakageJob(message, TableSource("part.csv", "who"), RowNames("secret"), attacks=["yes/no columns"])
    with pytest.warns(FedOnceWarning, match="100 of the message's 600 rows are not in part.csv"):
        assert job.run().rows == 500
