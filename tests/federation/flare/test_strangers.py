"""Strangers, and partners who ask for more than a partner may: each is turned away, and a log says so."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fedonce.errors import FederationError
from fedonce.federation.flare import hardening, sessions, site_processes, sites
from fedonce.federation.flare.jobs import write_job
from fedonce.federation.flare.kits import make_kits, open_kit
from tests.federation.parties import Parties, slow

pytestmark = pytest.mark.federation

# What runs where a party has taken the guards off: FLARE with every right given to everybody.
UNGUARDED = """
from fedonce.federation.flare import hardening, process
roles = ("project_admin", "org_admin", "lead", "member")
hardening._permissions = lambda operate: {"format_version": "1.0", "permissions": dict.fromkeys(roles, "any")}
hardening.SERVER_CLASSES[:] = ["*"]
process.guard = lambda kit: None
process.main()
"""
# A guest whose kit is not looked at before it starts.
UNCHECKED = """
from fedonce.federation.flare import kits, process
process.open_kit = kits._read_facts
process.main()
"""


def sign(federation, name, org=None, role=None, ended=False):
    """Return a key and a certificate of the federation's authority, as PEM."""
    from nvflare.lighter import utils

    authority = json.loads(federation.kit("bank").authority.read_text())
    root, root_key = (
        utils.load_crt_bytes(authority["root_cert"].encode()),
        utils.load_private_key(authority["root_pri_key"]),
    )
    key, public = utils.generate_keys()
    now = datetime.now(UTC)
    begin, end = (now - timedelta(days=9), now - timedelta(days=1)) if ended else (now, now + timedelta(days=1))
    issuer = utils.Identity(root.subject.rfc4514_string().partition("CN=")[2].partition(",")[0])
    certificate = utils.generate_cert(
        utils.Identity(name, org, role), issuer, root_key, public, not_valid_before=begin, not_valid_after=end
    )
    return utils.serialize_pri_key(key), utils.serialize_cert(certificate)


def knock(port, certificate=None, key=None):
    """Speak TLS to the server as a client that does not ask who the server is; return what it says, nothing if it hangs up."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as plain, context.wrap_socket(plain) as safe:
            safe.sendall(b"GET /f3 HTTP/1.1\r\nHost: bank\r\n\r\n")
            return safe.recv(1000)
    except (ssl.SSLError, ConnectionError):
        return b""


def logged(federation, name, *words, begin=0):
    """Wait for a line of a party's log that has all these words, and return it."""

    def found():
        lines = federation.log(name)[begin:].splitlines()
        return next((line for line in lines if all(word in line for word in words)), None)

    return federation.wait_until(found, f"{name} logs {words}: {federation.log(name)[begin:][-3000:]}", 40)


@contextmanager
def run_as(code, kit):
    """Run a kit's process with other code than ours; end it, and the jobs that it started."""
    with (kit.path / "log.txt").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", code, str(kit.path)], cwd=kit.site, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        jobs = site_processes.processes_of(kit)
        process.kill()
        process.wait()
        for job in jobs:
            with suppress(Exception):
                job.kill()


def works(federation, run):
    """A training with both guests goes as if nothing had been."""
    told = federation.outcome(federation.fit(federation.write_run(run=run), run))
    assert told["took part"] == ["shop", "telco"]


def copy_kit(federation, name, folder):
    shutil.copytree(federation.kits / name, folder)
    (folder / "process.json").unlink(missing_ok=True)
    (folder / "log.txt").unlink(missing_ok=True)
    folder.chmod(0o700)
    return folder


def put(kit, key, certificate, side="client"):
    """Give a kit another identity."""
    (kit.path / side / "startup" / "client.key").write_bytes(key)
    (kit.path / side / "startup" / "client.crt").write_bytes(certificate)
    return kit


# a) No certificate.


def test_no_certificate(running):
    assert knock(running.port) == b""
    logged(running, "bank", "refused: a connection from 127.0.0.1", "peer did not return a certificate")


