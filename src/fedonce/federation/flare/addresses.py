"""Names of parties and addresses of servers that certificates and kits can carry."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from fedonce.errors import InputError
from fedonce.messages.names import is_party_name, why_not

LONGEST_NAME = 48  # a certificate takes 64 letters, some of which we add


def check_names(host: str, guests: Sequence[str]) -> None:
    """Raise unless host and guests have names that a certificate takes, each its own."""
    if not guests:
        raise InputError("A federation needs a guest at least, as in guests=['shop', 'telco'].", parameter="guests")
    for name in (host, *guests):
        if not re.fullmatch(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{LONGEST_NAME - 1}}}", name):
            raise InputError(
                f"A party's name must be letters, digits, - and _, begin with a letter or digit, and have {LONGEST_NAME} at "
                f"most: it is in its certificate. Got {repr(name) if is_party_name(name) else why_not(name)}."
            )
        if name.lower() in ("server", "admin"):
            raise InputError(f"No party can have the name {name!r}, which FLARE uses itself; choose another.")
    if host in guests:
        raise InputError(f"The host {host!r} cannot be a guest, too; give the guests' names only.")
    names = [name.lower() for name in (host, *guests)]
    twice = next((name for name in (host, *guests) if names.count(name.lower()) > 1), None)
    if twice is not None:
        raise InputError(f"Two parties have the name {twice!r}, but for capitals; give them different names.")


def check_address(server: str, port: int) -> None:
    """Raise unless guests could reach a server there."""
    label = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    if not re.fullmatch(rf"{label}(\.{label})*", server) or len(server) > 64:
        raise InputError(
            f"The server must be a DNS name (64 letters at most) or an IPv4 address, as in fed.bank.com. "
            f"Got {server!r}.",
            parameter="server",
        )
    if re.fullmatch(r"[0-9.]+", server):
        try:
            any_address = ipaddress.IPv4Address(server).is_unspecified
        except ValueError:
            raise InputError(f"The server's address {server!r} is no IPv4 address; give one like 192.0.2.7.") from None
        if any_address:
            raise InputError(f"Guests cannot reach {server}; give the address under which they see this machine.")
    if not 0 < port < 2**16:
        raise InputError(f"A port must be between 1 and 65535. Got {port}.")
