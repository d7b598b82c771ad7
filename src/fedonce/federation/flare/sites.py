"""The process of a kit: started, watched and stopped; and the host's sessions with its server."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedonce.data.table import did_you_mean
from fedonce.errors import FederationError, InputError
from fedonce.federation import allowance
from fedonce.federation.flare import hardening
from fedonce.federation.flare.kits import Kit
from fedonce.federation.policy import Policy
from fedonce.federation.record import ANSWERS, Record
from fedonce.federation.tables import GuestTables
from fedonce.system.disk import cannot_write, write_file
from fedonce.system.extras import require

WAIT = 20.0  # seconds that a start waits for the server to listen, or for the guest to be registered
# glibc keeps large buffers for later, in every thread of a site that passes messages on: let it give them back.
MEMORY = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": "262144", "MALLOC_TRIM_THRESHOLD_": "262144"}
# No process looks for modules where it works: that is the kit, and the kit came from elsewhere. Jobs inherit this.
SAFE = {"PYTHONSAFEPATH": "1"}
GRACE = 8.0  # seconds from asking a process to end until it is ended
HANDSHAKE = 3.0  # seconds for a server to begin TLS
SILENT = 25.0  # seconds since its last heartbeat, one in ten, after which a guest counts as away
REGISTERED = "Successfully registered client"
_LINE = re.compile(r"^[-0-9]+ [:0-9,]+ - (?P<who>\S+) - (?P<level>[A-Z]+) - (?P<text>.*)$")
_NOWHERE = logging.NullHandler()
_MODULE = "fedonce.federation.flare.process"
_FORMER_MODULE = "fedonce.federation.process"  # of a site that an earlier version started


@dataclass(frozen=True)
class Site:
    """What there is to know of a kit's process.

    `connected`: the host listens, or the guest is registered with the host. `guests`, `absent`: which guests are connected to
    the host, and which are not; `running`, `queued`: names of jobs. These four are None where nobody can be asked. `allowance`:
    of a guest, how much of what its policy allows is used, see `allowance.as_json`; None where it has no table yet.
    """

    role: str
    name: str
    server: str
    pid: int | None = None
    since: float | None = None
    connected: bool = False
    note: str = ""
    guests: tuple[str, ...] | None = None
    absent: tuple[str, ...] | None = None
    running: tuple[str, ...] | None = None
    queued: tuple[str, ...] | None = None
    allowance: dict[str, Any] | None = None

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.pid is not None

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {**asdict(self), "alive": self.alive}


def configure_guest(
    kit: Kit,
    data: str | Path,
    id: str,
    predict: str | Path | None = None,
    *,
    drop: Sequence[str] = (),
    types: Mapping[str, str] | None = None,
    secret: str | Path | None = None,
    public: str | Path | None = None,
    policy: str | Path | None = None,
) -> GuestTables:
    """Write which tables a guest takes part with; what is not there is told at once."""
    if kit.role != "guest":
        raise InputError(
            f"The kit {kit.path} is the host's, whose table is given to `fit`; only guests name theirs (data).",
            parameter="data",
        )

    def there(path: str | Path | None) -> Path | None:
        return None if path is None else Path(path).absolute()

    tables = GuestTables(
        Path(data).absolute(),
        id,
        there(predict),
        tuple(drop),
        dict(types or {}),
        there(secret),
        there(public),
        there(policy),
    )
    check_tables(tables, kit.policy)
    tables.to_file(kit.tables)
    return tables


def check_tables(tables: GuestTables, policy: Path) -> None:
    """Raise where a file is missing, or a table has not the columns that are named. Only the head of a table is read.

    `policy` is the file where the guest's tables name no other.
    """
    for name in ("data", "predict", "secret", "public", "policy"):
        path = getattr(tables, name)
        if path is not None and not path.is_file():
            raise InputError(f"There is no file {path} ({name} of this guest); check its name and folder.")
    for table in (tables.data, tables.predict):
        if table is None:
            continue
        columns = _columns(table)
        if tables.id not in columns:
            raise InputError(f"The file {table} has no id column {tables.id!r}{did_you_mean(tables.id, columns)}")
        if table == tables.data:
            _check_columns(tables, tables.policy or policy, columns)


def _check_columns(tables: GuestTables, policy: Path, columns: list[str]) -> None:
    for name in (*tables.drop, *tables.types):
        if name not in columns:
            raise InputError(f"The file {tables.data} has no column {name!r}{did_you_mean(name, columns)}")
    Policy.read(policy).check_columns(columns, policy)


def start(
    kit: Kit, foreground: bool = False, wait: float = WAIT, tell: Callable[[str], None] = lambda line: None
) -> Site:
    """Start the kit's process, and wait until the server listens or the guest is registered.

    A guest whose host is not there yet is started all the same: it keeps trying. In the foreground this returns once the
    process was stopped, from here (Ctrl-C, SIGTERM) or elsewhere.
    """
    require("The federation needs", "nvflare", "nvflare")
    _check_startable(kit)
    kit.harden()
    begin = _begin_log(kit)
    with _ended_by_signals() if foreground else contextlib.nullcontext():
        process = _launch(kit)
        try:
            _remember(kit, process.pid)
            site = _await(kit, process, begin, wait, tell)
            if not foreground:
                return site
            tell(f"{kit.name} runs, {site.note}; Ctrl-C ends it")
            code = process.wait()
        except BaseException as error:
            stop(kit)
            if foreground and isinstance(error, KeyboardInterrupt):
                return _site(kit)
            raise
    if code > 0:
        raise FederationError(f"{kit.name!r} ended: {last_words(kit, begin)} (all of it: {kit.log})")
    return _site(kit)


def stop(kit: Kit, grace: float = GRACE) -> bool:
    """End the kit's process and its jobs; return whether there was one."""
    psutil = require("The federation needs", "nvflare", "psutil")
    ours = _processes(kit)
    for process in ours:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    left = psutil.wait_procs(ours, timeout=grace)[1]
    late = [each for each in _processes(kit) if each not in left]  # started while we were stopping
    for process in (*left, *late):
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs([*left, *late], timeout=grace)
    kit.process.unlink(missing_ok=True)
    return bool(ours)


