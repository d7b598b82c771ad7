"""What attacks read in one message, in a line that its page keeps under the message's checksum, so that it is found again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

from fedonce.errors import InputError
from fedonce.messages.representation import Representation
from fedonce.system.disk import read_file

if TYPE_CHECKING:  # what attacks is slow to import, and a message is inspected without it
    from fedonce.assess.leakage import Leakage

REPORT = "report.html"  # in a model's folder
META = "fedonce-attacked"  # the name of the page's meta element
FIRST = ("file", "checksum", "made", "run", "rows", "protection", "attacks read")  # what names a message on its page
NOT_ATTACKED = "not attacked yet: run `fedonce leakage`, and name its page (report)"
NOT_KEPT = "no figures are kept beside a model with a budget: run `fedonce leakage`, and name its page (report)"
NO_DATE = "not known: a message has no date, and no report here says it"
UNKNOWN = {"attacks read": NOT_ATTACKED, "made": NO_DATE}
PAGE_LIMIT = 2**26  # bytes of a page


@dataclass(frozen=True)
class Attacked:
    """What is known of one message beside what it says itself.

    Parameters
    ----------
    checksum : str
        The message's.
    read : str
        What attacks read, and when, in a line; empty: none was tried.
    made : str
        When the message was made; empty: only the report of its making says so.
    """

    checksum: str
    read: str
    made: str = ""

    @classmethod
    def of(
        cls, message: Representation, found: Leakage, attacks: str | Sequence[object], just_made: bool = False
    ) -> Attacked:
        """Return it of a message that was attacked just now."""
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        read = _in_a_line(found, attacks)
        return cls(message.checksum, f"{read}, on {now}" if read else "", now if just_made else "")

    def without_figures(self) -> Attacked:
        """Return it for a page beside a model with a privacy budget, which covers no figures of rows."""
        return replace(self, read=NOT_KEPT if self.read else "")

    @classmethod
    def from_page(cls, path: Path) -> Attacked | None:
        """Read it from a page of `fedonce guest fit` or `fedonce leakage`; None: the file is no such page."""
        page = _Meta()
        page.feed(read_file(path, "report", PAGE_LIMIT).decode(errors="replace"))
        try:
            given = json.loads(page.content)
            texts = {each.name: given[each.name] for each in fields(cls)}
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        return cls(**texts) if all(isinstance(each, str) for each in texts.values()) else None

    def as_text(self) -> str:
        """Return it as a page keeps it."""
        return json.dumps(asdict(self))

    def lines(self) -> dict[str, str]:
        """Return it as two lines for somebody who approves the message."""
        made = f"{self.made}, by its report" if self.made else NO_DATE
        return {"attacks read": self.read or NOT_ATTACKED, "made": made}


def known_of(checksum: str, path: Path, report: str | Path | None) -> dict[str, str]:
    """Return two lines on a message in a file: what attacks read, and when it was made, by the report about this checksum.

    `report` is a page; None: the one beside the message, where there is one and it is about this message.
    """
    page = path.parent / REPORT if report is None else Path(report)
    found = Attacked.from_page(page) if report is not None or page.is_file() else None
    if found is not None and found.checksum == checksum:
        return found.lines()
    if report is not None:
        about = "no report of a message" if found is None else f"about another message, of checksum {found.checksum}"
        raise InputError(f"{page} is {about} (report); this one has checksum {checksum}.", parameter="report")
    return dict(UNKNOWN)


def _in_a_line(found: Leakage, attacks: str | Sequence[object]) -> str:
    from fedonce.assess.attacks.base import NOT_FOUND, PARTLY, READABLE  # here, for the same reason

    if not found.findings:
        return ""
    by_verdict = {verdict: found.with_verdict(verdict) for verdict in (READABLE, PARTLY, NOT_FOUND)}
    readable = [each.finding for each in by_verdict[READABLE] if each.finding is not None]
    anyone = sum(not each.knows for each in readable)
    tried = [each for each in found.columns if each.finding is not None]
    without = f" ({anyone} of them without knowing a row)" if anyone else ""
    rest = [f"{len([each for each in by_verdict[word] if each in tried])} {word}" for word in (PARTLY, NOT_FOUND)]
    untold = [f"{len(found.columns) - len(tried)} not tried"] if len(tried) < len(found.columns) else []
    which = f"{attacks} attacks" if isinstance(attacks, str) else "the attacks " + ", ".join(map(str, attacks))
    counts = "; ".join([f"{len(readable)} of {len(found.columns)} columns readable{without}", *rest, *untold])
    return f"{counts}; by {which}"


class _Meta(HTMLParser):
    """Finds the content of the page's own meta element."""

    def __init__(self) -> None:
        super().__init__()
        self.content = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at an element."""
        given = dict(attrs)
        if tag == "meta" and given.get("name") == META:
            self.content = given.get("content") or ""
