from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from fedonce.cli.entry import exit_code
from fedonce.cli.federation_kits import federation
from fedonce.errors import FederationError, InputError
from fedonce.federation.flare import hardening, sessions, site_processes, sites
from fedonce.federation.flare.jobs import write_job
from fedonce.federation.flare.kits import make_kits, open_kit
from fedonce.federation.record import Entry, Record
from fedonce.federation.tables import GuestTables
from tests.federation.parties import free_port, slow

pytest.importorskip("nvflare")
real = pytest.mark.federation  # starts processes


def run(*arguments):
    return CliRunner().invoke(federation, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path):
    """Kits, a table, and the end of whatever a test starts from them."""
    make_kits("127.0.0.1", "bank", ["shop", "telco"], tmp_path / "kits", free_port())
    (tmp_path / "shop.csv").write_text("customer,visits,zip\na,1,2\nb,3,4\n")
    yield tmp_path
    for path in (tmp_path / "kits").glob("*/kit.toml"):
        with contextlib.suppress(FederationError):
            sites.stop(open_kit(path.parent), grace=3.0)


@pytest.fixture
def bank(folder):
    return open_kit(folder / "kits" / "bank")


@pytest.fixture
def shop(folder):
    kit = open_kit(folder / "kits" / "shop")
    sites.configure_guest(kit, folder / "shop.csv", "customer")
    return kit


def wait_for(there, seconds=30.0):
    until = time.monotonic() + seconds
    while not (found := there()):
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.2)
    return found


def test_a_guest_says_what_it_takes_part_with(folder, shop):
    sites.configure_guest(shop, folder / "shop.csv", "customer", drop=["zip"], types={"visits": "number"})
    tables = GuestTables.from_file(shop.tables)
    assert tables == GuestTables(folder / "shop.csv", "customer", drop=("zip",), types={"visits": "number"})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"data": "none.csv"}, "no file .*none.csv"),
        ({"id": "custmer"}, "no id column 'custmer'; did you mean 'customer'"),
        ({"drop": ["zap"]}, "no column 'zap'"),
        ({"types": {"vists": "number"}}, "no column 'vists'; did you mean 'visits'"),
        ({"predict": "none.csv"}, "predict of this guest"),
        ({"secret": "none"}, "secret of this guest"),
        ({"data": "folder.csv"}, "no file .*folder.csv"),
        ({"data": "broken.parquet"}, "broken.parquet cannot be read"),
        ({"data": "shop.xls"}, "must end in one of"),
    ],
)
def test_a_slip_in_what_a_guest_says_is_told_at_once(folder, shop, settings, said):
    (folder / "folder.csv").mkdir()
    (folder / "broken.parquet").write_text("no parquet")
    (folder / "shop.xls").write_text("x")
    given = {"data": "shop.csv", "id": "customer"} | settings
    given |= {key: folder / given[key] for key in ("data", "predict", "secret") if key in given}
    before = shop.tables.read_text()
    with pytest.raises(InputError, match=said):
        sites.configure_guest(shop, **given)
    assert shop.tables.read_text() == before


def test_the_host_has_no_table_of_a_guest(folder, bank):
    with pytest.raises(InputError, match="is the host's"):
        sites.configure_guest(bank, folder / "shop.csv", "customer")


def test_a_guest_without_a_table_does_not_start(folder):
    with pytest.raises(InputError, match="which column has its ids .data, id."):
        sites.start(open_kit(folder / "kits" / "telco"))


def test_a_table_that_is_gone_is_told_at_the_start(folder, shop):
    (folder / "shop.csv").unlink()
    with pytest.raises(InputError, match="no file .*shop.csv"):
        sites.start(shop)


def test_options_of_a_table_come_with_the_table(folder):
    found = run("start", folder / "kits" / "telco", "--drop", "zip").exception
    assert isinstance(found, InputError)
    assert "Got --drop" in str(found)


def test_a_port_that_is_in_use_is_told_at_once(bank):
    with socket.socket() as other:
        other.bind(("127.0.0.1", bank.port))
        other.listen()
        with pytest.raises(
            FederationError, match=rf"Port {bank.port} .* in use.*federation init`, server 127.0.0.1:PORT"
        ):
            sites.start(bank)


def test_a_path_with_a_space_is_refused(folder, shop):
    spaced = folder / "my kits"
    shutil.move(folder / "kits", spaced)
    with pytest.raises(FederationError, match="spaces or quotes"):
        sites.start(open_kit(spaced / "shop"))


def test_a_number_that_another_process_has_now_is_not_taken_for_ours(shop):
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        shop.process.write_text(json.dumps({"pid": other.pid, "created": time.time() - 1000}))
        assert not sites.status(shop).alive
        assert sites.stop(shop) is False
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_errors_of_the_machinery_have_an_exit_code_of_their_own():
    assert exit_code(FederationError("no kit")) == 7