def status(kit: Kit, timeout: float = 10.0) -> Site:
    """Return what runs from this kit; of the host also which guests are connected, and its jobs; of a guest what it answered."""
    site = _site(kit)
    if kit.role == "guest":
        try:
            return replace(site, allowance=_allowance(kit))
        except InputError as error:  # it runs, and answers nothing until this is mended
            return replace(site, note=f"{site.note}; {error}")
    if not site.alive or not site.connected:
        return site
    try:
        session = open_session(kit, timeout)
    except FederationError as error:
        return Site(**asdict(site) | {"note": str(error)})
    try:
        with _silence():
            clients = [
                client.name
                for client in session.get_system_info().client_info
                if time.time() - float(client.last_connect_time or 0) < SILENT
            ]
            jobs = session.list_jobs()
    except Exception as error:
        return Site(**asdict(site) | {"note": f"the server does not answer: {error}"})
    finally:
        close_session(session)
    there = tuple(name for name in kit.guests if name in clients)
    states: dict[str, list[str]] = {}
    for job in jobs:
        states.setdefault(str(job.get("status")), []).append(str(job.get("job_name")))
    waiting = [*states.get("SUBMITTED", ()), *states.get("APPROVED", ()), *states.get("DISPATCHED", ())]
    return Site(
        **asdict(site)
        | {"guests": there, "absent": tuple(name for name in kit.guests if name not in there)}
        | {"running": tuple(states.get("RUNNING", ())), "queued": tuple(waiting)}
    )


def _allowance(kit: Kit) -> dict[str, Any] | None:
    """Return what a guest has answered, and how much its policy allows."""
    if not kit.tables.is_file():
        return None
    policy = Policy.read(GuestTables.from_file(kit.tables).policy or kit.policy)
    return allowance.as_json(policy, Record(kit.path / ANSWERS).look())


def running_jobs(kit: Kit) -> set[str]:
    """Return FLARE's numbers of the jobs whose processes live."""
    psutil = require("The federation needs", "nvflare", "psutil")
    words: list[str] = []
    for process in _processes(kit):
        with contextlib.suppress(psutil.Error):
            words += process.cmdline()
    return {word for word in words if hardening.JOB.fullmatch(word)}


