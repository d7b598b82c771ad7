"""The process of a site: FLARE's server or client, started from a kit with `python -m fedonce.federation.process KIT`.

FLARE's client obeys its server: it answers commands to read files, to restart and to shut down, and asks its own permissions
only where the server says so. Here a guest's client answers nothing but what a job needs, and its permissions have no exception.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import threading
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from fedonce.federation import hardening
from fedonce.federation.kits import Kit, open_kit

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


def run(kit: Kit) -> int:
    """Run FLARE's server or client until it ends; return its exit code."""
    from nvflare.fuel.f3.mpm import MainProcessMonitor
    from nvflare.private.fed.app.utils import version_check

    version_check()
    folder = str(kit.site)
    common = ["secure_train=true", "config_folder=config"]
    if kit.role == "host":
        from nvflare.private.fed.app.server import server_train as flare

        args = Namespace(workspace=folder, fed_server="fed_server.json", set=[*common, f"org={hardening.HOST_ORG}"])
    else:
        from nvflare.private.fed.app.client import client_train as flare

        guard(kit)
        said = [*common, f"org={hardening.GUEST_ORG}", f"uid={kit.name}"]
        args = Namespace(workspace=folder, fed_client="fed_client.json", set=said, local_rank=0)
    return int(MainProcessMonitor.run(main_func=flare.main, run_dir=folder, args=args) or 0)


def guard(kit: Kit) -> None:
    """Leave the client the few commands that jobs need, and permissions without FLARE's exception for the role "super"."""
    from nvflare.fuel.sec.authz import AuthorizationService
    from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors
    from nvflare.security.security import FLAuthorizer

    class Strict(FLAuthorizer):  # type: ignore[misc]
        def authorize(self, ctx: Any) -> tuple[bool, str]:
            if ctx is None:
                return False, "nothing to authorize"
            allowed, error = self.evaluate(ctx)
            return allowed, error or ("" if allowed else f"{ctx.user.name!r} may not {ctx.right!r} at this guest")

    permissions = json.loads((kit.site / "local" / "authorization.json").read_text())
    AuthorizationService.initialize(Strict(hardening.GUEST_ORG, permissions))  # the first one stays
    processors = ClientRequestProcessors.request_processors
    processors[:] = [each for each in processors if type(each).__name__ in ANSWERED]


def keep_log_short(log: Path, longest: int = LOG_BYTES, pause: float = 60.0) -> None:
    """Put a long log aside, once and again. All who write to it append: it can be cut under them."""
    while True:
        with contextlib.suppress(OSError):
            if log.stat().st_size > longest:
                shutil.copy(log, log.with_name("log.old.txt"))
                os.truncate(log, 0)
        time.sleep(pause)


def main() -> None:
    """Start from the kit that the command line names."""
    os.umask(0o077)  # what FLARE writes into a kit is as private as the kit
    kit = open_kit(Path(sys.argv[1]))
    kit.harden()
    threading.Thread(target=keep_log_short, args=(kit.log,), daemon=True).start()
    sys.exit(run(kit))


if __name__ == "__main__":
    main()
