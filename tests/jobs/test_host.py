from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, replace

import pytest

from fedonce import Host, InputError
from fedonce.jobs import EvaluateJob, Fitting, HostJob, Incoming, ModelRows, PredictJob, TableSource
from fedonce.jobs.host import Connection
from tests.jobs.office import FIT_BANK, FIT_SHOP, FIT_UTILITY, SHOP, done, make_tables, told

MESSAGES = {name: f"{name}/representation.fedonce" for name in ("shop", "utility")}
SENT = Incoming([MESSAGES["shop"]], secret="secret")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bank")
    make_tables(folder)
    for line in ("keys secret secret", FIT_SHOP, FIT_UTILITY):
        done(folder, line)
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def job(tmp_path):
    source = TableSource("bank.csv", id="customer")
    return HostJob(source, tmp_path / "model", "default", "bank", Fitting(epochs=1), incoming=SENT)


def test_the_job_and_the_command_are_the_same(folder, job, tmp_path):
    figures = job.run().as_json()
    line = FIT_BANK.replace("--epochs 2", "--epochs 1").replace("--out bank", f"--out {tmp_path}/other")
    printed = told(folder, f"{line} {SHOP}")
    assert figures | {"model": 0, "report": 0} == printed | {"model": 0, "report": 0}
    assert list(figures) == list(printed)
    json.dumps(figures)


def test_a_model_is_trained_again_with_more_guests(folder, job):
    first = job.run()
    more = HostJob(TableSource("bank.csv"), job.out, incoming=replace(SENT, files=[MESSAGES["utility"]]), refit=True)
    again = more.run()
    assert list(again.as_json()["guests"]) == ["shop", "utility"]
    assert again.host.random_state == first.host.random_state
    with pytest.raises(InputError, match="read as before") as error:
        replace(more, label="member").run()
    assert error.value.parameters == ("label", "refit")


def test_a_model_that_is_trained_again_is_calibrated_and_validated_as_before(folder, job):
    told = Fitting(model="linear", calibrate=True, validate=False)
    first = replace(job, fitting=told).run()
    assert first.host.temperature != 1
    more = HostJob(TableSource("bank.csv"), job.out, incoming=replace(SENT, files=[]), refit=True)
    again = more.run().host
    assert (again.temperature, again.validation) == (first.host.temperature, None)
    other = replace(more, fitting=Fitting(calibrate=False, validate=True)).run().host
    assert other.temperature == 1
    assert other.validation is not None
    assert more.run().host.settings.calibrate is False


def test_a_model_that_is_there_gives_way_where_that_is_said(folder, job):
    job.run()
    with pytest.raises(InputError, match="has a model already") as error:
        job.run()
    assert error.value.parameters == ("refit", "out")
    assert replace(job, overwrite=True, name="other").run().host.name == "other"


def test_messages_may_come_by_another_engine(folder, job):
    """As in a federation: the engine is opened for a host that is prepared, and ended after the model is saved."""
    happened = []

    @contextmanager
    def connect(prepared, tell):
        happened.append(prepared.party.name)
        yield Connection(SENT.engine(prepared.party, tell), prepared.party.matching)
        happened.append(Host.load(job.out).name)

    report = replace(job, incoming=replace(SENT, files=())).run(connect=connect)
    assert happened == ["bank", "bank"]
    assert list(report.as_json()["guests"]) == ["shop"]


@pytest.mark.filterwarnings("ignore:party 'shop'. this is its message of the training")
def test_predictions_and_scores(folder, job, tmp_path):
    job.run()
    rows = ModelRows("bank.csv", job.out, SENT)
    report = PredictJob(rows, tmp_path / "out.csv").run()
    line = f"host predict bank.csv --model {job.out} {SHOP} --secret secret --out {tmp_path}/out.csv"
    written = (tmp_path / "out.csv").read_bytes()
    assert report.as_json() == told(folder, line)
    assert (tmp_path / "out.csv").read_bytes() == written
    scored = EvaluateJob(rows).run()
    assert scored.as_json() == told(folder, f"host evaluate bank.csv --model {job.out} {SHOP} --secret secret")
    with pytest.raises(FrozenInstanceError):
        scored.scores = {}


def test_what_cannot_be_is_refused_when_the_job_is_made(tmp_path):
    with pytest.raises(InputError, match="must end in one of .csv"):
        PredictJob(ModelRows("bank.csv", "model"), tmp_path / "out.doc")
    with pytest.raises(InputError, match="which looks like 'b'|must be ASCII"):
        HostJob(TableSource("bank.csv"), "model", "default", "\u042cank")
    with pytest.raises(InputError, match="Say in which folder messages arrive") as error:
        Incoming(expect=["shop"])
    assert error.value.parameters == ("inbox", "expect")
