"""Faults of real processes: killed, frozen, offline, lying. The host ends by its deadline, and says who took part."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest

import fedonce
from fedonce.engine.nvflare import NvflareEngine
from fedonce.federation.answering import Desk
from fedonce.federation.asking import Request

pytestmark = pytest.mark.federation

POLICY = "max_epochs = 100000\nmax_rounds = 100000\nmax_dim = 64\n"
SLOW = {"learner": "nat", "epochs": 3000}  # some fifteen seconds: time to be killed in
GRACE = 15.0  # seconds after its deadline in which the host stops waiting
TRAINING = 45.0  # seconds for the host to start and to train, on a busy machine


@pytest.fixture
def federation(parties):
    made = parties()
    for guest in made.guests:
        made.policy(guest, POLICY)
    return made


def slow_run(federation, deadline: str = "150s", name: str = "run.toml", **settings):
    """Write a run in which the shop takes long, and the telco does not."""
    return federation.write_run(name, **{"deadline": deadline, "silence": "15s", "guest": {"shop": SLOW}} | settings)


def waited(federation, out: str = "bank") -> float:
    """Return how long a host waited for its guests, from its start to the last news of them."""
    times = [event["time"] for event in federation.events(out) if event["stage"] in ("start", "learn")]
    first, last = (np.datetime64(each.removesuffix("+00:00")) for each in (times[0], times[-1]))
    return float((last - first) / np.timedelta64(1, "s"))


def news(federation, guest: str, out: str = "bank") -> list[dict]:
    return [event for event in federation.events(out) if event.get("guest") == guest]


def epochs(federation, guest: str, out: str = "bank") -> list[int]:
    """Return the epochs that a host was told."""
    return [event["epoch"] for event in news(federation, guest, out) if event["state"] == "learning" and event["epoch"]]


def kept_message(federation, guest: str) -> bytes:
    """Return the one message that a guest keeps."""
    (message,) = federation.answers(guest).values()
    return message


def learnt_anew(federation, guest: str) -> bytes:
    """Let the guest answer the same request again, from the start and in peace; return its message."""
    (asked,) = (federation.kits / guest / "answers").glob("*/request.fedonce")
    request = Request.from_bytes(asked.read_bytes())
    federation.forget(guest)
    return Desk(federation.kits / guest, guest, lambda *told: None).answer(request).read_bytes()


def patched(federation, guest: str, monkeypatch, code: str) -> None:
    """Start a guest whose job processes run other code: what a dishonest or a broken guest could do."""
    folder = federation.folder / "patch"
    folder.mkdir()
    lines = "".join(f"    {line}\n" for line in code.splitlines())
    job = "any('worker_process' in word for word in sys.orig_argv)"
    (folder / "sitecustomize.py").write_text(f"import sys\nif {job}:\n{lines}")
    with monkeypatch.context() as environment:
        environment.setenv("PYTHONPATH", str(folder))
        federation.start(guest)


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
    assert waited(federation, "second") < 20 + GRACE
    federation.settle()
    federation.start("shop")  # what was asked of it is over
    time.sleep(5)
    federation.settle()
    assert len(federation.answers("shop")) == 1


def test_killed_while_learning(federation):
    federation.start()
    fit = federation.fit(slow_run(federation))
    federation.wait_for("shop", "learning")
    federation.wait_for_state("shop")
    federation.kill("shop")
    before = epochs(federation, "shop")[-1]
    federation.start("shop")
    told = federation.outcome(fit, 150 + TRAINING)
    assert told["took part"] == ["shop", "telco"]
    assert "nat goes on after epoch" in federation.log("shop")
    assert min(epochs(federation, "shop")[epochs(federation, "shop").index(before) + 1 :]) > 100
    federation.settle()
    assert kept_message(federation, "shop") == learnt_anew(federation, "shop")


def test_killed_while_sending(federation):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    n = 600_000
    columns = {f"c{j}": np.random.default_rng(j).standard_normal(n) for j in range(4)}
    parquet.write_table(pa.table({"customer": np.arange(n), **columns}), federation.folder / "shop.parquet")
    federation.start("bank")
    federation.start("shop", data=federation.folder / "shop.parquet")
    request = Request("bank", "shop", "large", "learn", fedonce.__version__, "random", 48, 32, seed=0)
    killed = []

    def watch(stand):
        if stand.state == "sending" and not killed:
            federation.kill("shop")
            killed.append(kept_message(federation, "shop"))
            federation.start("shop")

    received = federation.folder / "received"
    engine = NvflareEngine(
        federation.kit("bank"), {"shop": request}, time.monotonic() + 150, received, watch=watch, silence=15.0
    )
    try:
        found = engine.collect(engine.asked)
    finally:
        engine.close()
    assert engine.stands["shop"].tries == 2
    assert found == {"shop": killed[0]}
    assert "was answered before" in federation.log("shop")
    federation.settle()


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


def test_frozen_while_learning(federation):
    federation.start()
    patient = federation.fit(slow_run(federation, "240s"), "patient")
    hasty = federation.fit(slow_run(federation, "50s", "hasty.toml", run="hasty"), "hasty")
    federation.wait_for("shop", "learning", "patient")
    federation.wait_for("shop", "learning", "hasty")
    federation.freeze("shop")
    frozen = time.monotonic()
    told = federation.outcome(hasty, 50 + GRACE + TRAINING)
    assert (told["took part"], told["late"]) == (["telco"], ["shop"])
    assert waited(federation, "hasty") < 50 + GRACE
    time.sleep(max(0.0, 90 - (time.monotonic() - frozen)))
    federation.thaw("shop")
    told = federation.outcome(patient, 240 + GRACE + TRAINING)
    assert told["took part"] == ["shop", "telco"]
    federation.settle()


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
    federation.settle()
    assert kept_message(federation, "shop") == learnt_anew(federation, "shop")


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


def weights(federation, out: str) -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in (federation.folder / out).glob("*.safetensors")}
    assert found
    return found


def test_guest_that_answers_twice(federation, monkeypatch):
    federation.start("bank", "telco")
    patched(
        federation,
        "shop",
        monkeypatch,
        """\
