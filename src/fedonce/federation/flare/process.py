"""The process of a site: FLARE's server or client, started from a kit with `python -m fedonce.federation.flare.process KIT`.

FLARE's server takes commands from every certificate of the federation, and its client obeys the server: it answers commands to
read files, to restart and to shut down, and asks its own permissions only where the server says so. Here the server obeys nobody
but the host's administrator; a guest's client answers nothing but what a job needs, and runs jobs that this administrator signed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import sys
import threading
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from fedonce.federation.flare import hardening
from fedonce.federation.flare.cleanup import tidy
from fedonce.federation.flare.kits import Kit, open_kit

LAST_SIGN = 15  # seconds that the server holds a finished job open for a guest that is gone (FLARE: 15 minutes)
LOG_BYTES = 20 * 2**20  # of what a site prints; the part before is kept once

# What FLARE's client may be asked: what a job needs from its start to its end.
ANSWERED = {
    "AbortAppProcessor",
    "AbortTaskProcessor",
    "CancelResourceProcessor",
    "CheckResourceProcessor",
    "ClientStatusProcessor",
    "DeployProcessor",
    "NotifyJobStatusProcessor",
    "StartJobProcessor",
}
# What a job's description may not hold: other ways to run it (containers, other interpreters), and what we have no use for.
REFUSED_JOB_KEYS = ("launcher_spec", "resource_spec", "scope", "stats_pool_config", "edge_method", "custom_props")

logger = logging.getLogger("fedonce.federation.flare.process")  # this module runs as __main__


def run(kit: Kit) -> int:
    """Run FLARE's server or client until it ends; return its exit code."""
    from nvflare.fuel.f3.mpm import MainProcessMonitor
    from nvflare.private.fed.app.utils import version_check

    version_check()
    guard(kit)
    folder = str(kit.site)
    common = ["secure_train=true", "config_folder=config"]
    if kit.role == "host":
        from nvflare.private.fed.app.server import server_train as flare

        end_old_jobs(kit)
        said = [*common, f"org={hardening.HOST_ORG}", f"client_outcome_wait_timeout={LAST_SIGN}"]
        args = Namespace(workspace=folder, fed_server="fed_server.json", set=said)
    else:
        from nvflare.private.fed.app.client import client_train as flare

        said = [*common, f"org={hardening.GUEST_ORG}", f"uid={kit.name}"]
        args = Namespace(workspace=folder, fed_client="fed_client.json", set=said, local_rank=0)
    return int(MainProcessMonitor.run(main_func=flare.main, run_dir=folder, args=args) or 0)


def end_old_jobs(kit: Kit) -> None:
    """Let the server see that jobs ended with it when it was killed, and remove what they held of messages.

    FLARE has a function for the former, which it does not call: such jobs would stay "running" for ever.
    """
    from nvflare.private.fed.app.deployer import server_deployer
    from nvflare.private.fed.server.job_runner import JobRunner

    for folder in kit.site.iterdir():
        if folder.is_dir() and hardening.JOB.fullmatch(folder.name):
            shutil.rmtree(folder, ignore_errors=True)

    class Tidy(JobRunner):  # type: ignore[misc]
        def run(self, fl_ctx: Any) -> None:
            self.update_unfinished_jobs(fl_ctx)
            super().run(fl_ctx)

    server_deployer.JobRunner = Tidy


def guard(kit: Kit) -> None:
    """Obey the host's administrator alone, in jobs that bring nothing but a request; log whatever is refused."""
    permissions = json.loads((kit.site / "local" / "authorization.json").read_text())
    _guard_rights(kit, permissions)
    _guard_jobs()
    if kit.role == "host":
        _guard_login(kit)
        _log_strangers()
    else:
        _guard_commands()
        _end_where_nothing_connects()


def _guard_rights(kit: Kit, permissions: dict[str, Any]) -> None:
    """Give rights to the host's administrator by name, and without FLARE's exception for the role "super"."""
    from nvflare.fuel.sec.authz import AuthorizationService
    from nvflare.security.security import FLAuthorizer

    host = kit.admin_name.lower()  # FLARE compares names in small letters

    class Strict(FLAuthorizer):  # type: ignore[misc]
        def authorize(self, ctx: Any) -> tuple[bool, str]:
            if ctx is None:
                return False, "nothing to authorize"
            if ctx.user.name == host and self.evaluate(ctx)[0]:
                return True, ""
            said = f"{ctx.user.name!r} with the role {ctx.user.role!r} may not {ctx.right!r} at {kit.name}"
            logger.warning("refused: %s", said)
            return False, said

    org = hardening.HOST_ORG if kit.role == "host" else hardening.GUEST_ORG
    AuthorizationService.initialize(Strict(org, permissions))  # the first one stays


def _guard_jobs() -> None:
    """Take jobs that the host's administrator signed, whoever hands them over, and that ask for no other way to run them."""
    from nvflare.fuel.sec.authz import AuthorizationService, AuthzContext, Person
    from nvflare.private.fed.utils.app_authz import AppAuthzService

    flare = AppAuthzService.authorize_app_info

    def authorize(
        app_info: Any, submitter_name: str, submitter_org: str, submitter_role: str, job_meta: Any = None
    ) -> tuple[bool, str]:
        signer = Person(submitter_name, submitter_org, submitter_role)  # by its certificate, where the job is signed
        allowed, error = AuthorizationService.authorize(AuthzContext("submit_job", signer, signer))
        odd = next((key for key in REFUSED_JOB_KEYS if (job_meta or {}).get(key)), None)
        if allowed and odd is not None:
            allowed, error = False, f"a job may not say {odd!r}"
            logger.warning("refused: %s", error)
        return flare(app_info, submitter_name, submitter_org, submitter_role, job_meta) if allowed else (False, error)

    AppAuthzService.authorize_app_info = staticmethod(authorize)


