"""How a page is filled and written: a template of a room, on the one base that all of them share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from fedonce import __version__
from fedonce.system.disk import write_file

PACKAGE = Path(__file__).parents[1]


def render(template: str, **values: Any) -> str:
    """Return a page; `template` is its path within the package, as in "demo/page.html.jinja".

    All values are escaped: names of columns and parties may hold anything. A value that a template lacks is an error.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(PACKAGE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = percent
    environment.filters["count"] = count
    environment.filters["as_options"] = as_options
    return environment.get_template(template).render(version=__version__, **values)


def write(path: Path, page: str, private: bool = False) -> Path:
    """Write a page and the folders above it; `private`: for its owner's eyes only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_file(path, page.encode(), private=private)


def percent(share: float) -> str:
    """Return a share in percent.

    >>> percent(0.9711)
    '97.1 %'
    """
    return f"{100 * share:.1f} %"


def count(number: int) -> str:
    """Return a number with its thousands apart.

    >>> count(22823)
    '22,823'
    """
    return f"{number:,}"


def as_options(text: str, parameters: Sequence[str]) -> str:
    """Return a text with parameters in brackets as options of the command: pages are read by those who run commands."""
    names = "|".join(parameters)
    return re.sub(rf"\((?:{names})(?:=[^()]*)?\)", lambda found: _option(found[0][1:-1]), text)


def _option(given: str) -> str:
    name, _, value = given.partition("=")
    return f"({' '.join(filter(None, ['--' + name.replace('_', '-'), value]))})"
