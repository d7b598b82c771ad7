from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from fedonce import __version__
from fedonce.cli.federation_kits import federation
from fedonce.errors import FederationError, InputError
from fedonce.federation.flare import hardening, kits
from fedonce.federation.flare.kits import make_kits, open_kit
from fedonce.federation.tables import GuestTables

pytest.importorskip("nvflare")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Kits that tests only read."""
    out = tmp_path_factory.mktemp("federation") / "kits"
    assert make_kits("fed.bank.com", "bank", ["shop", "telco"], out) == [out / "bank", out / "shop", out / "telco"]
    return out


@pytest.fixture
def own(made, tmp_path):
    """A copy that a test may spoil."""
    subprocess.run(["cp", "-a", made, tmp_path / "kits"], check=True)
    return tmp_path / "kits"


def run(*arguments):
    return CliRunner().invoke(federation, [str(argument) for argument in arguments])


def test_kits_say_whose_they_are(made):
    host, shop = open_kit(made / "bank"), open_kit(made / "shop")
    assert (host.role, host.name, host.host, host.guests) == ("host", "bank", "bank", ("shop", "telco"))
    assert (shop.role, shop.name, shop.host, shop.guests) == ("guest", "shop", "bank", ())
    assert (shop.server, shop.port, shop.version) == ("fed.bank.com", kits.PORT, __version__)
    assert len(host.federation) == 16
    assert host.federation == shop.federation
    assert "align = true" in shop.policy.read_text()


def test_kits_are_closed_to_others(made):
    for path in [made, *made.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert [path.name for path in made.iterdir() if path.name.startswith(".")] == []


def test_private_keys_are_only_where_they_belong(made):
    """The host keeps the authority's key, not those of its guests; a guest has its own alone."""
    holders = {
        path.relative_to(made) for path in made.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()
    }
    assert {str(path) for path in holders} == {
        "bank/authority/cert.json",
        "bank/server/startup/server.key",
        "bank/admin/startup/client.key",
        "shop/client/startup/client.key",
        "telco/client/startup/client.key",
    }
    assert (made / "bank" / "authority" / "cert.json").read_text().count("BEGIN RSA PRIVATE KEY") == 1


def test_guests_run_our_classes_only_and_obey_little(made):
    local = made / "shop" / "client" / "local"
    resources = json.loads((local / "resources.json").read_text())
    assert resources["class_allow_list"] == ["fedonce.federation.guest_app.Answer"]
    assert resources["class_list_enforcement_mode"] == "enforce"
    assert resources["allow_log_streaming"] is False
    assert not any("log" in component["id"] for component in resources["components"])
    roles = json.loads((local / "authorization.json").read_text())["permissions"]
    assert {name for name, rights in roles.items() if rights == "none"} == {"project_admin", "org_admin", "member"}
    assert {roles["lead"][right] for right in ("byoc", "shell_commands", "operate")} == {"none"}
    assert (
        json.loads((made / "shop" / "client" / "startup" / "fed_client.json").read_text())["require_signed_jobs"]
        is True
    )


def test_the_server_keeps_its_files_in_the_kit(made):
    resources = (made / "bank" / "server" / "local" / "resources.json").read_text()
    assert "/tmp/nvflare" not in resources
    assert str(made / "bank" / "server" / "storage") in resources
    assert json.loads(resources)["class_allow_list"] == ["fedonce.federation.server_app.Collect"]


def test_guests_are_added_under_the_same_authority(own):
    before = {path: path.read_bytes() for path in own.rglob("*") if path.is_file()}
    assert make_kits("fed.bank.com", "bank", ["shop", "cinema"], own) == [own / "cinema"]
    changed = [path.relative_to(own) for path, content in before.items() if path.read_bytes() != content]
    assert [str(path) for path in changed] == ["bank/kit.toml"]
    assert open_kit(own / "bank").guests == ("shop", "telco", "cinema")
    roots = {(own / name / "client" / "startup" / "rootCA.pem").read_bytes() for name in ("shop", "cinema")}
    assert roots == {(own / "bank" / "server" / "startup" / "rootCA.pem").read_bytes()}
    assert open_kit(own / "cinema").federation == open_kit(own / "bank").federation
    assert make_kits("fed.bank.com", "bank", ["shop"], own) == []