def _guard_login(kit: Kit) -> None:
    """Let nobody else log in: FLARE takes every certificate of the federation, a guest's too, and some commands ask no right."""
    from nvflare.fuel.hci.server.login import LoginModule

    flare = LoginModule.handle_cert_login

    def login(module: Any, conn: Any, args: list[str]) -> None:
        if args[1:] == [kit.admin_name]:
            flare(module, conn, args)
        else:
            logger.warning("refused: %r may not give commands here", " ".join(args[1:])[:100])
            conn.append_string("REJECT: only the host gives commands")

    LoginModule.handle_cert_login = login


def _guard_commands() -> None:
    """Leave the client the few commands that jobs need, for jobs alone: FLARE removes the folder that a job's number names."""
    from nvflare.fuel.f3.cellnet.utils import new_cell_message
    from nvflare.private.admin_defs import MsgHeader, ReturnCode, error_reply
    from nvflare.private.defs import RequestHeader
    from nvflare.private.fed.client.admin import FedAdminAgent
    from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

    processors = ClientRequestProcessors.request_processors
    processors[:] = [each for each in processors if type(each).__name__ in ANSWERED]
    flare = FedAdminAgent._dispatch_request

    def dispatch(agent: Any, request: Any) -> Any:
        header = request.payload.get_header
        job, meta = header(RequestHeader.JOB_ID), header(RequestHeader.JOB_META)
        named = [job, meta.get("job_id") if isinstance(meta, dict) else None]
        if all(map(_may_be_job, named)):
            reply = flare(agent, request)
        else:
            reply = new_cell_message({}, error_reply(f"{named!r:.100} names no job"))
        if reply.payload.get_header(MsgHeader.RETURN_CODE) == ReturnCode.ERROR:
            of_job = f", job {job}" if job and _may_be_job(job) else ""
            logger.warning("refused: %s of the server%s: %s", request.payload.topic, of_job, reply.payload.body)
        return reply

    FedAdminAgent._dispatch_request = dispatch


def _may_be_job(number: object) -> bool:
    """Tell whether it is a number of FLARE's jobs, or none."""
    return number is None or (isinstance(number, str) and hardening.JOB.fullmatch(number) is not None)


def _end_where_nothing_connects() -> None:
    """End a client whose keys cannot be used. FLARE's would wait without a word; a server that is away is another matter."""
    from nvflare.private.fed.client.fed_client import FederatedClient

    flare = FederatedClient.connect_to_server

    def connect(client: Any, *given: Any) -> None:
        try:
            flare(client, *given)
        except Exception as error:
            logger.error("cannot connect: %s: %s", type(error).__name__, error)
            os._exit(1)

    FederatedClient.connect_to_server = connect


def _log_strangers() -> None:
    """Log connections that TLS turns away: Python and FLARE say nothing of them."""
    from asyncio import sslproto

    python = sslproto.SSLProtocol._fatal_error

    def fatal(protocol: Any, error: BaseException, message: str = "") -> None:
        if "handshake" in f"{message} {error}" and (said := _turned_away(protocol, error)):
            peer = protocol._transport.get_extra_info("peername") if protocol._transport else None
            logger.warning("refused: a connection from %s: %s", peer[0] if peer else "somewhere", said)
        python(protocol, error, message)

    sslproto.SSLProtocol._fatal_error = fatal  # type: ignore[method-assign,assignment]


def _turned_away(protocol: Any, error: BaseException) -> str:
    """Return why a connection came to nothing; empty where somebody only looked whether the server listens."""
    if not isinstance(error, ConnectionResetError):
        return str(error)
    begun = protocol._sslobj is not None and protocol._sslobj.cipher() is not None
    return "it left when it saw the certificate of this server" if begun else ""


def keep_log_short(log: Path, longest: int = LOG_BYTES, pause: float = 60.0) -> None:
    """Put a long log aside, once and again. All who write to it append: it can be cut under them."""
    while True:
        with contextlib.suppress(OSError):
            if log.stat().st_size > longest:
                shutil.copy(log, log.with_name("log.old.txt"))
                os.truncate(log, 0)
        time.sleep(pause)


def keep_tidy(kit: Kit, pause: float = 3600.0) -> None:
    """Clear away what is old, once and again."""
    while True:
        with contextlib.suppress(OSError):
            tidy(kit)
        time.sleep(pause)


def main() -> None:
    """Start from the kit that the command line names."""
    os.umask(0o077)  # what FLARE writes into a kit is as private as the kit
    kit = open_kit(Path(sys.argv[1]))
    kit.harden()
    threading.Thread(target=keep_log_short, args=(kit.log,), daemon=True).start()
    threading.Thread(target=keep_tidy, args=(kit,), daemon=True).start()
    sys.exit(run(kit))


if __name__ == "__main__":
    main()