@pytest.mark.slow_federation
@pytest.mark.parametrize("file", ["client.key", "client.crt"])
def test_a_guest_without_its_certificate(running, tmp_path, file):
    path = copy_kit(running, "shop", tmp_path / "shop")
    (path / "client" / "startup" / file).unlink()
    with pytest.raises(FederationError, match=f"{file} is missing"):
        open_kit(path)
    kit = replace(running.kit("shop"), path=path)
    with run_as(UNCHECKED, kit) as process:
        assert process.wait(60) != 0
    assert f"cannot connect: FileNotFoundError: [Errno 2] No such file or directory: '{path}" in kit.log.read_text()


# b) Certificates of another federation.


@pytest.fixture(scope="module")
def others(running, tmp_path_factory):
    """Kits of another federation with the same names, for the port of the first."""
    folder = tmp_path_factory.mktemp("others")
    make_kits("127.0.0.1", "bank", ["shop", "telco"], folder, running.port)
    return folder


def test_a_guest_of_another_federation(running, others):
    kit = open_kit(others / "shop")
    sites.configure_guest(kit, running.folder / "shop.csv", "customer")
    begin = len(running.log("bank"))
    try:
        assert not sites.start(kit, wait=2).connected
        said = f"not connected yet (at 127.0.0.1:{running.port} is the server of another federation), keeps trying"
        running.wait_until(lambda: sites.status(kit).note == said, "the guest says why it is not connected")
        # Each distrusts the other: the guest leaves first.
        logged(running, "bank", "refused: a connection from 127.0.0.1: it left when it saw the cert", begin=begin)
    finally:
        sites.stop(kit)
    startup = kit.site / "startup"
    begin = len(running.log("bank"))
    assert knock(running.port, startup / "client.crt", startup / "client.key") == b""
    logged(running, "bank", "refused: a connection from 127.0.0.1", "certificate verify failed", begin=begin)


def test_an_administrator_of_another_federation(running, others):
    begin = len(running.log("bank"))
    with pytest.raises(FederationError, match="does not accept the host 'bank'.*another federation"):
        sessions.open_session(open_kit(others / "bank"), timeout=4)
    logged(running, "bank", "refused: a connection from 127.0.0.1", begin=begin)


# c) Certificates that ended.


def test_a_certificate_that_ended(running, tmp_path):
    kit = replace(running.kit("shop"), path=copy_kit(running, "shop", tmp_path / "shop"))
    put(kit, *sign(running, "shop", "guest", ended=True))
    with pytest.raises(FederationError, match="client.crt of 'shop' ended on"):
        open_kit(kit.path)
    with run_as(UNCHECKED, kit) as process:  # the guest's FLARE does not send it
        assert process.wait(60) != 0
    assert "cannot connect: InvalidCertChain" in kit.log.read_text()
    startup, begin = kit.site / "startup", len(running.log("bank"))
    assert knock(running.port, startup / "client.crt", startup / "client.key") == b""
    logged(running, "bank", "refused: a connection from 127.0.0.1", "certificate has expired", begin=begin)


def test_a_guest_under_the_name_of_another(running, tmp_path):
    """The shop's certificate is good, and it is not the telco's."""
    kit = replace(running.kit("telco"), path=copy_kit(running, "telco", tmp_path / "telco"))
    for name in ("client.key", "client.crt"):
        shutil.copy(running.kit("shop").site / "startup" / name, kit.site / "startup" / name)
    begin = len(running.log("bank"))
    with run_as(UNCHECKED, kit):
        logged(running, "bank", "authenticated as 'shop' but claimed endpoint 'telco'", "'telco'", begin=begin)
    assert sites.REGISTERED not in kit.log.read_text()


# d) Something else than TLS.


@pytest.mark.slow_federation
def test_plain_bytes(running):
    for content in (b"GET / HTTP/1.1\r\nHost: bank\r\n\r\n", bytes(range(256)) * 40, b""):
        with socket.create_connection(("127.0.0.1", running.port), timeout=20) as plain, suppress(ConnectionError):
            plain.sendall(content)
            assert content or plain.close() is None
            if content:
                plain.recv(1000)
    logged(running, "bank", "refused: a connection from 127.0.0.1", "http request")
    logged(running, "bank", "refused: a connection from 127.0.0.1", "wrong version number")
    works(running, "after-noise")


