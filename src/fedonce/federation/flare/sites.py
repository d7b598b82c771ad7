"""The process of a kit: started, watched and stopped."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedonce.errors import FederationError, InputError
from fedonce.federation import allowance
from fedonce.federation.disclosures import Book
from fedonce.federation.flare.kits import Kit
from fedonce.federation.flare.sessions import close_session as close_session
from fedonce.federation.flare.sessions import listens, silenced
from fedonce.federation.flare.sessions import open_session as open_session
from fedonce.federation.flare.site_processes import launch, process_of, processes_of, remember
from fedonce.federation.policy import Policy
from fedonce.federation.record import ANSWERS, Record
from fedonce.federation.table_checks import check_tables
from fedonce.federation.tables import GuestTables
from fedonce.system.disk import cannot_write
from fedonce.system.extras import require

WAIT = 20.0  # seconds that a start waits for the server to listen, or for the guest to be registered
GRACE = 8.0  # seconds from asking a process to end until it is ended
SILENT = 25.0  # seconds since its last heartbeat, one in ten, after which a guest counts as away
REGISTERED = "Successfully registered client"
_LINE = re.compile(r"^[-0-9]+ [:0-9,]+ - (?P<who>\S+) - (?P<level>[A-Z]+) - (?P<text>.*)$")


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
        process = launch(kit)
        try:
            remember(kit, process.pid)
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
    ours = processes_of(kit)
    for process in ours:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    left = psutil.wait_procs(ours, timeout=grace)[1]
    late = [each for each in processes_of(kit) if each not in left]  # started while we were stopping
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
        with silenced():
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
    answers = kit.path / ANSWERS
    return allowance.as_json(policy, Record(answers).look(), Book(answers).worst())


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


def _check_startable(kit: Kit) -> None:
    if shlex.split(str(kit.path)) != [str(kit.path)]:
        raise FederationError(f"FLARE cannot run jobs from a path with spaces or quotes: {kit.path}. Move the kit.")
    old = process_of(kit)
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


def _begin_log(kit: Kit) -> int:
    """Make the log ready, private; return where the new part begins."""
    try:
        kit.log.touch(mode=0o600)
        kit.log.chmod(0o600)
        return kit.log.stat().st_size
    except OSError as error:
        raise cannot_write(kit.log, error) from None


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
    process = process_of(kit)
    site = Site(kit.role, kit.name, f"{kit.server}:{kit.port}")
    if process is None:
        return Site(**asdict(site) | {"note": "not running"})
    if kit.role == "host":
        connected = listens(kit.port)
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