@pytest.mark.parametrize(
    ("server", "host", "port"),
    [("other.com", "bank", 8002), ("fed.bank.com", "store", 8002), ("fed.bank.com", "bank", 9)],
)
def test_another_federation_needs_another_folder(own, server, host, port):
    with pytest.raises(InputError, match="are of the host 'bank' at fed.bank.com:8002"):
        make_kits(server, host, ["cinema"], own, port)
    assert not (own / "cinema").exists()


def test_what_is_in_the_way_is_left_alone(tmp_path):
    (tmp_path / "shop").mkdir()
    with pytest.raises(InputError, match="shop exists already"):
        make_kits("localhost", "bank", ["shop"], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["shop"]


@pytest.mark.parametrize(
    ("host", "guests", "said"),
    [
        ("bank", [], "needs a guest"),
        ("bank", ["shop", "bank"], "cannot be a guest, too"),
        ("bank", ["Shop", "shop"], "but for capitals"),
        ("bank", ["server"], "which FLARE uses itself"),
        ("bank", ["shop.de"], "Got 'shop.de'"),
        ("bank", ["../shop"], "Got '../shop'"),
        ("bank", ["_shop"], "Got '_shop'"),
        ("b" * 49, ["shop"], "48 at most"),
        ("", ["shop"], "Got ''"),
    ],
)
def test_names_that_cannot_be(host, guests, said, tmp_path):
    with pytest.raises(InputError, match=said):
        make_kits("localhost", host, guests, tmp_path / "kits")
    assert not (tmp_path / "kits").exists()


@pytest.mark.parametrize(
    ("server", "port", "said"),
    [
        ("fed bank", 8002, "Got 'fed bank'"),
        ("", 8002, "Got ''"),
        ("256.1.1.1", 8002, "no IPv4 address"),
        ("0.0.0.0", 8002, "cannot reach 0.0.0.0"),
        ("::1", 8002, "Got '::1'"),
        ("localhost", 0, "Got 0"),
        ("localhost", 70000, "Got 70000"),
    ],
)
def test_addresses_that_cannot_be(server, port, said, tmp_path):
    with pytest.raises(InputError, match=said):
        make_kits(server, "bank", ["shop"], tmp_path / "kits", port)


def test_no_kit_there(tmp_path):
    with pytest.raises(FederationError, match=f"no kit in {tmp_path}"):
        open_kit(tmp_path)


@pytest.mark.parametrize(
    "file", ["client/startup/client.key", "client/startup/client.crt", "client/startup/rootCA.pem"]
)
def test_a_kit_that_is_not_complete(own, file):
    (own / "shop" / file).unlink()
    with pytest.raises(FederationError, match=f"{file} is missing"):
        open_kit(own / "shop")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("role = ", "cannot be read"),
        ('role = "guest"', "no usable 'name'"),
        ('role = "x"\nname = "shop"\nserver = "a"\nport = 1\nversion = ""\nfederation = ""', "no usable 'role'"),
        ('role = "guest"\nname = "../x"\nserver = "a"\nport = 1\nhost = "b"\nversion = ""\nfederation = ""', "damaged"),
        ('role = "guest"\nname = "s"\nserver = "a b"\nport = 1\nhost = "b"\nversion = ""\nfederation = ""', "damaged"),
    ],
)
def test_facts_that_are_damaged(own, text, said):
    (own / "shop" / "kit.toml").write_text(text)
    with pytest.raises(FederationError, match=said):
        open_kit(own / "shop")


@pytest.mark.parametrize("file", ["", "server/startup/server.key", "admin/startup/client.key", "authority/cert.json"])
def test_a_kit_that_others_can_read(own, file):
    (own / "bank" / file).chmod(0o750)
    with pytest.raises(FederationError, match=rf"chmod -R go-rwx '{own / 'bank'}'"):
        open_kit(own / "bank")


def test_a_certificate_that_ended(own):
    file = own / "shop" / "client" / "startup" / "client.crt"
    file.write_bytes(ended_certificate())
    with pytest.raises(FederationError, match=r"client.crt of 'shop' ended on 2020-02-01.*init"):
        open_kit(own / "shop")
    file.write_text("nothing")
    with pytest.raises(FederationError, match="no certificate"):
        open_kit(own / "shop")