# e) Who may submit jobs.


def session_as(running, folder, name, key, certificate, kit=None):
    """Open a session under a name, with a key and a certificate."""
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    kit = kit or running.kit("bank")
    admin = folder / "admin"
    shutil.copytree(kit.admin, admin, dirs_exist_ok=True)
    hardening.write_admin(admin, kit.server, kit.port, kit.host)
    put(replace(kit, path=folder), key, certificate, "admin")
    config = admin / "startup" / "fed_admin.json"
    content = json.loads(config.read_text())
    content["admin"]["username"] = name
    config.write_text(json.dumps(content))
    return new_secure_session(name, str(admin), timeout=8, auto_login_max_tries=1)


def test_a_guest_gives_no_commands(running, tmp_path):
    from nvflare.fuel.flare_api.api_spec import AuthenticationError

    startup = running.kit("shop").site / "startup"
    identity = [(startup / name).read_bytes() for name in ("client.key", "client.crt")]
    with pytest.raises(AuthenticationError):
        session_as(running, tmp_path, "shop", *identity)
    logged(running, "bank", "refused: 'shop' may not give commands here")
    with pytest.raises(Exception, match=".+"):  # under the host's name
        session_as(running, tmp_path, running.kit("bank").admin_name, *identity)


@pytest.mark.parametrize("role", ["member", *slow("project_admin", "org_admin", "super", None)])
def test_another_role_submits_no_job(running, tmp_path, role):
    """Not even under the host's own name."""
    from nvflare.fuel.flare_api.api_spec import AuthorizationError

    name = running.kit("bank").admin_name
    session = session_as(running, tmp_path, name, *sign(running, name, "host", role))
    try:
        with pytest.raises(AuthorizationError):
            session.submit_job(str(write_job(tmp_path / "job", "job", {"shop": b""})))
        with pytest.raises(AuthorizationError):
            session.list_jobs()
    finally:
        sessions.close_session(session)
    logged(running, "bank", f"refused: '{name}' with the role '{role or ''}' may not 'submit_job' at bank")


def test_a_second_host_is_not_obeyed(running, tmp_path):
    """Nor by the server: the authority could sign more of them than the guests know of."""
    from nvflare.fuel.flare_api.api_spec import AuthenticationError

    with pytest.raises(AuthenticationError):
        session_as(running, tmp_path, "store@host.fedonce", *sign(running, "store@host.fedonce", "host", "lead"))
    logged(running, "bank", "refused: 'store@host.fedonce' may not give commands here")


# f) Jobs that bring code, or ask for other code; g) commands to guests.


def harm_config(folder, change):
    config = folder / "guest_shop" / "config" / "config_fed_client.json"
    content = json.loads(config.read_text())
    change(content)
    config.write_text(json.dumps(content))


def harm_meta(folder, **values):
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(meta | values))


def harmful(folder, harm):
    """Write a job for the shop whose part is not what we would write."""
    write_job(folder, "harm", {"shop": b""})
    answer = {"id": "answer", "path": "fedonce.federation.guest_app.Answer", "args": {}}
    bad = {
        "flare": {"path": "nvflare.app_common.np.np_trainer.NPTrainer", "args": {}},
        "process": {"path": "subprocess.Popen", "args": {"args": ["touch", str(folder.parent / "harmed")]}},
        "import": {"path": "fedonce.federation.guest_app.FileStreamer", "args": {}},
        "nested": answer | {"args": {"patience": {"path": "subprocess.Popen", "args": {"args": ["true"]}}}},
        "argument": answer | {"args": {"patience": 1.0, "kit": "/"}},
    }
    if harm.endswith("code"):
        side = "server" if harm == "server code" else "guest_shop"
        (folder / side / "custom").mkdir()
        (folder / side / "custom" / "sitecustomize.py").write_text(f"open({str(folder.parent / 'harmed')!r}, 'w')")
    elif harm == "component":
        harm_config(folder, lambda content: content["components"].append({"id": "extra"} | bad["process"]))
    elif harm in bad:
        harm_config(folder, lambda content: content["executors"][0].update(executor=bad[harm]))
    else:
        specs = {
            "docker": {"docker": {"image": "evil/evil"}},
            "python": {"slurm": {"python_path": "/tmp/evil"}},
            "process python": {"process": {"python_path": "/tmp/evil"}},
        }
        key = "resource_spec" if harm == "resources" else "launcher_spec"
        harm_meta(folder, **{key: {"shop": specs.get(harm, {"num_of_gpus": 0})}})
    return str(folder)


