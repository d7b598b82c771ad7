"""Keys and certificates, made by FLARE's own provisioning."""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Sequence
from pathlib import Path

from fedonce.errors import FederationError
from fedonce.federation.flare import hardening
from fedonce.system.disk import make_folder
from fedonce.system.extras import require

AUTHORITY_DAYS = 3650  # guests can be added as long; their own certificates are good for FLARE's 360 days


class _Quiet:
    """What FLARE's provisioning says goes nowhere; its errors are in its context."""

    def info(self, text: str) -> None: ...

    debug = warning = error = info


def provision(folder: Path, server: str, host: str, guests: Sequence[str], port: int, authority: Path | None) -> Path:
    """Let FLARE make keys and certificates; return the folder with a folder for each participant."""
    require("The federation needs", "nvflare", "nvflare")
    from nvflare.lighter.entity import Project
    from nvflare.lighter.impl.cert import CertBuilder
    from nvflare.lighter.impl.static_file import StaticFileBuilder
    from nvflare.lighter.impl.workspace import WorkspaceBuilder
    from nvflare.lighter.provisioner import Provisioner

    if authority is not None:
        make_folder(folder / hardening.PROJECT / "state")
        shutil.copy(authority, folder / hardening.PROJECT / "state" / "cert.json")
    project = Project(hardening.PROJECT, "one-shot vertical federated learning")
    hosts = {"fed_learn_port": port, "host_names": ["localhost", "127.0.0.1"]}
    project.set_server(server, hardening.HOST_ORG, hosts)
    for name in guests:
        project.add_client(name, hardening.GUEST_ORG, {})
    project.add_admin(hardening.admin_name(host), hardening.HOST_ORG, {"role": "lead"})
    builders = [
        WorkspaceBuilder(),
        StaticFileBuilder(config_folder="config"),
        CertBuilder(root_valid_days=AUTHORITY_DAYS),
    ]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        context = Provisioner(str(folder), builders).provision(project, logger=_Quiet())
    made = context.get_result_location()
    if made is None or context.get("build_error"):
        raise FederationError(
            f"FLARE could not make the kits: {'; '.join(context.get_errors()) or 'it did not say why'}."
        )
    return Path(made)