def test_nothing_runs_yet(bank, shop):
    assert sites.status(bank).note == "not running"
    assert sites.stop(bank) is False
    assert json.loads(run("status", shop.path, "--json").stdout)["alive"] is False
    assert run("stop", shop.path, "--quiet").stdout == "shop did not run\n"


def test_a_guest_s_status_says_what_it_answered(shop, folder, tmp_path):
    assert json.loads(run("status", folder / "kits" / "telco", "--json").stdout)["allowance"] is None  # no table yet
    assert "0 of 12 learnings in the last 365 days" in run("status", shop.path).stdout
    assert not (shop.path / "answers").exists()  # to look makes nothing
    record = Record(shop.path / "answers")
    for what, dim in (("learn", 4), ("represent", 4)):
        record.enter(
            Entry(what, "loans", "0" * 32, dim=dim, rows=4000, bytes=39498, sha256="1", rebuilt={"best": 0.31})
        )
    record.enter(Entry("round", "loans", "2" * 32, rounds=50))
    record.enter(Entry("tuned", "loans", "2" * 32, dim=4))
    told = run("status", shop.path).stdout
    for line in (
        r"learnt  1 of 12 learnings in the last 365 days",
        r"runs    loans: 1 of 1, 50 of 0 rounds",
        r"values  8 of 64 per row, over all runs",
        r"last    \d{4}-\d\d-\d\d \d\d:\d\d  tuned, run loans, 4 values per row",
        r"        \d{4}-\d\d-\d\d \d\d:\d\d  represent, run loans, 4,000 rows x 4 values, 39,498 bytes, rebuilt to 0\.31",
    ):
        assert re.search(f"^{line}$", told, re.MULTILINE), (line, told)
    found = json.loads(run("status", shop.path, "--json").stdout)["allowance"]
    assert (found["learnings"], found["values_per_row"], len(found["last"])) == (1, 8, 3)
    shop.policy.write_text("nonsense = 1\n")
    told = run("status", shop.path)
    assert told.exit_code == 0
    assert "a policy has no key 'nonsense'" in told.stdout


def test_a_session_without_a_server_is_refused_at_once(bank, shop):
    with pytest.raises(FederationError, match=rf"nothing listens on port {bank.port}.*federation start"):
        sessions.open_session(bank)
    with pytest.raises(FederationError, match="of the guest 'shop'"):
        sessions.open_session(shop)


def test_the_last_words_are_the_error_if_there_is_one(shop):
    shop.log.write_text(
        "2026-01-01 10:00:00,123 - Cell - INFO - hello\n2026-01-01 10:00:01,123 - Deployer - ERROR - no room\nbye\n\n"
    )
    assert sites.last_words(shop) == "no room"
    shop.log.write_text("Traceback (most recent call last):\n  x\nfedonce.errors.InputError: the thing\n")
    assert sites.last_words(shop) == "fedonce.errors.InputError: the thing"
    shop.log.write_text("")
    assert sites.last_words(shop) == "it said nothing"


def test_a_kit_brings_no_code(folder, shop, monkeypatch):
    """Not even where the kit is not looked at before the start."""
    for place in ("fedonce/__init__.py", "json.py"):
        (shop.site / place).parent.mkdir(exist_ok=True)
        (shop.site / place).write_text(f"open({str(folder / 'ran')!r}, 'w')")
    with pytest.raises(FederationError, match="does not belong there"):
        sites.start(shop)
    monkeypatch.setattr(hardening, "_refuse_others", lambda folder: None)  # the process looks, too
    for foreground in (False, True):
        with pytest.raises(FederationError, match="ended at once: .*does not belong there"):
            sites.start(shop, foreground)
    assert not (folder / "ran").exists()


def test_jobs_inherit_that_no_module_is_found_where_they_work(shop, monkeypatch):
    launched = {}
    monkeypatch.setattr(
        site_processes.subprocess, "Popen", lambda command, **given: launched.update(given, command=command)
    )
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    site_processes.launch(shop)
    assert launched["env"]["PYTHONSAFEPATH"] == "1"
    assert "-P" in launched["command"]