def ending(session, job):
    return str(session.wait_for_job(job, timeout=60, poll_interval=0.5)["status"])


@pytest.fixture
def session(running):
    opened = sessions.open_session(running.kit("bank"))
    yield opened
    sessions.close_session(opened)


HARMS = {
    "code": ("shop", "BYOC not permitted"),
    "server code": ("bank", "Failed to deploy app 'server': BYOC not permitted"),
    "flare": ("shop", "NPTrainer' at config path 'executors.#1.executor' is not in allow_list"),
    "process": ("shop", "'subprocess.Popen' at config path 'executors.#1.executor' is not in allow_list"),
    "import": ("shop", "guest_app.FileStreamer' at config path 'executors.#1.executor' is not in allow_list"),
    "nested": ("shop", "'subprocess.Popen' at config path 'executors.#1.executor.args.patience' is not in allow_list"),
    "component": ("shop", "'subprocess.Popen' at config path 'components.#1' is not in allow_list"),
    "argument": ("shop", "Answer.__init__() got an unexpected keyword argument 'kit'"),
    "docker": ("bank", "a job may not say 'launcher_spec'"),
    "python": ("bank", "a job may not say 'launcher_spec'"),
    "process python": ("bank", "a job may not say 'launcher_spec'"),
    "resources": ("bank", "a job may not say 'resource_spec'"),
}


@pytest.fixture(scope="module")
def harmed(running, tmp_path_factory):
    """Jobs of the host's own administrator, submitted all at once: FLARE takes its time over jobs that fail."""
    folder = tmp_path_factory.mktemp("harmed")
    opened = sessions.open_session(running.kit("bank"))
    try:
        yield folder, {harm: opened.submit_job(harmful(folder / harm.replace(" ", "-"), harm)) for harm in HARMS}
    finally:
        sessions.close_session(opened)


@pytest.mark.parametrize("harm", HARMS)
def test_jobs_that_ask_for_more(running, session, harmed, harm):
    (folder, jobs), (who, words) = harmed, HARMS[harm]
    assert ending(session, jobs[harm]) != "FINISHED:COMPLETED"
    logged(running, who, jobs[harm], words)
    assert not (folder / "harmed").exists()


COMMANDS = {
    "cat": lambda session: session.cat_target("shop", file="local/resources.json"),
    "head": lambda session: session.head_target("shop", file="local/resources.json"),
    "tail": lambda session: session.tail_target_log("shop"),
    "grep": lambda session: session.grep_target("shop", pattern="key", file="local/resources.json"),
    "ls": lambda session: session.ls_target("shop"),
    "pwd": lambda session: session.get_working_directory("shop"),
    "restart": lambda session: session.do_command("restart client shop"),
    "shutdown": lambda session: session.do_command("shutdown client shop"),
    "configure_site_log": lambda session: session.do_command("configure_site_log client shop DEBUG"),
    "sys_info": lambda session: session.do_command("sys_info client shop"),
    "report_resources": lambda session: session.do_command("report_resources client shop"),
    "report_env": lambda session: session.do_command("report_env shop"),
}


