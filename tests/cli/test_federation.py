"""`fedonce federation evaluate` and `explain` as commands; `tests/federation` has what is behind them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from fedonce.assess.importance import Worth
from fedonce.federation.flare import host_steps
from fedonce.federation.report import Answered, FederationPrediction
from fedonce.jobs import EvaluateJob, ExplainJob
from fedonce.jobs.explain import ExplanationReport
from fedonce.jobs.predict import EvaluationReport, Predicted
from fedonce.messages.traffic import Traffic
from tests.jobs.office import done


@pytest.fixture
def asked(monkeypatch):
    """What would be asked of guests; they all answer."""
    jobs = []

    def predict(job, deadline, watch, tell, kit=None):
        jobs.append((job, deadline))
        table, host = SimpleNamespace(n_rows=7), SimpleNamespace(dims={"shop": 2})
        prediction = SimpleNamespace(overlap={"shop": 0.5}, traffic=Traffic())
        made = Predicted(host, table, np.zeros(7), prediction, {}, None)
        if isinstance(job, EvaluateJob):
            report = EvaluationReport(made, {"accuracy": 0.75, "average precision of yes": 0.5})
        else:
            worths = () if job.out is None else [Worth("bank", 0.25, 0.01, None, 7), Worth("shop", 0.125, 0.02, 0.5, 4)]
            report = ExplanationReport(made, "accuracy", worths, job.out, job.per_row, "exact")
        return FederationPrediction(report, Answered(made, {}))

    monkeypatch.setattr(host_steps, "predict", predict)
    return jobs


def test_evaluate(asked, tmp_path):
    shown = done(
        tmp_path, "federation evaluate new.csv --model model --deadline 90s --min-guests 1 --quiet"
    ).splitlines()
    assert shown[:3] == ["evaluated on 7 rows", "accuracy                  0.7500", "average precision of yes  0.5000"]
    assert shown[3] == "  shop: has 50.0 % of the rows"
    ((job, deadline),) = asked
    assert isinstance(job, EvaluateJob)
    assert (deadline, str(job.rows.table), job.rows.care.needed.min_guests) == (90.0, "new.csv", 1)
    figures = json.loads(done(tmp_path, "federation evaluate new.csv --model model --json --quiet"))
    assert (figures["accuracy"], figures["guests"]) == (0.75, {"shop": 0.5})


def test_explain(asked, tmp_path):
    shown = done(tmp_path, "federation explain new.csv --model model --per-row why.csv --quiet").splitlines()
    assert shown[0] == "what moved each of 7 predictions (exact): why.csv"
    shown = done(tmp_path, "federation explain new.csv --model model --repeats 2 --quiet").splitlines()
    assert shown[0] == "what each party is worth, in accuracy, on 7 rows:"
    assert "plot: worth.png" in shown
    assert [(isinstance(job, ExplainJob), job.labelled) for job, _ in asked] == [(True, False), (True, True)]
