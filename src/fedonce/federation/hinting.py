"""Hints at labels in a federation: the host publishes them before it asks guests to learn, and a guest takes them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedonce.data.table import Table
from fedonce.errors import MessageError
from fedonce.federation.request import Request
from fedonce.federation.runfile import RunFile
from fedonce.federation.workplace import Refused
from fedonce.jobs import TableSource
from fedonce.jobs.hint import read_label
from fedonce.jobs.hint_record import HintRecord, Publication
from fedonce.messages.hints import Hints
from fedonce.party import Guest, Host
from fedonce.party.hinting import NO_HINT, hints_of
from fedonce.rows.alignment import AgreedRows
from fedonce.rows.ids import Naming

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Hinted:
    """What the host has published for a training.

    Parameters
    ----------
    files : dict by guest
        The file for each; without an alignment all have the same.
    publication : Publication
        What was written down.
    """

    files: Mapping[str, bytes] = field(repr=False)
    publication: Publication

    @property
    def hints(self) -> Hints:
        """The first of them: what they say of the label is the same in all."""
        return self.publication.hints[0]

    def as_json(self) -> dict[str, Any]:
        """Return what was published as JSON values; the epsilon of a label that travels as it is as None."""
        hints = self.hints
        what = {"label": hints.label, "epsilon": None if hints.keep == 1 else hints.epsilon, "classes": hints.classes}
        files = {"bytes": sum(map(len, self.files.values())), "guests": list(self.files)}
        return what | self.publication.as_json() | files


def publish(file: RunFile, party: Host, agreed: Mapping[str, bytes], guests: list[str]) -> Hinted | None:
    """Publish what a run file says, for some guests, in the rows agreed with each; None: there are no hints.

    The same run file gives the same bytes each time, as long as the host keeps its record: guests that are asked again know the
    request.
    """
    wanted = file.hints
    if wanted is None or not guests:
        return None
    source = TableSource(file.table, file.id, types=file.types)
    label, ids, task = read_label(source, wanted.label, wanted.hinting, party.name, file.task)
    naming = Naming("hashed" if party.secret is None else "keyed", party.secret, party.forms)
    # Without an alignment one file is for all; with one, each guest has its own, in the rows agreed with it.
    to = [(AgreedRows.from_bytes(agreed[name]), (name,)) for name in guests] if agreed else [(None, tuple(guests))]
    record = HintRecord(wanted.record, wanted.limit)
    done = record.publish(label, wanted.label, wanted.hinting, task, party.name, file.run, ids, naming, to)
    files = [hints.to_bytes() for hints in done.hints] * (1 if agreed else len(guests))
    return Hinted(dict(zip(guests, files, strict=True)), done)


def hints_for(request: Request, party: Guest, own: Table, agreed: AgreedRows | None) -> Hints | None:
    """Return what the host tells of its labels, once it is known to fit the guest's rows; None: nothing."""
    if request.hints is None:
        return None
    try:
        hints = Hints.from_bytes(request.hints, request.host)
        told = hints_of(hints, own, None, party.naming, agreed, party.name, request.run)
    except MessageError as error:
        raise Refused(str(error)) from None
    known = int((told != NO_HINT).sum())
    logger.info("run %s: hints at %r, epsilon %g, for %d rows", request.run, hints.label, hints.epsilon, known)
    return hints
