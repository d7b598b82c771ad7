"""Kits: one folder for each party, with what it needs to take part: keys, certificates, where the server is.

FLARE's own provisioning makes the keys; the authority that signed them stays with the host, so that guests can be added.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedonce import __version__
from fedonce.errors import FederationError, InputError
from fedonce.federation.flare import hardening
from fedonce.federation.flare.addresses import check_address, check_names
from fedonce.federation.flare.provisioning import provision
from fedonce.federation.tables import toml
from fedonce.system.disk import cannot_write, make_folder, write_file
from fedonce.system.extras import require

PORT = 8002
_FACTS = {
    "role": str,
    "name": str,
    "server": str,
    "port": int,
    "host": str,
    "guests": list,
    "version": str,
    "federation": str,
}


@dataclass(frozen=True)
class Kit:
    """A party's kit: where it is, whose it is, and where the federation's server is."""

    path: Path
    role: str
    name: str
    server: str
    port: int
    host: str
    guests: tuple[str, ...]
    version: str
    federation: str

    @property
    def site(self) -> Path:
        """FLARE's folder of the process that runs from this kit."""
        return self.path / ("server" if self.role == "host" else "client")

    @property
    def admin(self) -> Path:
        """FLARE's folder of the host's commands."""
        return self.path / "admin"

    @property
    def admin_name(self) -> str:
        """The host's name in FLARE's sessions."""
        return hardening.admin_name(self.host)

    @property
    def authority(self) -> Path:
        """The file of the authority that signs certificates; only the host has it."""
        return self.path / "authority" / "cert.json"

    @property
    def policy(self) -> Path:
        """What a guest allows, unless it names another file."""
        return self.path / "policy.toml"

    @property
    def tables(self) -> Path:
        """Where a guest's tables are."""
        return self.path / "guest.toml"

    @property
    def log(self) -> Path:
        """What the process printed."""
        return self.path / "log.txt"

    @property
    def process(self) -> Path:
        """Which process runs from this kit."""
        return self.path / "process.json"

    def harden(self) -> None:
        """Write FLARE's own files anew; see `hardening`."""
        if self.role == "host":
            hardening.write_server(self.site, self.server, self.port)
            hardening.write_admin(self.admin, self.server, self.port, self.host)
        else:
            hardening.write_client(self.site, self.server, self.port, self.name)


def make_kits(server: str, host: str, guests: Sequence[str], out: str | Path, port: int = PORT) -> list[Path]:
    """Make kits, one for each party, or further ones for new guests.

    Parameters
    ----------
    server : str
        DNS name or IPv4 address under which guests reach the host.
    host : str
        Name of the host.
    guests : list of str
        Names of the guests. Those that have a kit already keep it.
    out : path
        Folder for the kits; again the same one to add guests.
    port : int
        Port on which the host listens.

    Returns
    -------
    list of Path
        The new kits, the host's first.
    """
    guests = list(dict.fromkeys(guests))
    check_names(host, guests)
    check_address(server, port)
    out = Path(out)
    old = _existing(out, server, host, port)
    new = [name for name in guests if old is None or name not in old.guests]
    parties = [*([] if old else [host]), *new]
    for name in parties:
        if (out / name).exists():
            raise InputError(
                f"{out / name} exists already, and is no kit of this federation; remove it, or name another folder (out).",
                parameter="out",
            )
    if not new:
        return []
    federation = old.federation if old else secrets.token_hex(8)
    make_folder(out)
    try:
        out.chmod(0o700)
        with tempfile.TemporaryDirectory(dir=out, prefix=".new-") as folder:
            made = provision(Path(folder), server, host, new, port, old.authority if old else None)
            facts: dict[str, Any] = {"server": server, "port": port, "version": __version__, "federation": federation}
            for name in new:
                _make_guest(made, Kit(made / name, "guest", name, host=host, guests=(), **facts))
            if old is None:
                kit = Kit(made / host, "host", host, host=host, guests=tuple(new), **facts)
                _make_host(made, Path(folder) / hardening.PROJECT / "state" / "cert.json", server, kit)
            for name in parties:
                _lock(made / name)
                os.rename(made / name, out / name)
                _read_facts(out / name).harden()  # some of FLARE's files have paths
    except OSError as error:
        raise cannot_write(out, error) from None
    if old is not None:
        _write_facts(old, guests=[*old.guests, *new])
    return [out / name for name in parties]


