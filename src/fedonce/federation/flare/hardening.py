"""FLARE's own files in a kit, written by us: what a site runs, whom it obeys, what it keeps to itself.

They are rewritten at each start from the kit's few facts. A guest gets its kit from the host, and much of what FLARE reads
from a kit can run code: a guest that starts is not to rely on what came with the kit, but on what is written here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from fedonce.errors import FederationError
from fedonce.system.disk import make_folder, write_file

PROJECT = "fedonce"
HOST_ORG, GUEST_ORG = "host", "guest"  # FLARE compares organisations: a guest's is never the host's
SCHEME = "http"  # web sockets over TLS: passes most firewalls
# Names of a wire format: they stay, wherever the modules are (`system/former.py`).
GUEST_CLASSES = ["fedonce.federation.guest_app.Answer"]  # these alone: a module would offer all that it imports
SERVER_CLASSES = ["fedonce.federation.server_app.Collect"]

_KEPT = {
    "server": {"server.key", "server.crt", "rootCA.pem", "fed_server.json"},
    "client": {"client.key", "client.crt", "rootCA.pem", "fed_client.json"},
    "admin": {"client.key", "client.crt", "rootCA.pem", "fed_admin.json"},
}
_LOCAL = {"resources.json", "authorization.json", "log_config.json"}
JOB = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # FLARE's number of a job, and the name of its folder
# What else is in a site's folder once it has run.
_WRITTEN = re.compile(
    rf"startup|local|transfer|storage|{JOB.pattern}|(log|error_log|log_fl)\.(txt|json)(\.\d+)?|audit\.log[\w.-]*|\w+\.fl"
)


def admin_name(host: str) -> str:
    """Return the host's name as FLARE's administrator: one that looks like an address, as FLARE asks for."""
    return f"{host}@host.fedonce"


def strip(folder: Path) -> None:
    """Remove what provisioning adds and nothing here uses: scripts, notebooks, examples."""
    kept = _KEPT[folder.name]
    for path in [*folder.iterdir()]:
        if path.is_file():
            path.unlink()
    for path in [*(folder / "local").iterdir()]:
        path.unlink()
    for path in [*(folder / "startup").iterdir()]:
        if path.name not in kept:
            path.unlink()


def write_server(folder: Path, server: str, port: int) -> None:
    """Write the files of the host's server."""
    folder = folder.resolve()
    _refuse_others(folder)
    startup = {
        "format_version": 2,
        "require_signed_jobs": True,
        "servers": [
            {
                "name": PROJECT,
                "service": {"target": f"{server}:{port}", "scheme": SCHEME},
                "admin_server": server,
                "admin_port": port,
                "ssl_private_key": "server.key",
                "ssl_cert": "server.crt",
                "ssl_root_cert": "rootCA.pem",
                "connection_security": "mtls",
            }
        ],
    }
    _write(folder / "startup" / "fed_server.json", startup)
    _write(folder / "local" / "resources.json", _server_resources(folder))
    _write(folder / "local" / "authorization.json", _permissions(operate="o:site"))
    _write(folder / "local" / "log_config.json", _LOGS)
    make_folder(folder / "transfer")


def write_client(folder: Path, server: str, port: int, name: str) -> None:
    """Write the files of a guest's client."""
    folder = folder.resolve()
    _refuse_others(folder)
    startup = {
        "format_version": 2,
        "require_signed_jobs": True,
        "servers": [{"name": PROJECT, "service": {"target": f"{server}:{port}", "scheme": SCHEME}, "identity": server}],
        "client": {
            "ssl_private_key": "client.key",
            "ssl_cert": "client.crt",
            "ssl_root_cert": "rootCA.pem",
            "fqsn": name,
            "is_leaf": True,
            "connection_security": "mtls",
        },
    }
    _write(folder / "startup" / "fed_client.json", startup)
    _write(folder / "local" / "resources.json", _client_resources())
    _write(folder / "local" / "authorization.json", _permissions(operate="none"))
    _write(folder / "local" / "log_config.json", _LOGS)
    make_folder(folder / "transfer")


def write_admin(folder: Path, server: str, port: int, host: str) -> None:
    """Write the file with which the host's commands find its server: on this machine, whatever the address outside is."""
    folder = folder.resolve()
    admin = {
        "project_name": PROJECT,
        "username": admin_name(host),
        "server_identity": server,
        "scheme": SCHEME,
        "host": "127.0.0.1",
        "port": port,
        "connection_security": "mtls",
        "uid_source": "user_input",
        "with_file_transfer": True,
        "upload_dir": str(folder / "transfer"),
        "download_dir": str(folder / "transfer"),
        "client_key": "client.key",
        "client_cert": "client.crt",
        "ca_cert": "rootCA.pem",
    }
    _write(folder / "startup" / "fed_admin.json", {"format_version": 1, "admin": admin})
    _write(folder / "local" / "resources.json", {"format_version": 1, "admin": {"idle_timeout": 900.0}})
    make_folder(folder / "transfer")