@real
@pytest.mark.parametrize("address", ["127.0.0.1", *slow("localhost", "this machine")])
def test_a_federation_starts_and_stops(tmp_path, address):
    if address == "this machine":
        address = socket.gethostname()
        try:
            socket.gethostbyname(address)
        except OSError:
            pytest.skip(f"this machine does not know its own name {address}")
    make_kits(address, "bank", ["shop", "telco"], tmp_path / "kits", free_port())
    (tmp_path / "shop.csv").write_text("customer,visits\na,1\n")
    bank, shop = (tmp_path / "kits" / name for name in ("bank", "shop"))
    try:
        told = run("start", bank)
        assert told.exit_code == 0, (told.output, told.exception)
        assert "listening" in told.stdout
        told = json.loads(run("start", shop, "--data", tmp_path / "shop.csv", "--id", "customer", "--json").stdout)
        assert told["connected"]
        state = json.loads(run("status", bank, "--json").stdout)
        assert (state["guests"], state["absent"], state["running"], state["queued"]) == (["shop"], ["telco"], [], [])
        assert run("status", shop).stdout.splitlines()[2] == "state    connected"
        assert open_kit(bank).log.stat().st_mode & 0o077 == 0
        with pytest.raises(FederationError, match="runs already, as process"):
            sites.start(open_kit(shop))
    finally:
        found = [process for path in (bank, shop) for process in site_processes.processes_of(open_kit(path))]
        assert run("stop", shop).stdout == "shop has ended\n"
        assert run("stop", bank, "--json").exit_code == 0
    assert len(found) == 2
    assert not any(process.is_running() for process in found)


@real
@pytest.mark.slow_federation
def test_a_guest_waits_for_its_host(bank, shop):
    site = sites.start(shop, wait=2.0)
    assert site.alive
    assert (site.connected, site.note) == (False, "not connected yet, keeps trying")
    sites.start(bank)
    wait_for(lambda: sites.status(shop).connected)
    wait_for(lambda: sites.status(bank).guests == ("shop",))


@real
@pytest.mark.slow_federation
def test_a_guest_comes_back_to_a_server_that_was_killed(bank, shop):
    sites.start(bank)
    sites.start(shop)
    killed = site_processes.process_of(bank)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait(10)
    assert not sites.status(bank).alive
    wait_for(lambda: not sites.status(shop).connected)
    sites.start(bank)
    wait_for(lambda: sites.status(bank).guests == ("shop",))


@real
def test_what_dies_at_once_says_why(bank):
    (bank.site / "startup" / "server.key").write_text("no key")
    with pytest.raises(FederationError, match=r"'bank' ended at once: .*log.txt"):
        sites.start(bank)
    assert not sites.status(bank).alive


@real
def test_in_the_foreground_a_signal_ends_it(shop):
    command = [sys.executable, "-m", "fedonce.cli", "federation", "start", str(shop.path), "--foreground"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        wait_for(lambda: sites.status(shop).alive)
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=20)[0] == "shop has ended\n"
        assert not site_processes.processes_of(shop)
    finally:
        process.kill()
        process.wait()


@real
@pytest.mark.slow_federation
def test_a_server_of_another_federation_is_not_obeyed(folder, bank):
    """A session is refused by a server whose authority is another one, and not waited for."""
    make_kits("127.0.0.1", "bank", ["shop"], folder / "other", bank.port)
    other = open_kit(folder / "other" / "bank")
    sites.start(bank)
    with pytest.raises(FederationError, match="does not accept the host 'bank'.*another federation"):
        sessions.open_session(other, timeout=4.0)


def write_harmful_job(folder, harm):
    """Write a job as the host's, whose part for the guest is not what we would write."""
    write_job(folder / harm, "harm", {"shop": b""})
    guest = folder / harm / "guest_shop"
    if harm == "code":
        (guest / "custom").mkdir()
        (guest / "custom" / "sitecustomize.py").write_text(f"open({str(folder / 'harmed')!r}, 'w')")
    else:
        config = guest / "config" / "config_fed_client.json"
        content = json.loads(config.read_text())
        content["executors"][0]["executor"] = {"path": "nvflare.app_common.np.np_trainer.NPTrainer", "args": {}}
        config.write_text(json.dumps(content))
    return str(folder / harm)


@real
def test_what_a_host_cannot_do_at_a_guest(folder, bank, shop):
    """No command reads its files or ends it, no code travels, no class but ours runs."""
    sites.start(bank)
    sites.start(shop)
    session = sessions.open_session(bank)
    try:
        for command in ("cat shop local/resources.json", "ls shop", "sys_info client shop", "restart client shop"):
            assert "invalid_request" in str(session.api.do_command(command)), command
        session.api.do_command("shutdown client shop")
        jobs = {harm: session.submit_job(write_harmful_job(folder, harm)) for harm in ("code", "class")}
        for job in jobs.values():
            ended = wait_for(
                lambda job=job: (state := session.get_job_meta(job)["status"]).startswith("FINISHED") and state
            )
            assert ended != "FINISHED:COMPLETED"
    finally:
        sessions.close_session(session)
    assert not (folder / "harmed").exists()
    assert not (shop.site / jobs["code"] / "app_shop" / "custom").exists()
    assert "NPTrainer' at config path 'executors.#1.executor' is not in allow_list" in shop.log.read_text()
    assert sites.status(shop).connected
