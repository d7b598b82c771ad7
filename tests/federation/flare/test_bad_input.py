"""Slips of the pen and things that are gone: told on the side that can mend them, at once, in a sentence."""

from __future__ import annotations

import csv
import os
import re
import shutil
import socket
import sys

import pytest

import fedonce
from fedonce.cli import entry
from fedonce.federation.flare import kits, sites
from tests.federation.parties import Parties

pytest.importorskip("nvflare")
real = pytest.mark.federation  # starts processes


@pytest.fixture
def call(capsys, monkeypatch):
    """Run a command that must fail; return its exit code and what it said, on one line."""

    def run(*arguments) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["fedonce", "federation", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            entry.main()
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return int(str(ended.value.code)), re.sub(r"[\s│╭╮╰╯─]+", " ", err)

    return run


@pytest.fixture(scope="module")
def silent(tmp_path_factory):
    """A federation of which nobody was started."""
    return Parties(tmp_path_factory.mktemp("silent"), rows=60)


@pytest.fixture
def own(silent, tmp_path):
    """A copy of its kits that a test may spoil."""
    shutil.copytree(silent.kits, tmp_path / "kits")
    (tmp_path / "kits").chmod(0o700)
    return tmp_path / "kits"


# The host's run file and table.

RUNS = {
    "key": ({"lerner": "pca"}, "a run file has no key 'lerner'; did you mean 'learner'"),
    "guest": (
        {"guests": ["shop", "telko"]},
        "names 'telko', and the federation has no such guest; did you mean 'telco'",
    ),
    "learner": ({"learner": "pcaa"}, "'learner' names a learner that does not exist, 'pcaa'; did you mean 'pca'"),
    "label": ({"label": "churnt"}, "'churnt'"),
    "id": ({"id": "custmer"}, "no id column 'custmer'; did you mean 'customer'"),
    "columns": ({"columns": ["c0", "c99"]}, "'c99'"),
    "drop": ({"drop": ["c98"]}, "'c98'"),
    "table": ({"table": "bnak.csv"}, "bnak.csv"),
    "secret": ({"secret": "no.txt"}, "no.txt"),
    "deadline": ({"deadline": "soon"}, "'deadline' must be a time like 90s"),
}


@pytest.mark.parametrize("slip", RUNS)
def test_slips_in_a_run_file(silent, call, tmp_path, slip):
    settings, words = RUNS[slip]
    run = silent.write_run(f"{slip}.toml", **settings)
    code, said = call("fit", run, "--kit", silent.kits / "bank", "--out", tmp_path / "model")
    assert code == 3
    assert words in said
    assert not (tmp_path / "model").exists()


def test_a_guest_of_the_run_file_that_is_not_asked(silent, call, tmp_path):
    run = silent.write_run("section.toml", guest={"cinema": {"dim": 2}})
    code, said = call("fit", run, "--kit", silent.kits / "bank", "--out", tmp_path / "model")
    assert code == 3
    assert "[guest.cinema] is about a guest that 'guests' does not name" in said


def test_a_server_that_does_not_run(silent, call, tmp_path):
    code, said = call("fit", silent.write_run(), "--kit", silent.kits / "bank", "--out", tmp_path / "model")
    assert code == 7
    assert f"nothing listens on port {silent.port}. Start it: fedonce federation start {silent.kits}/bank" in said


def test_kits_of_the_wrong_party(silent, call, tmp_path):
    code, said = call("fit", silent.write_run(), "--kit", silent.kits / "shop", "--out", tmp_path / "model")
    assert code == 7
    assert "is that of the guest 'shop'; training and prediction are the host's" in said
    data = silent.folder / "bank.csv"
    code, said = call("start", silent.kits / "bank", "--data", data, "--id", "customer")
    assert code == 3
    assert "is the host's, whose table is given to `fit`; only guests name theirs (--data)" in said
    code, said = call("fit", silent.write_run(), "--out", tmp_path / "model")
    assert code == 3
    assert "--kit" in said


def test_out_that_is_a_file(silent, call, tmp_path):
    (tmp_path / "model").write_text("mine")
    code, said = call("fit", silent.write_run(), "--kit", silent.kits / "bank", "--out", tmp_path / "model")
    assert code == 3
    assert str(tmp_path / "model") in said
    assert (tmp_path / "model").read_text() == "mine"


def test_a_folder_without_a_model_of_a_federation(silent, call, tmp_path):
    new = silent.folder / "new.csv"
    code, said = call("predict", new, "--model", tmp_path, "--out", tmp_path / "predictions.csv")
    assert code == 3
    assert "has no model that was trained over a federation; name the folder that such a training wrote" in said
    assert "(`fedonce federation fit`). (--model)" in said
    code, said = call("predict", new, "--model", tmp_path, "--out", tmp_path / "predictions.doc")
    assert code == 3
    assert "predictions.doc" in said


# Kits.

SPOILT = {
    "folder": (lambda kit: kit.chmod(0o755), "is open to other users of this machine"),
    "key": (lambda kit: (kit / "client/startup/client.key").chmod(0o640), "client.key is open to other users"),
    "no key": (lambda kit: (kit / "client/startup/client.key").unlink(), "client.key is missing. Copy the kit again"),
    "no root": (lambda kit: (kit / "client/startup/rootCA.pem").unlink(), "rootCA.pem is missing. Copy the kit again"),
    "no facts": (lambda kit: (kit / "kit.toml").unlink(), "There is no kit in"),
    "facts": (lambda kit: (kit / "kit.toml").write_text("role = "), "kit.toml cannot be read"),
    "nonsense": (lambda kit: (kit / "client/startup/client.key").write_text("key"), "client.key is no private key"),
    "other key": (
        lambda kit: shutil.copy(kit.parent / "telco/client/startup/client.key", kit / "client/startup/client.key"),
        "client.key does not belong to the certificate beside it",
    ),
    "foreign file": (lambda kit: (kit / "client/local/custom.py").write_text(""), "FLARE might run it"),
}


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_kit_that_cannot_be_used(silent, own, call, spoil):
    change, words = SPOILT[spoil]
    change(own / "shop")
    code, said = call("start", own / "shop", "--data", silent.folder / "shop.csv", "--id", "customer")
    assert code == 7
    assert words in said
    assert not (own / "shop" / "process.json").exists()


def test_a_key_that_may_not_be_read(silent, own, call, monkeypatch):
    """Who is root may read all: the answer of the system is put on."""
    access = os.access
    monkeypatch.setattr(kits.os, "access", lambda path, mode: "client.key" not in str(path) and access(path, mode))
    code, said = call("start", own / "shop", "--data", silent.folder / "shop.csv", "--id", "customer")
    assert code == 7
    assert "client.key may not be read; start as the user who owns the kit" in said


def test_a_port_that_is_in_use(silent, call):
    with socket.socket() as other:
        other.bind(("127.0.0.1", silent.port))
        other.listen()
        code, said = call("start", silent.kits / "bank")
    assert code == 7
    assert f"Port {silent.port} of this machine is in use" in said


# What a guest says at its start.

STARTS = {
    "nothing": ({}, "", "has no table yet"),
    "no table": ({"--data": "gone.csv", "--id": "customer"}, "", "There is no file"),
    "no id": ({"--data": "shop.csv", "--id": "custmer"}, "", "has no id column 'custmer'; did you mean 'customer'"),
    "half": ({"--data": "shop.csv"}, "", "A guest's table is told as a whole"),
    "drop": ({"--data": "shop.csv", "--id": "customer", "--drop": "c44"}, "", "has no column 'c44'"),
    "not toml": ({"--data": "shop.csv", "--id": "customer"}, "max_dim = ", "policy.toml is not TOML"),
    "unknown key": (
        {"--data": "shop.csv", "--id": "customer"},
        "max_dims = 3",
        "has no key 'max_dims'; did you mean 'max_dim'",
    ),
    "value": ({"--data": "shop.csv", "--id": "customer"}, "max_dim = 0", "'max_dim' must be a whole number"),
    "forbidden": (
        {"--data": "shop.csv", "--id": "customer"},
        'forbid_columns = ["c4", "c_5"]',
        "'forbid_columns' names 'c_5', and the table has no such column; did you mean 'c5'",
    ),
}


@pytest.mark.parametrize("slip", STARTS)
def test_slips_at_the_start_of_a_guest(silent, own, call, slip):
    options, policy, words = STARTS[slip]
    if policy:
        (own / "shop" / "policy.toml").write_text(policy)
    given = [silent.folder / each if each.endswith(".csv") else each for pair in options.items() for each in pair]
    code, said = call("start", own / "shop", *given)
    assert code == 3
    assert words in said
    assert not (own / "shop" / "process.json").exists()


def test_tables_that_were_spoilt_since(silent, own, call):
    (own / "shop" / "guest.toml").write_text('data = "shop.csv"\nid = "customer"\ndorp = ["c4"]\n')
    code, said = call("start", own / "shop")
    assert code == 3
    assert "has no key 'dorp'; did you mean 'drop'" in said


# What only a guest can mend: the host sees a reason while it still waits, the guest's log has the rest.


def failure(federation, out, guest="shop"):
    """Return the reason of a guest's failure, as the host is told: without what is the guest's own."""
    reason = federation.wait_for(guest, "failed", out, timeout=60)["reason"]
    assert str(federation.folder) not in reason
    assert "csv" not in reason
    return reason


@real
@pytest.mark.slow_federation
def test_a_column_that_a_guest_does_not_have(running):
    run = running.write_run(run="salary", guest={"shop": {"columns": ["c4", "salary"]}})
    told = running.outcome(running.fit(run, "salary"), 60)
    assert told["took part"] == ["telco"]
    assert "shop offers no column 'salary': not in its table, or not allowed" in told["refused"]["shop"]
    assert "refused: shop offers no column 'salary'" in running.log("shop")


@real
@pytest.mark.slow_federation
def test_a_table_that_is_gone(running):
    table, away = running.folder / "shop.csv", running.folder / "away.csv"
    table.rename(away)
    try:
        run = running.write_run(run="gone", deadline="25s")
        fit = running.command("fit", run, "--kit", running.kits / "bank", "--out", running.folder / "gone")
        assert "the table of shop is not there; the guest must put it back" in failure(running, "gone")
        out, err = fit.communicate(timeout=120)
    finally:
        away.rename(table)
    assert fit.returncode == 0
    assert "shop: failed: the table of shop is not there" in err
    assert "shop: LATE, left out (zeros)" in out
    assert "--refit: the table of shop is not there" in out
    assert "telco: has 100.0 % of the rows" in out
    last = running.events("gone")[-1]
    assert (last["late"], list(last["failed"])) == (["shop"], ["shop"])
    assert str(table) in running.log("shop")
    assert "Traceback" not in out + err
    running.settle()
    told = running.outcome(running.fit(run, "gone", "--refit"))  # put back, it is asked again
    assert told["took part"] == ["shop", "telco"]


@real
@pytest.mark.slow_federation
@pytest.mark.parametrize("file", ["policy.toml", "guest.toml"])
def test_settings_of_a_guest_that_were_spoilt_since(running, file):
    """Mended while the host waits, the training goes on."""
    path = running.kits / "shop" / file
    before, name = path.read_text(), file.partition(".")[0]
    path.write_text(before + "nonsense = 1\n")
    try:
        fit = running.fit(running.write_run(run=name, deadline="90s"), name)
        assert "its log says why" in failure(running, name)
    finally:
        path.write_text(before)
    assert running.outcome(fit, 150)["took part"] == ["shop", "telco"]
    assert f"{file}: a " in running.log("shop")
    assert "has no key 'nonsense'" in running.log("shop")


@pytest.fixture(scope="module")
def trained(running):
    """The folder of a model of both guests."""
    assert running.outcome(running.fit(running.write_run(run="trained"), "trained"))["took part"] == ["shop", "telco"]
    return "trained"


@real
@pytest.mark.slow_federation
def test_a_table_that_changed_since_training(running, trained):
    table = running.folder / "shop.csv"
    before = table.read_text()
    table.write_text("".join(line.rpartition(",")[0] + "\n" for line in before.splitlines()))
    try:
        predict = running.predict(trained, "new.csv", "--deadline", "20s", "--min-guests", "1")
        said = failure(running, trained)
        told = running.outcome(predict, 90)
    finally:
        table.write_text(before)
    assert "the table of shop has changed" in said
    assert "c7" not in said
    assert (told["guests"], told["absent"]) == ({"telco": 1.0}, ["shop"])
    assert told["failed"]["shop"] == said
    assert "'c7'" in running.log("shop")


@real
@pytest.mark.slow_federation
def test_no_id_column_in_the_rows_to_predict(running, trained, call):
    lines = (running.folder / "new.csv").read_text().splitlines()
    (running.folder / "no-ids.csv").write_text("".join(line.partition(",")[2] + "\n" for line in lines))
    code, said = call("predict", running.folder / "no-ids.csv", "--model", running.folder / trained)
    assert code == 3
    assert "no id column 'customer'" in said


# A federation of two parties, whose guest comes and goes.


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    federation = Parties(tmp_path_factory.mktemp("alone"), guests=("shop",), rows=200)
    try:
        federation.start("bank")
        yield federation
    finally:
        federation.close()


@real
@pytest.mark.slow_federation
def test_versions_that_differ(alone, monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import fedonce\nfedonce.__version__ = '9.9'\n")
    with monkeypatch.context() as environment:
        environment.setenv("PYTHONPATH", str(tmp_path))
        alone.start("shop")
    code, said = alone.error(alone.fit(alone.write_run(run="versions"), "versions"), 60)
    assert code == 6
    words = f"shop has fedonce 9.9, bank has {fedonce.__version__}; install the same version at both"
    assert words in said
    assert f"refused: {words}" in alone.log("shop")
    alone.stop("shop")


@real
@pytest.mark.slow_federation
def test_kits_that_were_moved_and_are_of_another_version(alone):
    """A kit is its party's identity: it goes with the party, also to the next version."""
    alone.stop("bank")
    for name in ("bank", "shop"):
        facts = alone.kits / name / "kit.toml"
        facts.write_text(facts.read_text().replace(fedonce.__version__, "0.0.1"))
    alone.kits.rename(alone.folder / "moved")
    alone.kits = alone.folder / "moved"
    alone.start("bank", "shop")
    told = alone.outcome(alone.fit(alone.write_run(run="moved"), "moved"))
    assert told["took part"] == ["shop"]
    assert alone.outcome(alone.predict("moved"))["guests"] == {"shop": 1.0}


@real
@pytest.mark.slow_federation
def test_all_guests_are_away(alone):
    """After the test above, whose model is used."""
    alone.stop("shop")
    (alone.folder / "predictions.csv").unlink()
    code, said = alone.error(alone.predict("moved", "new.csv", "--deadline", "5s"), 60)
    assert code == 6
    assert "'shop' has sent no message (100.0 % in training): late" in said
    assert "--allow-absent" in said
    assert not (alone.folder / "predictions.csv").exists()
    told = alone.outcome(alone.predict("moved", "new.csv", "--deadline", "5s", "--allow-absent"))
    assert (told["guests"], told["absent"], told["late"]) == ({}, ["shop"], ["shop"])
    with (alone.folder / "predictions.csv").open() as file:
        assert len(list(csv.DictReader(file))) == told["rows"] == 200
    code, said = alone.error(alone.fit(alone.write_run(run="nobody", deadline="5s"), "nobody"), 60)
    assert code == 6
    assert "At least 1 guest must answer, and nobody did. shop: late" in said
    assert "min_guests" in said
    alone.settle()


@real
@pytest.mark.slow_federation
def test_the_state_of_a_guest_says_what_is_wrong(alone):
    alone.stop("bank")
    site = sites.start(alone.kit("shop"), wait=2)
    assert (site.alive, site.connected, site.note) == (True, False, "not connected yet, keeps trying")
    alone.stop("shop")
