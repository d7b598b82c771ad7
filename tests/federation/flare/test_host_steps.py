"""Training and prediction over a federation of real processes, without faults; and that all equals the local engine."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from fedonce import protocol, read_table
from fedonce.engine.local import LocalEngine
from fedonce.jobs.settings import estimator_seed
from fedonce.messages.keys import read_secret
from fedonce.messages.representation import Representation
from fedonce.party import Guest, Host
from fedonce.rounds.settings import Rounds
from fedonce.rows.ids import Naming
from tests.federation.parties import COLUMNS, Parties, slow, write_csv

pytestmark = pytest.mark.federation

FREE = "max_rounds = 100000\n"


def predictions(federation, name="predictions.csv"):
    with (federation.folder / name).open() as file:
        return {row["customer"]: float(row["probability_1"]) for row in csv.DictReader(file)}


def local(federation, learner, run="churn", rounds=None, epochs=None):
    """Train the same in one process: the same tables, settings and seeds."""
    seed, naming = estimator_seed(0), Naming("keyed", read_secret(federation.secret))
    tables = {name: read_table(federation.folder / f"{name}.csv", id="customer") for name in federation.guests}
    guests = {
        name: Guest(name, learner, 3, epochs=epochs, run=run, random_state=seed, naming=naming) for name in tables
    }
    own = read_table(federation.folder / "bank.csv", id="customer")
    label, own = own.pop("churned")
    host = Host("bank", epochs=3, run=run, random_state=seed, secret=naming.secret)
    engine = LocalEngine(guests, tables, {})
    fitted = protocol.fit(host, own, label, engine, rounds)
    return host, engine, fitted


def received(federation, out):
    folder = federation.folder / out / "federation" / "received"
    messages = [Representation.from_bytes(path.read_bytes()) for path in folder.glob("*.fedonce")]
    return {message.party: message for message in messages}


@pytest.mark.parametrize("learner", ["nat", *slow("autoencoder")])
def test_equals_the_local_engine_to_the_bit(running, learner):
    out = f"equal-{learner}"
    told = running.outcome(running.fit(running.write_run(run=out, learner=learner, epochs=4), out))
    assert told["took part"] == ["shop", "telco"]
    host, engine, fitted = local(running, learner, run=out, epochs=4)
    messages = received(running, out)
    for name, sent in fitted.representations.items():
        assert messages[name].to_bytes() == sent.to_bytes()
    assert told["bytes"] == fitted.traffic.bytes == sum(len(sent.to_bytes()) for sent in messages.values())
    assert told["payload bytes"] == fitted.traffic.payload_bytes

    told = running.outcome(running.predict(out))
    assert told["guests"] == {"shop": 1.0, "telco": 1.0}
    new = read_table(running.folder / "new.csv", id="customer")
    expected = protocol.predict(host, new, engine).outputs[:, 1]
    assert predictions(running) == dict(zip(new.ids, expected.tolist(), strict=True))

    model = ("--model", running.folder / out, "--json")
    scored = running.outcome(running.command("evaluate", running.folder / "bank.csv", *model))
    assert 0 <= scored["accuracy"] <= 1
    assert scored["guests"] == {"shop": 1.0, "telco": 1.0}
    why = running.folder / "why.csv"
    told = running.outcome(running.command("explain", running.folder / "new.csv", *model, "--per-row", why))
    assert (told["how"], told["guests"]) == ("approximate", {"shop": 1.0, "telco": 1.0})
    assert "moved_by_bank,moved_by_shop,moved_by_telco" in why.read_text()


@pytest.mark.slow_federation
def test_rounds_equal_the_local_engine_to_the_bit(tmp_path):
    """With the guests' rows in the host's order, as the local engine has them."""
    federation = Parties(tmp_path, rows=400)
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((400, 16)), rng.integers(0, 2, 400)
    for party, (first, last) in COLUMNS.items():
        write_csv(tmp_path / f"{party}.csv", x[:, first:last], range(400), first, y if party == "bank" else None)
    write_csv(tmp_path / "new.csv", x[:, :4], range(400), 0)
    try:
        for guest in federation.guests:
            federation.policy(guest, FREE)
        federation.start()
        told = federation.outcome(federation.fit(federation.write_run(rounds=12)))
        assert told["rounds"] == 12
        assert not told["lost in rounds"]
        host, engine, fitted = local(federation, "pca", rounds=Rounds(rounds=12))
        assert told["bytes"] == fitted.traffic.bytes
        assert told["bytes to guests"] == fitted.traffic.bytes_to_guests
        assert told["wire bytes"] > told["bytes"] + told["bytes to guests"]
        federation.outcome(federation.predict())
        new = read_table(tmp_path / "new.csv", id="customer")
        expected = protocol.predict(host, new, engine).outputs[:, 1]
        assert predictions(federation) == dict(zip(new.ids, expected.tolist(), strict=True))
    finally:
        federation.close()


def test_alignment_over_the_same_connection(running):
    told = running.outcome(running.fit(running.write_run(run="aligned", align=True), "aligned"))
    assert told["took part"] == ["shop", "telco"]
    assert told["alignment bytes"] > 0
    assert told["id bytes"] == 0  # the agreed order is all that rows need
    assert all(guest["overlap"] == 1 for guest in told["guests"].values())
    events = [event["stage"] for event in running.events("aligned") if event.get("state") == "received"]
    assert events == ["align", "align", "learn", "learn"]


def test_hints_reach_a_guest_that_allows_them(running):
    """Policies are read at each request: the shop says yes, the telco does not."""
    before = (running.kits / "shop" / "policy.toml").read_text()
    running.policy("shop", before.replace("hints = false", "hints = true"))
    told = running.outcome(running.fit(running.write_run(run="hinted", hints=2.0, epochs=2), "hinted"))
    running.policy("shop", before)
    assert told["took part"] == ["shop"]
    assert "telco does not learn with hints (hints = false)" in told["refused"]["telco"]
    assert (told["hinted"]["label"], told["hinted"]["epsilon"], told["hinted"]["spent"]) == ("churned", 2.0, 2.0)
    message = received(running, "hinted")["shop"]
    assert (message.hints, message.learner) == (
        "2.0 churned",
        "pca",
    )  # a table that did not ask for the learner "hinted"
    assert "2.0 churned" in (running.kits / "shop" / "answers" / "record.jsonl").read_text()


@pytest.mark.slow_federation
def test_alignment_leaves_time_for_those_who_are_there(parties):
    federation = parties()
    federation.start("bank", "shop")
    told = federation.outcome(federation.fit(federation.write_run(align=True, deadline="60s")))
    assert told["took part"] == ["shop"]
    assert told["late"] == ["telco"]


@pytest.mark.slow_federation
def test_an_aligned_run_that_a_guest_joins_is_the_same_request_to_the_others(running):
    """Another alignment would name the rows anew: another learning, which guests refuse by default."""
    told = running.outcome(running.fit(running.write_run(run="joined", align=True, guests=["shop"]), "joined"))
    assert told["took part"] == ["shop"]
    both = running.write_run(run="joined", align=True)
    assert running.outcome(running.fit(both, "joined", "--refit"))["took part"] == ["shop", "telco"]


@pytest.mark.slow_federation
def test_a_second_learning_in_a_run_is_refused_and_advice_says_so(running):
    running.outcome(running.fit(running.write_run(run="once", guests=["shop"]), "once"))
    other = running.write_run(run="once", guests=["shop"], dim=2)
    code, error = running.error(running.fit(other, "twice"))
    assert code == 6
    assert "shop has learnt once in run 'once', and allows once in a run (max_learnings)" in error
    assert "Waiting does not help with shop, which refused" in error
    assert "Wait longer" not in error


@pytest.mark.slow_federation
def test_started_again_asks_nobody_twice(running):
    run = running.write_run(run="again")
    running.outcome(running.fit(run, "again"))
    kept = {guest: running.answers(guest) for guest in running.guests}
    code, error = running.error(running.fit(run, "again"))
    assert code == 3
    assert "--refit" in error
    told = running.outcome(running.fit(run, "again", "--refit"))
    assert [guest["jobs"] for guest in told["guests"].values()] == [0, 0]
    assert {guest: running.answers(guest) for guest in running.guests} == kept
    told = running.outcome(running.fit(run, "elsewhere"))  # guests are asked, and answer from what they keep
    assert [guest["jobs"] for guest in told["guests"].values()] == [1, 1]
    assert {guest: running.answers(guest) for guest in running.guests} == kept
    assert running.log("shop").count("was answered before") == 1


@pytest.mark.slow_federation
def test_with_a_shared_secret(parties):
    federation = parties()
    federation.start("bank", "shop")
    federation.start("telco", secret=None)
    told = federation.outcome(federation.fit(federation.write_run(deadline="40s")))
    assert told["took part"] == ["shop"]
    assert "names rows with a secret, and telco has none" in told["refused"]["telco"]
    assert received(federation, "bank")["shop"].naming.startswith("keyed ")
    told = federation.outcome(federation.predict())
    assert told["guests"] == {"shop": 1.0}


def test_with_a_budget(parties):
    federation = parties()
    bounds = "bounds = [-6, 6]\n"
    (federation.folder / "public.toml").write_text(bounds)
    (federation.folder / "bank-public.toml").write_text(bounds + "labels = [0, 1]\n")
    federation.policy("shop", 'budget = "required"\nmax_epsilon = 5\n')
    federation.policy("telco", 'budget = "required"\nmax_epsilon = 1\n')
    federation.start("bank")
    for guest in federation.guests:
        federation.start(guest, public=federation.folder / "public.toml")
    run = federation.write_run(task="classification", host_epochs=None)
    with run.open("a") as file:
        file.write('[budget]\nepsilon = 4.0\ndelta = 1e-4\npublic = "bank-public.toml"\n')
    told = federation.outcome(federation.fit(run))
    assert told["took part"] == ["shop"]
    assert "max_epsilon" in told["refused"]["telco"]
    assert 0 < told["epsilon"] <= 4.0


def test_what_is_logged_names_no_value(running):
    running.outcome(running.fit(running.write_run(run="logged"), "logged"))
    events = running.events("logged")
    assert {"start", "learn", "end"} <= {event["stage"] for event in events}
    states = [event["state"] for event in events if event.get("guest") == "shop"]
    assert states[0] == "queued"
    assert states[-1] == "received"
    last = events[-1]
    assert last["guests"]["shop"].keys() >= {"bytes", "payload bytes", "wire bytes", "seconds"}
    told = json.dumps(events) + running.log("bank") + running.log("shop") + running.log("telco")
    for guest in running.guests:
        text = (running.folder / f"{guest}.csv").read_text()
        for line in text.splitlines()[1:6]:
            assert not [value for value in line.split(",") if value in told]