def open_session(kit: Kit, timeout: float = 10.0) -> Any:
    """Return a FLARE session of the host with its server (`nvflare.fuel.flare_api`); close it with `close_session`.

    Raises
    ------
    FederationError
        Where the server does not run, cannot be reached, or has certificates of another federation.
    """
    if kit.role != "host":
        raise FederationError(
            f"The kit {kit.path} is of the guest {kit.name!r}; only the host's kit can give commands."
        )
    api = require("The federation needs", "nvflare", "nvflare.fuel.flare_api.flare_api")
    if not _listens(kit.port):
        raise FederationError(
            f"The server of {kit.name!r} does not run: nothing listens on port {kit.port}. Start it: "
            f"fedonce federation start {shlex.quote(str(kit.path))}"
        )
    if not _shakes_hands(kit):
        raise FederationError(
            f"The server of {kit.name!r} hangs: port {kit.port} is open, and nobody answers there. See {kit.log}; stop it and "
            f"start it again: fedonce federation stop {shlex.quote(str(kit.path))}"
        )
    hardening.write_admin(kit.admin, kit.server, kit.port, kit.host)  # its paths are wrong where the kit was moved
    # What its threads have to say goes to the program's log, if there is one, and else nowhere.
    logging.getLogger("nvflare").addHandler(_NOWHERE)
    with _silence():
        try:
            return api.new_secure_session(kit.admin_name, str(kit.admin), timeout=timeout, auto_login_max_tries=1)
        except Exception as error:
            said = str(error).strip() or type(error).__name__
            raise FederationError(
                f"The server on port {kit.port} does not accept the host {kit.name!r} ({said}). It is of another federation, "
                f"or hangs: see {kit.log}, and start it again from this kit."
            ) from None


def close_session(session: Any) -> None:
    """Close a session; one that is broken, too."""
    with _silence(), contextlib.suppress(Exception):
        session.close()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let the signal that a service manager sends end the work as Ctrl-C does: what was started is not left behind."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _silence() -> Iterator[None]:
    """Keep FLARE's remarks off the terminal: what matters is raised."""
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(logging.NOTSET)


def _columns(path: Path) -> list[str]:
    from fedonce.data.files.sources import SOURCES, check_ending

    try:
        return list(SOURCES[check_ending(path)](path, str(path)).names)
    except (OSError, EOFError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"The file {path} cannot be read as what its ending says ({error}); export it again."
        ) from None


def _check_startable(kit: Kit) -> None:
    if shlex.split(str(kit.path)) != [str(kit.path)]:
        raise FederationError(f"FLARE cannot run jobs from a path with spaces or quotes: {kit.path}. Move the kit.")
    old = _process(kit)
    if old is not None:
        raise FederationError(
            f"{kit.name!r} runs already, as process {old.pid}; stop it first: fedonce federation stop {kit.path}"
        )
    if kit.role == "host":
        _check_port(kit)
        return
    if not kit.tables.is_file():
        raise InputError(
            f"The guest {kit.name!r} has no table yet (no {kit.tables}); say at the first start which it is, and "
            "which column has its ids (data, id).",
            parameter=("data", "id"),
        )
    check_tables(GuestTables.from_file(kit.tables), kit.policy)


def _check_port(kit: Kit) -> None:
    with socket.socket() as trial:
        trial.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as the server itself: an old connection does not count
        try:
            trial.bind(("", kit.port))
        except PermissionError:
            raise FederationError(
                f"Port {kit.port} may not be used by this user; choose one above 1023 with new kits for all "
                f"(`fedonce federation init`, server {kit.server}:PORT)."
            ) from None
        except OSError:
            raise FederationError(
                f"Port {kit.port} of this machine is in use; stop what listens there, or choose another with new kits for all "
                f"(`fedonce federation init`, server {kit.server}:PORT)."
            ) from None


def _listens(port: int) -> bool:
    with socket.socket() as trial:
        trial.settimeout(2.0)
        return trial.connect_ex(("127.0.0.1", port)) == 0


def _shakes_hands(kit: Kit) -> bool:
    """Return whether a server begins TLS: one that hangs does not, and FLARE would wait half a minute to find out."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # FLARE checks the server, right after this
    try:
        context.load_cert_chain(kit.admin / "startup" / "client.crt", kit.admin / "startup" / "client.key")
        with socket.create_connection(("127.0.0.1", kit.port), HANDSHAKE) as raw, context.wrap_socket(raw):
            return True
    except TimeoutError:
        return False
    except OSError:
        return True  # it answers, if only to say no


def _begin_log(kit: Kit) -> int:
    """Make the log ready, private; return where the new part begins."""
    try:
        kit.log.touch(mode=0o600)
        kit.log.chmod(0o600)
        return kit.log.stat().st_size
    except OSError as error:
        raise cannot_write(kit.log, error) from None


def _launch(kit: Kit) -> subprocess.Popen[bytes]:
    with kit.log.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-u", "-m", _MODULE, str(kit.path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=kit.site,
            start_new_session=True,
            env=MEMORY | os.environ | SAFE,
        )


def _remember(kit: Kit, pid: int) -> None:
    psutil = require("The federation needs", "nvflare", "psutil")
    try:
        created = psutil.Process(pid).create_time()
    except psutil.Error:
        return  # it died at once: the log says why
    write_file(kit.process, json.dumps({"pid": pid, "created": created}).encode(), private=True)


def _process(kit: Kit) -> Any:
    """Return the kit's process as psutil knows it, or None; a number that another process got since is not taken for it."""
    psutil = require("The federation needs", "nvflare", "psutil")
    try:
        known = json.loads(kit.process.read_text())
        process = psutil.Process(int(known["pid"]))
        same = abs(process.create_time() - float(known["created"])) < 0.5
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except (OSError, ValueError, KeyError, TypeError, psutil.Error):
        return None


