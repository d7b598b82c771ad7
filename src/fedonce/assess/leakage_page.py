"""What leaks, as one page that opens anywhere: a verdict on each column, for the person who signs or refuses."""

from __future__ import annotations

from pathlib import Path

from fedonce.assess.attacked import FIRST, Attacked, known_of
from fedonce.assess.attacks.base import VERDICTS
from fedonce.assess.attacks.names import ATTACKS
from fedonce.assess.inspection import protection
from fedonce.assess.leakage import NEVER_SAFE, REMEDIES, Leakage
from fedonce.messages.representation import Representation
from fedonce.report import page


def write(found: Leakage, message: Representation, file: Path, attacked: Attacked, path: Path) -> Path:
    """Write the page about a message in a file, and return its path."""
    tried = list(dict.fromkeys(each.attack for each in found.findings))
    about = {
        "file": str(file),
        "checksum": message.checksum,
        "run": message.run,
        "rows": message.n_rows,
        "protection": protection(message),
        **attacked.lines(),
        "made": known_of(message.checksum, file, None)["made"],
    }
    text = page.render(
        "assess/leakage.html.jinja",
        found=found,
        columns=sorted(found.columns, key=lambda each: (VERDICTS.index(each.verdict), -each.gain)),
        message=message,
        about={name: about[name] for name in FIRST},
        attacked=attacked,
        facts={name: ATTACKS.facts(name) for name in tried if name in ATTACKS},
        never_safe=NEVER_SAFE,
        remedies=REMEDIES,
    )
    return page.write(path, text)
