"""Faults of the server, of the host, of a job's process alone, and of anybody during rounds: real processes, killed or frozen."""

from __future__ import annotations

import signal
import time

import pytest

from tests.federation.faults import GRACE, SLOW, TRAINING, epochs, kept_message, learnt_anew, slow_run, weights

pytestmark = pytest.mark.federation


@pytest.mark.slow_federation
def test_server_killed_with_jobs_queued_and_running(federation):
    federation.start("bank", "telco")
    fit = federation.fit(slow_run(federation, "240s"))
    federation.wait_for("telco", "received")
    federation.wait_for("shop", "queued")
    federation.kill("bank")
    time.sleep(3)
    federation.start("bank", "shop")
    federation.wait_for("shop", "learning", timeout=90)
    federation.wait_for_state("shop")
    federation.kill("bank")
    before = epochs(federation, "shop")
    time.sleep(3)
    federation.start("bank")
    told = federation.outcome(fit, 240 + GRACE + TRAINING)
    assert told["took part"] == ["shop", "telco"]
    assert min(epochs(federation, "shop")[len(before) :], default=9999) > 100
    assert "Traceback" not in federation.said
    federation.settle()
    assert kept_message(federation, "shop") == learnt_anew(federation, "shop")


@pytest.mark.slow_federation
def test_frozen_server(federation):
    federation.start()
    fit = federation.fit(slow_run(federation, "30s", guest={"shop": SLOW | {"epochs": 50_000}}))
    federation.wait_for("telco", "received")
    federation.wait_for("shop", "learning")
    federation.freeze("bank")
    told = federation.outcome(fit, 30 + 2 * GRACE + TRAINING)
    federation.thaw("bank")
    assert (told["took part"], told["late"]) == (["telco"], ["shop"])
    # Its job could not be ended; whoever trains again finds it, and what nobody wants any more is ended.
    told = federation.outcome(federation.fit(federation.write_run(), "bank", "--refit"), 60 + TRAINING)
    assert told["took part"] == ["shop", "telco"]
    federation.settle()


def test_host_killed(federation):
    federation.start()
    run = slow_run(federation)
    fit = federation.fit(run)
    federation.wait_for("telco", "received")
    federation.wait_for("shop", "learning")
    fit.kill()
    fit.communicate()
    told = federation.outcome(federation.fit(run), 150 + TRAINING)
    assert told["took part"] == ["shop", "telco"]
    assert {name: told["guests"][name]["jobs"] for name in federation.guests} == {"shop": 0, "telco": 0}
    assert epochs(federation, "shop") == sorted(epochs(federation, "shop"))
    federation.settle()
    federation.outcome(federation.fit(run, "peace"), 150 + TRAINING)
    assert "was answered before" in federation.log("shop")
    assert weights(federation, "peace") == weights(federation, "bank")
    federation.settle()


@pytest.mark.slow_federation
def test_guest_killed_in_rounds(federation):
    federation.start()
    fit = federation.fit(federation.write_run(deadline="60s", silence="10s", rounds=400))
    federation.wait_for("shop", "rounds", stage="rounds")
    federation.wait_for("telco", "rounds", stage="rounds")
    time.sleep(3)
    federation.kill("shop")
    told = federation.outcome(fit, 60 + 400)
    assert list(told["lost in rounds"]) == ["shop"]
    federation.settle()
    federation.start("shop")
    assert federation.outcome(federation.predict())["guests"] == {"shop": 1.0, "telco": 1.0}
    federation.settle()


@pytest.mark.slow_federation
def test_host_killed_in_rounds(federation):
    federation.start()
    run = federation.write_run(deadline="60s", silence="10s", rounds=400)
    fit = federation.fit(run)
    federation.wait_for("shop", "rounds", stage="rounds")
    federation.wait_for("telco", "rounds", stage="rounds")
    time.sleep(3)
    fit.kill()
    fit.communicate()
    federation.settle(90)  # nobody goes on with rounds for a host that is gone
    assert federation.jobs() == {}


@pytest.mark.slow_federation
def test_job_process_that_hangs_is_replaced(federation):
    federation.start()
    fit = federation.fit(slow_run(federation))
    federation.wait_for("shop", "learning")
    for process in federation.processes("shop")[1:]:
        process.send_signal(signal.SIGSTOP)
    told = federation.outcome(fit, 150 + GRACE + TRAINING)
    assert told["took part"] == ["shop", "telco"]
    assert told["guests"]["shop"]["jobs"] == 2
    federation.settle()