def ended_certificate():
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    begin = datetime(2020, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, begin + timedelta(days=31))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_a_file_that_flare_would_load_is_refused(own):
    """A kit comes from the host: what runs at the guest does not."""
    kit = open_kit(own / "shop")
    for place in (
        "local/log_config.json",
        "local/resources.json",
        "local/authorization.json",
        "startup/fed_client.json",
    ):
        (kit.site / place).write_text("{}")
    kit.harden()  # what is ours is rewritten
    assert (
        json.loads((kit.site / "local" / "resources.json").read_text())["class_allow_list"] == hardening.GUEST_CLASSES
    )
    for place in ("local/custom", "startup/x__p_resources.json", "local/comm_config.json"):
        (kit.site / place).write_text("{}")
        with pytest.raises(FederationError, match=f"{place}. Remove it"):
            kit.harden()
        (kit.site / place).unlink()


@pytest.mark.parametrize("place", ["fedonce/__init__.py", "json.py", "nvflare", "sitecustomize.py", "transfer.py"])
def test_a_module_beside_flares_files_is_refused(own, place):
    """A process of the site works in this folder."""
    kit = open_kit(own / "shop")
    (kit.site / place).parent.mkdir(exist_ok=True)
    (kit.site / place).write_text("")
    with pytest.raises(FederationError, match=f"does not belong there.*client/{place.split('/')[0]}. Remove it"):
        kit.harden()


def test_what_flare_writes_is_no_stranger(own):
    kit = open_kit(own / "shop")
    (kit.site / "0a1b2c3d-0000-4000-8000-0123456789ab").mkdir()
    for name in ("log.txt", "log.txt.1", "audit.log", "audit.log.2026-01", "error_log.txt", "log.json", "shutdown.fl"):
        (kit.site / name).write_text("")
    before = set(kit.site.iterdir())
    kit.harden()
    assert set(kit.site.iterdir()) >= before


@pytest.mark.parametrize(
    "place", ["log.txt", "client/log.txt", "client/local", "answers", "answers/0123/message.fedonce", "policy.toml"]
)
def test_a_link_in_a_kit_is_refused(own, tmp_path, place):
    """What is written to a log, or kept as an answer to be sent, is a file of the kit."""
    (tmp_path / "outside").write_text("")
    link = own / "shop" / place
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_dir():
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    link.symlink_to(tmp_path / "outside")
    with pytest.raises(FederationError, match=f"The kit has a link, {link}"):
        open_kit(own / "shop")


def test_links_that_flare_makes_are_its_own(own, tmp_path):
    for place in ("server/transfer/x", "server/storage/x", "server/0a1b2c3d-0000-4000-8000-0123456789ab/x"):
        (own / "bank" / place).parent.mkdir(exist_ok=True)
        (own / "bank" / place).symlink_to(tmp_path)
    assert open_kit(own / "bank").name == "bank"


def test_a_moved_kit_works_from_where_it_is(own, tmp_path):
    os.rename(own / "bank", tmp_path / "elsewhere")
    kit = open_kit(tmp_path / "elsewhere")
    kit.harden()
    assert str(own) not in (kit.site / "local" / "resources.json").read_text()
    assert str(own) not in (kit.admin / "startup" / "fed_admin.json").read_text()


