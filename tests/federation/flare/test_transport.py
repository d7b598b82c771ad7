"""FLARE as a transport: what its answers and errors come to, with a session that is made up; and one job at a real server."""

from __future__ import annotations

import base64
import json
from contextlib import closing
from pathlib import Path

import pytest

import fedonce
from fedonce.errors import FederationError
from fedonce.federation.flare.kits import Kit
from fedonce.federation.request import Request
from fedonce.federation.transport import Left, Reply, Seen

pytest.importorskip("nvflare")

from nvflare.fuel.flare_api.api_spec import InternalError, JobNotFound, JobNotRunning

from fedonce.federation.flare import transport
from fedonce.federation.flare.jobs import TOKEN
from fedonce.federation.flare.transport import FlareTransport

LEARN = Request("bank", "shop", "churn", "learn", fedonce.__version__)


class Session:
    """Answers each call with what a test says, or raises it."""

    def __init__(self, **answers):
        self.answers, self.calls = answers, []

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append((name, *arguments))
            found = self.answers[name](*arguments) if callable(self.answers[name]) else self.answers[name]
            if isinstance(found, Exception):
                raise found
            return found

        return call


@pytest.fixture
def flare(monkeypatch, tmp_path):
    kit = Kit(tmp_path, "host", "bank", "127.0.0.1", 8002, "bank", ("shop",), "0.1.0", "00")

    def make(**answers):
        made = FlareTransport(kit)
        made.session = Session(**answers)
        monkeypatch.setattr(transport, "open_session", lambda kit: made.session)
        made.connect()
        return made

    return make


@pytest.mark.parametrize(
    ("meta", "seen"),
    [
        ({"status": "SUBMITTED"}, Seen("queued")),
        ({"status": "DISPATCHED"}, Seen("queued")),
        ({"status": "FINISHED:COMPLETED"}, Seen("ended", how="completed")),
        ({"status": "FINISHED:EXECUTION_EXCEPTION"}, Seen("ended", how="execution_exception")),
        (JobNotFound("no such job"), Seen("gone")),
        (ConnectionError("broken"), Seen("away")),
        (FederationError("the server does not answer"), Seen("away")),
    ],
)
def test_where_a_job_is(flare, meta, seen):
    assert flare(get_job_meta=meta).look("shop", "job") == seen


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        ({"guests": {"shop": {"state": "learning"}}}, {"state": "learning"}),
        ({"guests": {"telco": {"state": "learning"}}}, None),
        ({"guests": {"shop": "learning"}}, None),
        ("nothing", None),
        (JobNotRunning("job"), None),
    ],
)
def test_what_a_running_job_says_of_its_guest(flare, told, seen):
    assert flare(get_job_meta={"status": "RUNNING"}, do_app_command=told).look("shop", "job") == Seen("running", seen)


def test_an_error_about_a_job_is_none_of_the_connection(flare):
    about_job = flare(do_app_command=InternalError("it ends just now"))
    assert about_job.fetch("shop", "job", 1) is None
    assert about_job.connected
    broken = flare(do_app_command=ConnectionError("broken"))
    assert broken.fetch("shop", "job", 1) is None
    assert not broken.connected


def test_a_job_is_found_by_its_token(flare):
    listed = [{"job_id": "1"}, {"job_id": "2", TOKEN: "a"}, {"job_id": "3", TOKEN: "b"}]
    made = flare(list_jobs=listed)
    assert (made.find("a"), made.find("b"), made.find("c")) == ("2", "3", None)
    assert made.session.calls[0] == ("list_jobs", True)  # in detail: else the token is not in the list
    assert flare(list_jobs=ConnectionError("broken")).find("a") is None


def test_a_token_is_in_the_job_s_description(flare):
    described = []

    def submit(path):
        described.append(json.loads((Path(path) / "meta.json").read_text()))
        return "job"

    assert flare(submit_job=submit).submit(LEARN, "abc") == "job"
    assert described[0][TOKEN] == "abc"
    assert described[0]["name"] == "learn churn shop"
    assert flare(submit_job=ConnectionError("broken")).submit(LEARN, "abc") is None


def test_a_job_that_the_server_does_not_know_is_over(flare):
    assert flare(abort_job=JobNotFound("no such job")).stop("job")
    assert flare(abort_job={}).stop("job")
    assert not flare(abort_job=ConnectionError("broken")).stop("job")


def test_a_message_is_taken_piece_by_piece_and_no_further_than_its_limit(flare, tmp_path):
    data = bytes(range(100))

    def command(job, word, content):
        start = content["start"]
        if start >= len(data):
            return {"state": "taken"}
        return {"state": "here", "piece": base64.b64encode(data[start : start + 30]).decode()}

    made, path = flare(do_app_command=command), tmp_path / "part"
    assert made.take("shop", "job", path, 100)
    assert path.read_bytes() == data
    assert path.stat().st_mode & 0o777 == 0o600
    assert made.take("shop", "job", path, 40)
    assert len(path.read_bytes()) == 60  # one piece beyond: whoever reads it refuses it by its size
    assert not flare(do_app_command={"state": "unknown"}).take("shop", "job", path, 100)


@pytest.mark.parametrize(("noted", "told"), [('{"state": "sent"}', {"state": "sent"}), ("[1]", {}), ("{", {})])
def test_what_an_ended_job_left(flare, tmp_path, noted, told):
    def download(job, folder):
        answers = tmp_path / "job" / "workspace" / "answers"
        answers.mkdir(parents=True)
        (answers / "shop.json").write_text(noted)
        (answers / "shop.fedonce").write_bytes(b"data")
        return str(tmp_path / "job")

    path = tmp_path / "part"
    assert flare(download_job_result=download).left("shop", "job", path) == Left(told, True)
    assert path.read_bytes() == b"data"
    assert not (tmp_path / "job").exists()
    assert flare(download_job_result=ConnectionError("broken")).left("shop", "job", path) is None


def test_words_of_rounds(flare):
    message = base64.b64encode(b"values").decode()
    made = flare(do_app_command={"state": "here", "message": message})
    assert made.post("shop", "job", 3, {"word": "forward", "gradient": b"\x00\x01"})
    sent = {"guest": "shop", "turn": 3, "word": "forward", "gradient": "AAE="}
    assert made.session.calls == [("do_app_command", "job", "post", sent)]
    assert made.fetch("shop", "job", 3) == Reply("here", b"values")


@pytest.mark.federation
def test_a_real_server_finds_a_job_by_its_token(parties):
    federation = parties()
    federation.start("bank")  # and nobody to answer
    with closing(FlareTransport(federation.kit("bank"))) as made:
        assert made.find("abc") is None
        job = made.submit(LEARN, "abc")
        assert job is not None
        assert (made.find("abc"), made.find("abd")) == (job, None)
        assert made.look("shop", job) == Seen("queued")
        assert made.stop(job)
        federation.wait_until(lambda: made.look("shop", job).phase == "ended", "the job ended")
        made.forget(job)
        assert made.look("shop", job) == Seen("gone")
        assert made.find("abc") is None