def open_kit(path: str | Path) -> Kit:
    """Read a kit and check it: complete, private, and its certificates are still good."""
    path = Path(path).absolute()
    if not (path / "kit.toml").is_file():
        raise FederationError(
            f"There is no kit in {path} (no kit.toml); give a folder that `fedonce federation init` made."
        )
    kit = _read_facts(path)
    _check_links(kit)
    for file in _needed(kit):
        if not file.is_file():
            raise FederationError(f"The kit {path} is not complete: {file} is missing. Copy the kit again, all of it.")
    _check_private(kit)
    _check_certificates(kit)
    return kit


def _existing(out: Path, server: str, host: str, port: int) -> Kit | None:
    """Return the host's kit that is in `out` already."""
    found = [_read_facts(path.parent) for path in sorted(out.glob("*/kit.toml"))] if out.is_dir() else []
    old = next((kit for kit in found if kit.role == "host"), None)
    if old is None:
        return None
    given, there = (host, server, port), (old.host, old.server, old.port)
    if given != there:
        raise InputError(
            f"The kits in {out} are of the host {old.host!r} at {old.server}:{old.port}. Got {host!r} at {server}:{port}; "
            "name another folder (out) for another federation, or the same host and server to add guests.",
            parameter="out",
        )
    if not old.authority.is_file():
        raise FederationError(
            f"The authority of the kit {old.path} is missing ({old.authority}): no guests can be added."
        )
    return old


def _make_guest(made: Path, kit: Kit) -> None:
    """Turn FLARE's folder of a client into a guest's kit."""
    from fedonce.federation.policy_file import DEFAULT_POLICY

    participant = made / f".{kit.name}"
    os.rename(made / kit.name, participant)
    kit.path.mkdir()
    os.rename(participant, kit.site)
    hardening.strip(kit.site)
    kit.harden()
    _write_facts(kit)
    write_file(kit.policy, DEFAULT_POLICY.encode(), private=True)


def _make_host(made: Path, state: Path, server: str, kit: Kit) -> None:
    """Turn FLARE's folders of the server and of its administrator into the host's kit."""
    participant = made / ".server"
    os.rename(made / server, participant)  # a host may have the name of its server
    kit.path.mkdir()
    os.rename(participant, kit.site)
    os.rename(made / kit.admin_name, kit.admin)
    hardening.strip(kit.site)
    hardening.strip(kit.admin)
    kit.harden()
    kit.authority.parent.mkdir()
    content = json.loads(state.read_text(encoding="utf-8"))
    # Only the authority itself: the guests' private keys are theirs alone.
    authority = {key: content[key] for key in ("root_cert", "root_pri_key")}
    write_file(kit.authority, json.dumps(authority).encode(), private=True)
    _write_facts(kit)


def _write_facts(kit: Kit, guests: Sequence[str] | None = None) -> None:
    facts: dict[str, Any] = {"role": kit.role, "name": kit.name, "server": kit.server, "port": kit.port}
    facts |= {"guests": list(kit.guests if guests is None else guests)} if kit.role == "host" else {"host": kit.host}
    facts |= {"version": kit.version, "federation": kit.federation}
    write_file(kit.path / "kit.toml", toml(facts).encode(), private=True)


