"""A host's training and predictions over a federation whose guest answers in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from fedonce import AbsentPartyError, InputError
from fedonce.federation.facts import FACTS, FOLDER, Facts
from fedonce.federation.host_run import HostRun, PredictionRun, host_job
from fedonce.federation.runfile import RunFile
from fedonce.jobs import (
    Care,
    EvaluateJob,
    ExplainJob,
    GuestJob,
    HostJob,
    Incoming,
    Learning,
    ModelRows,
    PredictJob,
    RowNames,
    TableSource,
)
from fedonce.party.presence import Needed
from tests.federation.memory import MemoryTransport
from tests.federation.parties import write_csv
from tests.federation.responders import a_responder

N = 120
RUN = 'run = "churn"\ntable = "bank.csv"\nid = "customer"\nlabel = "churned"\nguests = ["shop"]\nlearner = "pca"\ndim = 2\n'
RUN += 'host_epochs = 1\nsecret = "secret"\n'


class Near(MemoryTransport):
    """Counts how often it is closed."""

    def __init__(self, guests, closed):
        super().__init__(guests)
        self.closed = closed

    def close(self):
        self.closed.append(self)


@dataclass
class Bank:
    """The host's folder, and its guest."""

    folder: object
    responders: dict
    seen: list = field(default_factory=list)
    closed: list = field(default_factory=list)

    def transport(self, terms):
        return Near(self.responders, self.closed)

    def fit(self, more="", refit=False):
        (self.folder / "run.toml").write_text(RUN + more)
        run = RunFile.read(self.folder / "run.toml")
        return HostRun(run, self.folder / "kit", self.folder / "model", self.seen.append, self.transport).run(
            "bank", lambda line: None, refit
        )

    def predict(self, care=None, out="out.csv", table="new.csv"):
        rows = ModelRows(self.folder / table, self.folder / "model", care=care or Care())
        return self.ask(PredictJob(rows, self.folder / out))

    def ask(self, job):
        facts = Facts.read(self.folder / "model")
        return PredictionRun(job, facts, 1.0, self.seen.append, self.transport).run(lambda line: None)

    def events(self):
        lines = (self.folder / "model" / FOLDER / "events.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture
def bank(tmp_path):
    return a_bank(tmp_path)


def a_bank(tmp_path) -> Bank:
    shop = tmp_path / "shop"
    shop.mkdir()
    responder = a_responder(shop, N, policy="max_rounds = 100\nmax_align_rows = 1000\n")
    (shop / "secret").rename(tmp_path / "secret")
    replace(responder.tables(), secret=tmp_path / "secret").to_file(shop / "guest.toml")
    rng = np.random.default_rng(1)
    write_csv(tmp_path / "bank.csv", rng.standard_normal((N, 3)), range(N), 10, rng.integers(0, 2, N))
    write_csv(tmp_path / "new.csv", rng.standard_normal((20, 3)), range(20), 10)
    return Bank(tmp_path, {"shop": responder})


def test_a_training_is_the_host_s_job_with_another_engine(bank):
    """The same model, to the byte, as by files; the same figures, and more."""
    report = bank.fit()
    figures = report.as_json()
    shop = GuestJob(
        TableSource(bank.folder / "shop" / "shop.csv", id="customer"),
        "shop",
        bank.folder / "files",
        Learning("churn", "pca", 2),
        RowNames(bank.folder / "secret"),
        attack=False,
    ).run()
    run = RunFile.read(bank.folder / "run.toml")
    incoming = Incoming([shop.message.path], secret=bank.folder / "secret")
    by_files = HostJob(
        TableSource(bank.folder / "bank.csv", id="customer"),
        bank.folder / "by-files",
        "churned",
        "bank",
        host_job(run, "bank", bank.folder / "x", False).fitting,
        incoming=incoming,
    ).run()
    assert _weights(bank.folder / "by-files") == _weights(bank.folder / "model")
    same = ("host", "run", "rows", "task", "late", "messages", "bytes", "payload bytes", "id bytes", "epsilon")
    assert {key: figures[key] for key in same} == {key: by_files.as_json()[key] for key in same}
    assert (figures["took part"], figures["guests"]["shop"]["state"]) == (["shop"], "received")
    assert {"late", "refused", "failed", "lost in rounds", "alignment bytes", "wire bytes", "rounds"} <= figures.keys()
    assert len(bank.closed) == 1


def _weights(folder):
    return [path.read_bytes() for path in sorted(folder.glob("weights-*"))]


def test_the_log_ends_with_the_report(bank):
    figures = bank.fit().as_json()
    start, *_, end = bank.events()
    assert (start["stage"], end["stage"]) == ("start", "end")
    assert {key: end[key] for key in figures} == figures
    assert [event["state"] for event in bank.events() if event["stage"] == "learn"] == ["queued", "received"]


def test_what_is_kept_lets_predictions_be_asked_for(bank):
    bank.fit()
    facts = json.loads((bank.folder / "model" / FOLDER / FACTS).read_text())
    assert set(facts) == {"kit", "models", "run", "forms", "secret", "max_message", "max_memory", "hints"}
    figures = bank.predict().as_json()
    assert (figures["rows"], figures["guests"], figures["absent"]) == (20, {"shop": 1.0}, [])
    assert {"late", "refused", "failed", "seconds", "messages", "bytes", "payload bytes", "wire bytes", "out"} <= set(
        figures
    )
    assert (bank.folder / "out.csv").read_text().startswith("customer,prediction,probability_0,probability_1,has_shop")
    assert not list((bank.folder / "model" / FOLDER).glob("predictions-*"))


def test_a_guest_that_is_missing_at_prediction_is_logged_and_nothing_is_written(bank):
    bank.fit()
    shop = bank.responders.pop("shop")
    with pytest.raises(AbsentPartyError, match="'shop' has sent no message .*: late"):
        bank.predict()
    assert not (bank.folder / "out.csv").exists()
    assert bank.events()[-1]["stage"] == "predicted"
    assert bank.events()[-1]["late"] == ["shop"]
    assert bank.predict(Care(Needed(allow_absent=True))).as_json()["absent"] == ["shop"]
    bank.responders["shop"] = shop


def test_an_alignment_comes_first_and_leaves_no_ids_in_messages(bank):
    figures = bank.fit("align = true\n").as_json()
    assert (figures["id bytes"], figures["guests"]["shop"]["overlap"]) == (0, 1.0)
    assert figures["alignment bytes"] > 0
    assert list(dict.fromkeys(event["stage"] for event in bank.events())) == ["start", "align", "learn", "end"]
    assert bank.predict().as_json()["guests"] == {"shop": 1.0}


def test_rounds_follow_and_predictions_ask_for_the_model_that_came_of_them(bank):
    report = bank.fit("rounds = 3\n")
    assert report.as_json()["rounds"] == 3
    models = Facts.read(bank.folder / "model").models
    assert bank.responders["shop"].record.tally().has_model(models["shop"])
    assert models["shop"] != report.statuses["shop"].fingerprint  # that of the learning
    assert bank.predict().as_json()["guests"] == {"shop": 1.0}


def test_a_model_that_is_there_is_trained_again_where_that_is_said(bank):
    bank.fit()
    with pytest.raises(InputError, match="has a model already") as error:
        bank.fit()
    assert error.value.parameters == ("refit", "out")
    assert bank.fit(refit=True).as_json()["took part"] == ["shop"]


def test_a_table_without_rows_is_refused_before_anybody_is_asked(bank):
    bank.fit()
    (bank.folder / "new.csv").write_text((bank.folder / "new.csv").read_text().splitlines()[0] + "\n")
    asked = len(bank.closed)
    with pytest.raises(InputError, match=r"new.csv"):
        bank.predict()
    assert len(bank.closed) == asked


def test_a_folder_of_another_training_is_refused(tmp_path):
    with pytest.raises(InputError, match="no model that was trained over a federation") as error:
        Facts.read(tmp_path)
    assert error.value.parameters == ("model",)


def test_an_evaluation_and_an_explanation_are_the_host_s_jobs_with_another_engine(bank):
    bank.fit()
    rows = ModelRows(bank.folder / "bank.csv", bank.folder / "model")
    scored = bank.ask(EvaluateJob(rows)).as_json()
    assert scored["guests"] == {"shop": 1.0}
    assert 0 <= scored["accuracy"] <= 1
    assert scored["messages"] == 1
    explained = bank.ask(ExplainJob(rows, bank.folder / "worth.svg", 1, bank.folder / "why.csv"))
    assert [each.party for each in explained.written.worths] == ["bank", "shop"]
    assert (bank.folder / "worth.svg").exists()
    header = (bank.folder / "why.csv").read_text().splitlines()[0]
    assert "moved_by_bank,moved_by_shop,moved_by_bank." in header
    new = ModelRows(bank.folder / "new.csv", bank.folder / "model")
    assert bank.ask(ExplainJob(new, per_row=bank.folder / "new-why.csv")).as_json()["how"] == "approximate"  # no labels


def test_a_training_tells_what_rows_held_back_say(bank):
    figures = bank.fit().as_json()
    assert (figures["host model"], figures["validation"]["rows"]) == ("network", N // 3)
    assert set(figures["validation"]["gain"]) == {"value", "error"}
    figures = bank.fit("rounds = 3\n", refit=True).as_json()
    assert figures["validation"] is None
    assert "rounds" in figures["not validated"]
