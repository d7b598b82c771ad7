"""Faults of guests, as real processes: killed, frozen, offline, lying. The host ends by its deadline, and says who took part."""

from __future__ import annotations

import time
from contextlib import closing

import numpy as np
import pytest

import fedonce
from fedonce.federation.collecting import Terms
from fedonce.federation.flare.engine import NvflareEngine
from fedonce.federation.request import Request
from tests.federation.faults import (
    GRACE,
    SLOW,
    TRAINING,
    epochs,
    kept_message,
    learnt_anew,
    news,
    patched,
    slow_run,
)

pytestmark = pytest.mark.federation


@pytest.mark.slow_federation
def test_offline_guest_joins_later_or_is_late(federation):
    federation.start("bank", "telco")
    fit = federation.fit(federation.write_run(deadline="150s"))
    federation.wait_for("telco", "received")
    assert {event["state"] for event in news(federation, "shop")} == {"queued"}
    federation.start("shop")
    told = federation.outcome(fit, 150 + TRAINING)
    assert told["took part"] == ["shop", "telco"]
    assert told["guests"]["shop"]["jobs"] == 1
    federation.settle()

    federation.kill("shop")
    fit = federation.fit(federation.write_run(run="second", deadline="20s"), "second")
    told = federation.outcome(fit, 20 + GRACE + TRAINING)
    assert (told["took part"], told["late"], told["refused"]) == (["telco"], ["shop"], {})
    federation.settle()
    federation.start("shop")  # what was asked of it is over
    time.sleep(5)
    federation.settle()
    assert len(federation.answers("shop")) == 1


KEEPS_EVERY_EPOCH = """\
from fedonce.training.checkpoints import Progress

Progress.is_due = lambda self: True
"""


def test_killed_while_learning(federation, monkeypatch):
    federation.start("bank", "telco")
    patched(federation, "shop", monkeypatch, KEEPS_EVERY_EPOCH)
    fit = federation.fit(slow_run(federation, silence="10s", guest={"shop": SLOW | {"epochs": 1500}}))
    federation.wait_until(lambda: max(epochs(federation, "shop"), default=0) > 50, "the shop is at work", 120)
    federation.kill("shop")
    federation.start("shop")  # as it is: what was kept is taken up
    told = federation.outcome(fit, 150 + TRAINING)
    assert told["took part"] == ["shop", "telco"]
    assert "nat goes on after epoch" in federation.log("shop")
    assert epochs(federation, "shop") == sorted(epochs(federation, "shop"))  # never back to the beginning
    federation.settle()
    assert kept_message(federation, "shop") == learnt_anew(federation, "shop")


@pytest.mark.slow_federation
def test_killed_while_sending(federation):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    n = 1_000_000
    columns = {f"c{j}": np.random.default_rng(j).standard_normal(n) for j in range(4)}
    parquet.write_table(pa.table({"customer": np.arange(n), **columns}), federation.folder / "shop.parquet")
    federation.start("bank")
    federation.start("shop", data=federation.folder / "shop.parquet")
    request = Request("bank", "shop", "large", "learn", fedonce.__version__, "random", 48, 32, seed=0)
    killed = []

    def watch(status):
        if status.state == "sending" and not killed:
            federation.kill("shop")
            killed.append(kept_message(federation, "shop"))
            federation.start("shop")

    received = federation.folder / "received"
    terms = Terms(time.monotonic() + 150, silence=15.0)
    with closing(NvflareEngine(federation.kit("bank"), {"shop": request}, received, terms, watch=watch)) as engine:
        assert list(engine.learn()) == ["shop"]
    assert engine.statuses["shop"].tries == 2
    assert engine.received() == {"shop": killed[0]}
    assert "was answered before" in federation.log("shop")
    federation.settle()


@pytest.mark.slow_federation
def test_killed_after_sending(federation):
    federation.start()
    fit = federation.fit(slow_run(federation))
    federation.wait_for("telco", "received")
    federation.kill("telco")
    told = federation.outcome(fit, 150 + TRAINING)
    assert told["took part"] == ["shop", "telco"]
    assert told["guests"]["telco"]["jobs"] == 1
    assert news(federation, "telco")[-1]["state"] == "received"
    federation.settle()
    federation.start("telco")
    assert federation.outcome(federation.predict())["guests"] == {"shop": 1.0, "telco": 1.0}
    assert len(federation.answers("telco")) == 2
    federation.settle()