def _read_facts(path: Path) -> Kit:
    file = path / "kit.toml"
    try:
        facts: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except PermissionError:
        raise FederationError(f"{file} may not be read; start as the user who owns the kit.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FederationError(f"{file} cannot be read ({error}); copy the kit again.") from None
    facts = {"guests": [], "host": facts.get("name")} | facts
    wrong = next((key for key, kind in _FACTS.items() if not isinstance(facts.get(key), kind)), None)
    if wrong is None and facts["role"] not in ("host", "guest"):
        wrong = "role"
    if wrong is None and not all(isinstance(each, str) for each in facts["guests"]):
        wrong = "guests"
    if wrong is not None:
        raise FederationError(f"{file} has no usable {wrong!r}. Got {facts.get(wrong)!r}; copy the kit again.")
    # A guest's kit comes from elsewhere, and these become addresses and arguments.
    try:
        check_names(facts["host"], facts["guests"] or [facts["name"]] if facts["role"] == "guest" else facts["guests"])
        check_address(facts["server"], facts["port"])
    except InputError as error:
        raise FederationError(f"{file} is damaged: {error} Copy the kit again.") from None
    return Kit(path, guests=tuple(facts["guests"]), **{key: facts[key] for key in _FACTS if key != "guests"})


def _needed(kit: Kit) -> list[Path]:
    mine = "server" if kit.role == "host" else "client"
    files = [kit.site / "startup" / name for name in (f"{mine}.key", f"{mine}.crt", "rootCA.pem")]
    if kit.role == "host":
        files += [kit.admin / "startup" / name for name in ("client.key", "client.crt", "rootCA.pem")]
    return files


def _check_links(kit: Kit) -> None:
    """Refuse links: a kit comes from elsewhere, and by a link a file outside of it could be written to, or sent."""
    for folder, folders, files in os.walk(kit.path):
        link = next((path for name in (*folders, *files) if (path := Path(folder, name)).is_symlink()), None)
        if link is not None:
            raise FederationError(
                f"The kit has a link, {link}, and what is behind it may not be the kit's; put the file itself there."
            )
        if folder == str(kit.site):  # what FLARE makes while it runs; its server makes links to what it hands out
            made = ("transfer", "storage") if kit.role == "host" else ()
            folders[:] = [name for name in folders if name not in made and not hardening.JOB.fullmatch(name)]


def _check_private(kit: Kit) -> None:
    keys = [file for file in (*_needed(kit), kit.authority) if file.suffix == ".key" or file == kit.authority]
    for path in (kit.path, *keys):
        if not path.exists():
            continue  # a host may keep its authority elsewhere
        if not os.access(path, os.R_OK):
            raise FederationError(f"{path} may not be read; start as the user who owns the kit.")
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise FederationError(
                f"{path} is open to other users of this machine, and with it whoever reads it is {kit.name!r}: "
                f"chmod -R go-rwx '{kit.path}'"
            )


def _check_certificates(kit: Kit) -> None:
    x509 = require("The federation needs", "nvflare", "cryptography.x509", "cryptography")
    for file in _needed(kit):
        if file.suffix == ".key":
            continue
        try:
            certificate = x509.load_pem_x509_certificate(file.read_bytes())
        except ValueError:
            raise FederationError(f"{file} is no certificate; copy the kit again.") from None
        until = certificate.not_valid_after_utc
        if until <= datetime.now(UTC):
            raise FederationError(
                f"The certificate {file} of {kit.name!r} ended on {until:%Y-%m-%d}. The host makes new kits in another folder "
                "(`fedonce federation init`); all parties start with theirs."
            )
        if file.suffix == ".crt":
            _check_key(file.with_suffix(".key"), certificate)


def _check_key(file: Path, certificate: Any) -> None:
    """Raise where a key is not that of a certificate: FLARE would say it late, or never."""
    keys = require("The federation needs", "nvflare", "cryptography.hazmat.primitives.serialization", "cryptography")
    try:
        same = keys.load_pem_private_key(file.read_bytes(), None).public_key() == certificate.public_key()
    except (ValueError, TypeError):
        raise FederationError(f"{file} is no private key; copy the kit again.") from None
    if not same:
        raise FederationError(f"{file} does not belong to the certificate beside it; copy the kit again, all of it.")


def _lock(folder: Path) -> None:
    """Close a kit to everybody else."""
    folder.chmod(0o700)
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