GUARD = """
import sys
from nvflare.fuel.sec.authz import AuthorizationService, AuthzContext, Person
from nvflare.fuel.f3.cellnet.utils import new_cell_message
from nvflare.private.admin_defs import Message
from nvflare.private.fed.client.admin import FedAdminAgent
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors
from nvflare.private.fed.utils.app_authz import AppAuthzService
from nvflare.security.security import EmptyAuthorizer
from fedonce.federation.flare.kits import open_kit
from fedonce.federation.flare.process import ANSWERED, guard

guard(open_kit(sys.argv[1]))
AuthorizationService.initialize(EmptyAuthorizer())  # as FLARE does later: it changes nothing
assert {type(each).__name__ for each in ClientRequestProcessors.request_processors} == ANSWERED

def allowed(role, right, submitter="bank@host.fedonce"):
    user = Person("bank@host.fedonce", "host", role)
    return AuthorizationService.authorize(AuthzContext(right, user, Person(submitter, "host", role)))[0]

assert allowed("lead", "submit_job") and allowed("lead", "check_status") and allowed("lead", "abort_job")
assert not allowed("lead", "abort_job", "somebody@host.fedonce")
for right in ("byoc", "cat", "ls", "shutdown", "restart", "sys_info"):
    for role in ("lead", "super", "project_admin", "org_admin", "member"):
        assert not allowed(role, right), (role, right)

def signed(*signer, **meta):
    return AppAuthzService.authorize_app_info({}, *signer, meta)[0]

assert signed("bank@host.fedonce", "host", "lead", resource_spec={})
assert not signed("telco", "guest", "")  # another guest, by the way of the server
assert not signed("store@host.fedonce", "host", "lead")
assert not signed("bank@host.fedonce", "host", "super")
assert not signed("bank@host.fedonce", "host", "lead", launcher_spec={"shop": {"process": {"python_path": "/"}}})

class Agent:  # knows no command at all
    auditor, processors = None, {}

def dispatched(**headers):
    message = Message("train.deploy", b"")
    message.headers |= headers
    return FedAdminAgent._dispatch_request(Agent(), new_cell_message({}, message)).payload.body

number = "0a1b2c3d-0000-4000-8000-0123456789ab"
assert dispatched() == dispatched(job_id=number, job_meta={"job_id": number}) == "invalid_request"
for odd in ("startup", "", ".", "../x", number + chr(10), number.upper(), 7, ["local"]):
    assert "names no job" in dispatched(job_id=odd), odd
    assert "names no job" in dispatched(job_id=number, job_meta={"job_id": odd}), odd
"""


def test_the_host_cannot_make_itself_more_at_a_guest(made):
    """Not even with FLARE's role "super", which the host, who signs the certificates, could give itself."""
    done = subprocess.run([sys.executable, "-c", GUARD, made / "shop"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "refused: train.deploy of the server: ['startup', None] names no job" in done.stderr


def test_a_guests_tables_are_kept(tmp_path):
    tables = GuestTables(
        tmp_path / 'a "b"\\ü.csv',
        "customer id",
        tmp_path / "new.csv",
        ("x", "y z"),
        {"zip code": "category"},
        tmp_path / "s",
    )
    tables.to_file(tmp_path / "guest.toml")
    assert stat.S_IMODE((tmp_path / "guest.toml").stat().st_mode) == 0o600
    assert GuestTables.from_file(tmp_path / "guest.toml") == tables


def test_a_relative_path_counts_from_the_file(tmp_path):
    (tmp_path / "guest.toml").write_text('data = "tables/shop.csv"\nid = "customer"\n')
    assert GuestTables.from_file(tmp_path / "guest.toml").data == tmp_path / "tables" / "shop.csv"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('data = "a.csv"\nid = "c"\ndorp = ["x"]', "no key 'dorp'.*did you mean 'drop'"),
        ('data = "a.csv"', "no 'id'"),
        ('data = "a.csv"\nid = 3', "'id' must be text"),
        ('data = "a.csv"\nid = "c"\ntypes = {a = 1}', "columns with a type each"),
        ("data = ", "not TOML"),
    ],
)
def test_tables_that_are_not_told_right(text, said, tmp_path):
    (tmp_path / "guest.toml").write_text(text)
    with pytest.raises(InputError, match=said):
        GuestTables.from_file(tmp_path / "guest.toml")


def test_init_says_what_to_send_to_whom(tmp_path):
    told = run("init", "--server", "localhost:18999", "--host", "bank", "--guests", "shop", "--out", tmp_path / "kits")
    assert told.exit_code == 0, told.output
    lines = told.stdout.splitlines()
    assert "stays here" in next(line for line in lines if f"{tmp_path}/kits/bank  " in line)
    assert "for shop: send it so that only they can read it" in told.stdout
    assert f"fedonce federation start {tmp_path}/kits/bank" in told.stdout
    assert open_kit(tmp_path / "kits" / "bank").port == 18999
    again = ["init", "--server", "localhost:18999", "--host", "bank", "--guests", "shop", "--out", tmp_path / "kits"]
    assert "nothing was changed" in run(*again).stdout
    told = json.loads(run(*again[:-3], "shop,telco", *again[-2:], "--json", "--quiet").stdout)
    assert told == {"kits": {"telco": str(tmp_path / "kits" / "telco")}, "unchanged": ["bank", "shop"]}


def test_init_with_a_port_that_is_none(tmp_path):
    found = run("init", "--server", "localhost:x", "--host", "b", "--guests", "s", "--out", tmp_path).exception
    assert isinstance(found, InputError)
    assert "Got 'localhost:x'" in str(found)
