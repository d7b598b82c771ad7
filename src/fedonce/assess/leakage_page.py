"""What leaks, as one page that opens anywhere: a verdict on each column, for who signs or refuses."""

from __future__ import annotations

from pathlib import Path

from fedonce.assess.attacks.base import VERDICTS
from fedonce.assess.attacks.names import ATTACKS
from fedonce.assess.leakage import NEVER_SAFE, Leakage
from fedonce.messages.representation import Representation
from fedonce.report import page


def write(found: Leakage, message: Representation, path: Path) -> Path:
    """Write the page, and return its path."""
    tried = list(dict.fromkeys(each.attack for each in found.findings))
    text = page.render(
        "assess/leakage.html.jinja",
        found=found,
        columns=sorted(found.columns, key=lambda each: (VERDICTS.index(each.verdict), -each.gain)),
        message=message,
        facts={name: ATTACKS.facts(name) for name in tried if name in ATTACKS},
        never_safe=NEVER_SAFE,
    )
    return page.write(path, text)