@pytest.mark.slow_federation
def test_frozen_while_learning(federation):
    federation.start()
    longer = {"shop": SLOW | {"epochs": 8000}}
    patient = federation.fit(slow_run(federation, "240s", guest=longer), "patient")
    hasty = federation.fit(slow_run(federation, "70s", "hasty.toml", run="hasty", guest=longer), "hasty")
    federation.wait_for("shop", "learning", "patient")
    federation.wait_for("shop", "learning", "hasty")
    federation.freeze("shop")
    frozen = time.monotonic()
    told = federation.outcome(hasty, 70 + GRACE + TRAINING)
    assert (told["took part"], told["late"]) == (["telco"], ["shop"])
    time.sleep(max(0.0, 90 - (time.monotonic() - frozen)))
    federation.thaw("shop")
    told = federation.outcome(patient, 240 + GRACE + TRAINING)
    assert told["took part"] == ["shop", "telco"]
    federation.settle()


TWICE = """\
from fedonce.federation.guest_app import Answer

once = Answer._send

def twice(self, message, *more):
    once(self, message, *more)
    other = message.with_name("other.fedonce")
    other.write_bytes(message.read_bytes()[::-1])
    once(self, other, *more)

Answer._send = twice
"""


@pytest.mark.slow_federation
def test_guest_that_answers_twice(federation, monkeypatch):
    federation.start("bank", "telco")
    patched(federation, "shop", monkeypatch, TWICE)
    told = federation.outcome(federation.fit(federation.write_run()), 60 + TRAINING)
    assert told["took part"] == ["shop", "telco"]
    ((fingerprint, message),) = federation.answers("shop").items()
    received = federation.folder / "bank" / "federation" / "received" / f"{fingerprint}.fedonce"
    assert received.read_bytes() == message
    assert "a message of shop is left out" in federation.log("bank")
    federation.settle()


LARGE = """
import os
from nvflare.app_common.streamers.file_streamer import FileStreamer
stream_file = FileStreamer.stream_file
def large(**given):
    os.truncate(given["file_name"], 64 << 20)
    return stream_file(**given)
FileStreamer.stream_file = staticmethod(large)
"""


@pytest.mark.slow_federation
def test_guest_that_sends_more_than_the_host_takes(federation, monkeypatch):
    federation.start("bank", "telco")
    patched(federation, "shop", monkeypatch, LARGE)
    told = federation.outcome(federation.fit(federation.write_run(max_message="1MB")), 60 + TRAINING)
    assert told["took part"] == ["telco"]
    assert told["refused"] == {"shop": "its message is larger than 1 MB, the most that the host takes (max_message)"}
    kit = federation.kit("bank").path
    assert max(path.stat().st_size for path in kit.rglob("*") if path.is_file()) < 10 * 2**20
    federation.settle()


@pytest.mark.slow_federation
def test_guest_with_other_rows(federation):
    table = federation.folder / "shop.csv"
    table.write_text(table.read_text().replace("k", "x"))
    federation.start()
    told = federation.outcome(federation.fit(federation.write_run()), 60 + TRAINING)
    assert told["took part"] == ["telco"]
    assert "none of the rows of its message" in told["refused"]["shop"]
    federation.settle()


@pytest.mark.slow_federation
def test_guest_that_never_answers(federation, monkeypatch):
    federation.start("bank", "telco")
    code = "import time\nfrom fedonce.party import Guest\nGuest.learn = lambda *a, **k: time.sleep(10**6)"
    patched(federation, "shop", monkeypatch, code)
    told = federation.outcome(federation.fit(federation.write_run(deadline="30s")), 30 + GRACE + TRAINING)
    assert (told["took part"], told["late"]) == (["telco"], ["shop"])
    assert news(federation, "shop")[-2]["state"] == "learning"
    federation.settle()