from fedonce.federation.guest_app import Answer
once = Answer._send
def twice(self, message, *more):
    once(self, message, *more)
    other = message.with_name("other.fedonce")
    other.write_bytes(message.read_bytes()[::-1])
    once(self, other, *more)
Answer._send = twice""",
    )
    told = federation.outcome(federation.fit(federation.write_run()), 60 + TRAINING)
    assert told["took part"] == ["shop", "telco"]
    (received,) = (federation.folder / "bank" / "federation" / "received").glob(
        f"{next(iter(federation.answers('shop')))}.fedonce"
    )
    assert received.read_bytes() == kept_message(federation, "shop")
    assert "a message of shop is left out" in federation.log("bank")
    federation.settle()


def test_guest_with_other_rows(federation):
    table = federation.folder / "shop.csv"
    table.write_text(table.read_text().replace("k", "x"))
    federation.start()
    told = federation.outcome(federation.fit(federation.write_run()), 60 + TRAINING)
    assert told["took part"] == ["telco"]
    assert "none of the rows of its message" in told["refused"]["shop"]
    federation.settle()


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


def test_guest_that_never_answers(federation, monkeypatch):
    federation.start("bank", "telco")
    code = "import time\nfrom fedonce.party import Guest\nGuest.learn = lambda *a, **k: time.sleep(10**6)"
    patched(federation, "shop", monkeypatch, code)
    told = federation.outcome(federation.fit(federation.write_run(deadline="30s")), 30 + GRACE + TRAINING)
    assert (told["took part"], told["late"]) == (["telco"], ["shop"])
    assert waited(federation) < 30 + GRACE
    assert news(federation, "shop")[-2]["state"] == "learning"
    federation.settle()


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


def test_host_killed_in_rounds(federation):
    federation.start()
    run = federation.write_run(deadline="60s", silence="10s", rounds=400)
    fit = federation.fit(run)
    federation.wait_for("shop", "rounds", stage="rounds")
    federation.wait_for("telco", "rounds", stage="rounds")
    time.sleep(3)
    fit.kill()
    fit.communicate()
    federation.settle(90)


def test_frozen_server(federation):
    federation.start()
    fit = federation.fit(slow_run(federation, "30s", guest={"shop": SLOW | {"epochs": 50_000}}))
    federation.wait_for("telco", "received")
    federation.wait_for("shop", "learning")
    federation.freeze("bank")
    told = federation.outcome(fit, 30 + 2 * GRACE + TRAINING)
    federation.thaw("bank")
    assert (told["took part"], told["late"]) == (["telco"], ["shop"])
    assert waited(federation) < 30 + 2 * GRACE
    # Its job could not be ended; whoever trains again finds it, and what nobody wants any more is ended.
    told = federation.outcome(federation.fit(federation.write_run(), "bank", "--refit"), 60 + TRAINING)
    assert told["took part"] == ["shop", "telco"]
    federation.settle()
