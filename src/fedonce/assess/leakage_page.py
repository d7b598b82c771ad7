"""What leaks, as one page that opens anywhere: a verdict on each column, for who signs or refuses."""

from __future__ import annotations

from pathlib import Path

from fedonce import __version__
from fedonce.assess.attacks.base import VERDICTS
from fedonce.assess.attacks.names import ATTACKS
from fedonce.assess.leakage import NEVER_SAFE, Leakage
from fedonce.errors import InputError
from fedonce.messages.representation import Representation
from fedonce.system.disk import write_file

PAGE = Path(__file__).with_name("leakage.html.jinja")


def check_installed() -> None:
    """Raise where the library that fills the page is missing."""
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise InputError("The page needs jinja2, which is not installed. Try: pip install 'fedonce[report]'") from None


def write(found: Leakage, message: Representation, path: Path) -> Path:
    """Write the page, and return its path."""
    check_installed()
    import jinja2

    tried = list(dict.fromkeys(each.attack for each in found.findings))
    order = sorted(found.columns, key=lambda each: (VERDICTS.index(each.verdict), -each.gain))
    environment = jinja2.Environment(autoescape=True)
    page = environment.from_string(PAGE.read_text(encoding="utf-8")).render(
        found=found,
        columns=order,
        message=message,
        facts={name: ATTACKS.facts(name) for name in tried if name in ATTACKS},
        remark=NEVER_SAFE,
        version=__version__,
    )
    return write_file(path, page.encode())