def _refuse_others(folder: Path) -> None:
    """Refuse what FLARE or Python might load, and is not ours: a process of the site works in its folder."""
    others = [path for path in folder.iterdir() if not _WRITTEN.fullmatch(path.name)]
    for part, known in (("startup", _KEPT[folder.name]), ("local", _LOCAL)):
        make_folder(folder / part)
        others += [path for path in (folder / part).iterdir() if path.name not in known]
    if others:
        raise FederationError(
            f"The kit has a file that does not belong there, and FLARE might run it: {min(others)}. Remove it, or get a new kit."
        )


def _permissions(operate: str) -> dict[str, Any]:
    """Return who may do what at a site: the host's administrator (FLARE's role "lead") uses its own jobs, nothing more."""
    lead = {
        "submit_job": "any",
        "clone_job": "n:submitter",
        "manage_job": "n:submitter",
        "download_job": "n:submitter",
        "app_command": "n:submitter",
        "view": "any",
        "operate": operate,
        "shell_commands": "none",
        "byoc": "none",
        "server-predeployed-flwr": "none",
    }
    return {
        "format_version": "1.0",
        "permissions": {"project_admin": "none", "org_admin": "none", "lead": lead, "member": "none"},
    }


def _client_resources() -> dict[str, Any]:
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": GUEST_CLASSES,
        "allow_log_streaming": False,
        "client": {"retry_timeout": 30, "compression": "Gzip"},
        "components": [
            {
                "id": "resource_manager",
                "path": "nvflare.app_common.resource_managers.gpu_resource_manager.GPUResourceManager",
                "args": {"num_of_gpus": 0, "mem_per_gpu_in_GiB": 0, "expiration_period": 300},
            },
            {
                "id": "resource_consumer",
                "path": "nvflare.app_common.resource_consumers.gpu_resource_consumer.GPUResourceConsumer",
                "args": {},
            },
            {
                "id": "process_launcher",
                "path": "nvflare.app_common.job_launcher.client_process_launcher.ClientProcessJobLauncher",
                "args": {},
            },
        ],
    }


def _server_resources(folder: Path) -> dict[str, Any]:
    storage = "nvflare.app_common.storages.filesystem_storage.FilesystemStorage"
    snapshots = {"root_dir": str(folder / "storage" / "snapshots"), "uri_root": "/"}
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": SERVER_CLASSES,
        "servers": [
            {"admin_storage": "transfer", "max_num_clients": 10_000, "heart_beat_timeout": 60, "admin_timeout": 10.0}
        ],
        "snapshot_persistor": {
            "path": "nvflare.app_common.state_persistors.storage_state_persistor.StorageStatePersistor",
            "args": {"uri_root": "/", "storage": {"path": storage, "args": snapshots}},
        },
        "components": [
            {
                "id": "job_scheduler",
                "path": "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler",
                "args": {
                    "max_jobs": 1000,
                    "max_schedule_count": 10**9,  # a job waits for its guest as long as the host lets it
                    "min_schedule_interval": 1.0,
                    "max_schedule_interval": 2.0,
                },
            },
            {
                "id": "job_manager",
                "path": "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                "args": {"uri_root": str(folder / "storage" / "jobs"), "job_store_id": "job_store"},
            },
            {"id": "job_store", "path": storage},
            {
                "id": "process_launcher",
                "path": "nvflare.app_common.job_launcher.server_process_launcher.ServerProcessJobLauncher",
                "args": {},
            },
        ],
    }


_LOGS = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {
            "()": "nvflare.fuel.utils.log_utils.BaseFormatter",
            "fmt": "%(asctime)s - %(name)s - %(levelname)s - %(fl_ctx)s - %(message)s",
        }
    },
    "handlers": {
        "consoleHandler": {
            "class": "logging.StreamHandler",
            "level": "DEBUG",
            "formatter": "plain",
            "stream": "ext://sys.stdout",
        },
        "logFileHandler": {
            "class": "logging.handlers.RotatingFileHandler",
            "level": "DEBUG",
            "formatter": "plain",
            "filename": "log.txt",
            "mode": "a",
            "maxBytes": 20 * 2**20,
            "backupCount": 5,
        },
    },
    "loggers": {"root": {"level": "INFO", "handlers": ["consoleHandler", "logFileHandler"]}},
}


def _write(path: Path, content: dict[str, Any]) -> None:
    make_folder(path.parent)
    write_file(path, json.dumps(content, indent=2).encode(), private=True)