@pytest.mark.parametrize(
    "command", ["cat", "shutdown", *slow(*(name for name in COMMANDS if name not in ("cat", "shutdown")))]
)
def test_commands_that_a_guest_does_not_answer(running, session, command):
    begin, pid = len(running.log("shop")), sites.status(running.kit("shop")).pid
    try:
        said = str(COMMANDS[command](session))
    except Exception as error:
        said = str(error)
    assert "resource_manager" not in said
    assert str(running.folder) not in said
    logged(running, "shop", "refused:", "invalid_request", begin=begin)
    assert sites.status(running.kit("shop")).pid == pid


@pytest.mark.slow_federation
def test_no_log_of_a_guest_reaches_the_host(running, session, harmed):
    """What a guest says stays with it, also of jobs that failed."""
    job = harmed[1]["flare"]
    ending(session, job)
    said = ""
    with suppress(Exception):
        said = json.dumps(session.get_job_logs(job, "shop").get("logs"))
    assert "NPTrainer" not in said
    assert "shop" not in json.loads(said or "{}")
    with suppress(Exception):
        session.configure_job_log(job, "DEBUG", "client shop")


@pytest.mark.slow_federation
def test_a_guest_that_is_removed_comes_back(running, session):
    """The host's own server may forget a guest; the guest's process goes on, and its next sign of life tells the server."""
    pid = sites.status(running.kit("shop")).pid
    session.remove_client("shop")
    running.wait_until(lambda: "shop" in (sites.status(running.kit("bank")).guests or ()), "the shop is there again")
    assert sites.status(running.kit("shop")).pid == pid


@pytest.mark.slow_federation
def test_a_guest_is_still_there(running):
    """After all of the above."""
    works(running, "after-all")
    assert "DEBUG" not in running.log("shop")


# What a guest does where the host has taken the guards off its own server.


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory):
    """A shop whose host's server gives every right to everybody."""
    federation = Parties(tmp_path_factory.mktemp("unguarded"), guests=("shop",), rows=100)
    try:
        with run_as(UNGUARDED, federation.kit("bank")):
            federation.wait_until(lambda: sessions.listens(federation.port), "the server listens", 40)
            federation.start("shop")
            yield federation
    finally:
        federation.close()


@pytest.mark.slow_federation
@pytest.mark.parametrize("harm", ["code", "docker", "flare"])
def test_a_guest_refuses_what_its_server_lets_through(unguarded, tmp_path, harm):
    begin = len(unguarded.log("shop"))
    session = sessions.open_session(unguarded.kit("bank"))
    try:
        assert ending(session, session.submit_job(harmful(tmp_path / "job", harm))) != "FINISHED:COMPLETED"
    finally:
        sessions.close_session(session)
    words = {"code": "BYOC not permitted", "docker": "may not say 'launcher_spec'", "flare": "is not in allow_list"}
    logged(unguarded, "shop", words[harm], begin=begin)
    assert not (tmp_path / "harmed").exists()


@pytest.mark.slow_federation
@pytest.mark.parametrize(
    ("name", "role"),
    [("store@host.fedonce", "lead"), ("bank@host.fedonce", "project_admin"), ("bank@host.fedonce", "super")],
)
def test_a_guest_runs_jobs_of_its_host_alone(unguarded, tmp_path, name, role):
    begin = len(unguarded.log("shop"))
    session = session_as(unguarded, tmp_path, name, *sign(unguarded, name, "host", role))
    try:
        job = session.submit_job(str(write_job(tmp_path / "job", "job", {"shop": b""})))
        assert ending(session, job) != "FINISHED:COMPLETED"
    finally:
        sessions.close_session(session)
    logged(unguarded, "shop", f"refused: '{name}' with the role '{role}' may not 'submit_job' at shop", begin=begin)


@pytest.mark.slow_federation
@pytest.mark.parametrize("command", ["cat", "shutdown", "configure_site_log"])
def test_a_guest_answers_no_command_of_its_server(unguarded, command):
    begin = len(unguarded.log("shop"))
    session = sessions.open_session(unguarded.kit("bank"))
    try:
        with suppress(Exception):
            COMMANDS[command](session)
    finally:
        sessions.close_session(session)
    logged(unguarded, "shop", "refused:", "invalid_request", begin=begin)
    assert sites.status(unguarded.kit("shop")).connected
