"""Guests as clients of an NVIDIA FLARE server that the host operates: the engine of a federation over FLARE's jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedonce.federation.collecting import Terms
from fedonce.federation.engine import Read, RoundsFederationEngine
from fedonce.federation.flare.kits import Kit
from fedonce.federation.flare.transport import FlareTransport
from fedonce.federation.jobqueue import Watch
from fedonce.federation.request import Request


class NvflareEngine(RoundsFederationEngine):
    """Asks guests through FLARE's jobs, by the host's kit; the rest is as for `FederationEngine`."""

    def __init__(
        self,
        kit: Kit,
        asked: Mapping[str, Request],
        folder: Path,
        terms: Terms,
        read: Read | None = None,
        watch: Watch = lambda status: None,
    ) -> None:
        super().__init__(flare_transport(kit, terms), asked, folder, terms, read, watch)


def flare_transport(kit: Kit, terms: Terms) -> FlareTransport:
    """Return FLARE as a transport, whose server keeps to the host's terms."""
    return FlareTransport(kit, terms.silence, terms.max_message)
