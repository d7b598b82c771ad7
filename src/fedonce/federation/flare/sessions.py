"""The host's sessions with its server: opened, closed, and refused at once where nobody answers."""

from __future__ import annotations

import contextlib
import io
import logging
import shlex
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fedonce.errors import FederationError
from fedonce.federation.flare import hardening
from fedonce.federation.flare.kits import Kit
from fedonce.system.extras import require

HANDSHAKE = 3.0  # seconds for a server to begin TLS
_NOWHERE = logging.NullHandler()


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
    if not listens(kit.port):
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
    with silenced():
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
    with silenced(), contextlib.suppress(Exception):
        session.close()


@contextmanager
def silenced() -> Iterator[None]:
    """Keep FLARE's remarks off the terminal: what matters is raised."""
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(logging.NOTSET)


def listens(port: int) -> bool:
    """Return whether somebody listens on a port of this machine."""
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
