"""Which processes run from a kit: launched, remembered, found again."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import Any

from fedonce.federation.flare import hardening
from fedonce.federation.flare.kits import Kit
from fedonce.system.disk import write_file
from fedonce.system.extras import require

# glibc keeps large buffers for later, in every thread of a site that passes messages on: let it give them back.
MEMORY = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": "262144", "MALLOC_TRIM_THRESHOLD_": "262144"}
# No process looks for modules where it works: that is the kit, and the kit came from elsewhere. Jobs inherit this.
SAFE = {"PYTHONSAFEPATH": "1"}
_MODULE = "fedonce.federation.flare.process"
_FORMER_MODULE = "fedonce.federation.process"  # of a site that an earlier version started


def running_jobs(kit: Kit) -> set[str]:
    """Return FLARE's numbers of the jobs whose processes live."""
    psutil = require("The federation needs", "nvflare", "psutil")
    words: list[str] = []
    for process in processes_of(kit):
        with contextlib.suppress(psutil.Error):
            words += process.cmdline()
    return {word for word in words if hardening.JOB.fullmatch(word)}


def launch(kit: Kit) -> subprocess.Popen[bytes]:
    """Start the kit's process, in a session of its own; what it prints goes to its log."""
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


def remember(kit: Kit, pid: int) -> None:
    """Write down which process runs from the kit."""
    psutil = require("The federation needs", "nvflare", "psutil")
    try:
        created = psutil.Process(pid).create_time()
    except psutil.Error:
        return  # it died at once: the log says why
    write_file(kit.process, json.dumps({"pid": pid, "created": created}).encode(), private=True)


def process_of(kit: Kit) -> Any:
    """Return the kit's process as psutil knows it, or None; a number that another process got since is not taken for it."""
    psutil = require("The federation needs", "nvflare", "psutil")
    try:
        known = json.loads(kit.process.read_text())
        process = psutil.Process(int(known["pid"]))
        same = abs(process.create_time() - float(known["created"])) < 0.5
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except (OSError, ValueError, KeyError, TypeError, psutil.Error):
        return None


def processes_of(kit: Kit) -> list[Any]:
    """Return the kit's process, the processes under it, and jobs of it that lost their parent, the first one first."""
    psutil = require("The federation needs", "nvflare", "psutil")
    found: dict[int, Any] = {}
    top = process_of(kit)
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