def _processes(kit: Kit) -> list[Any]:
    """Return the kit's process, the processes under it, and jobs of it that lost their parent, the first one first."""
    psutil = require("The federation needs", "nvflare", "psutil")
    found: dict[int, Any] = {}
    top = _process(kit)
    if top is not None:
        found[top.pid] = top
        with contextlib.suppress(psutil.Error):
            found |= {child.pid: child for child in top.children(recursive=True)}
    site, own = str(kit.site), str(kit.path)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            job = site in words and any(word.startswith("nvflare.private.fed.app.") for word in words)
            if job or ({_MODULE, _FORMER_MODULE} & {*words} and words[-1] == own):
                found.setdefault(process.pid, process)
    return list(found.values())


def _await(kit: Kit, process: subprocess.Popen[bytes], begin: int, wait: float, tell: Callable[[str], None]) -> Site:
    """Wait until the site is ready, or for so long, or until it is dead."""
    tell("waiting for the server to listen" if kit.role == "host" else f"connecting to {kit.server}:{kit.port}")
    until = time.monotonic() + wait
    while True:
        code = process.poll()
        if code is not None:
            raise FederationError(f"{kit.name!r} ended at once: {last_words(kit, begin)} (all of it: {kit.log})")
        site = _site(kit, begin)
        if site.connected or time.monotonic() > until:
            return site
        time.sleep(0.2)


def _site(kit: Kit, begin: int | None = None) -> Site:
    """Return what the process and its log say."""
    process = _process(kit)
    site = Site(kit.role, kit.name, f"{kit.server}:{kit.port}")
    if process is None:
        return Site(**asdict(site) | {"note": "not running"})
    if kit.role == "host":
        connected = _listens(kit.port)
        note = "listening" if connected else "not listening yet"
    else:
        connected = _stands(kit, process) and (begin is None or REGISTERED in _log_since(kit, begin))
        note = "connected" if connected else f"not connected yet{_distrust(kit, begin or 0)}, keeps trying"
    return Site(
        **asdict(site) | {"pid": process.pid, "since": process.create_time(), "connected": connected, "note": note}
    )


def _distrust(kit: Kit, begin: int) -> str:
    """Say it where the last try to connect found a server that this kit's authority did not sign."""
    said = _log_since(kit, max(begin, kit.log.stat().st_size - 20_000)) if kit.log.exists() else ""
    found = said.rfind("CERTIFICATE_VERIFY_FAILED") > said.rfind("is created: PID")
    return f" (at {kit.server}:{kit.port} is the server of another federation)" if found else ""


def _stands(kit: Kit, process: Any) -> bool:
    """Return whether a guest's process has a connection to the server."""
    psutil = require("The federation needs", "nvflare", "psutil")
    with contextlib.suppress(psutil.Error):
        found = process.net_connections("tcp")
        return any(each.raddr and each.raddr.port == kit.port and each.status == "ESTABLISHED" for each in found)
    return False


def _log_since(kit: Kit, begin: int) -> str:
    with kit.log.open("rb") as file:
        file.seek(begin)
        return file.read().decode(errors="replace")


def last_words(kit: Kit, begin: int = 0) -> str:
    """Return the last line of the log that says something: an error where there is one."""
    lines = [line.rstrip() for line in _log_since(kit, begin).splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Exit)\b.*:", line)]
    loud = [found["text"] for line in lines if (found := _LINE.match(line)) and found["level"] in ("ERROR", "CRITICAL")]
    return next((kind[-1] for kind in (errors, loud, lines) if kind), "it said nothing")
