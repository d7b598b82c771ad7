"""Check a built site as a reader's browser would: every link within it leads somewhere, and nothing is fetched from elsewhere.

    python docs/site/check.py build/docs

Sphinx checks the links of pages; this also looks at what themes, templates and docstrings add. External links are not followed.
"""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}  # by the browser, unasked
DESCRIBING = {"canonical", "index", "search", "next", "prev", "author", "copyright"}  # links that fetch nothing


class Page(HTMLParser):
    """What a page links to, what it fetches, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of one element."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if given.get(FETCHED.get(tag, "")) and given.get("rel") not in DESCRIBING:
            self.fetched.append(given[FETCHED[tag]])


@cache
def page(path: Path) -> Page:
    """Read a page once."""
    return Page(path.read_text(encoding="utf-8"))


def faults(folder: Path) -> list[str]:
    """Return what is wrong with the pages of a folder, a line each."""
    found = []
    for path in sorted(folder.rglob("*.html")):
        here = page(path.resolve())
        for target in {*here.links, *here.fetched}:
            why = _wrong(path.resolve(), target, target in here.fetched)
            if why:
                found.append(f"{path.relative_to(folder)}: {target}: {why}")
    return found


def _wrong(path: Path, target: str, fetched: bool) -> str | None:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return "is fetched from elsewhere" if fetched and parts.scheme != "data" else None
    aim = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not aim.is_file():
        return "there is no such file"
    if parts.fragment and aim.suffix == ".html" and unquote(parts.fragment) not in page(aim).anchors:
        return "the page has no such anchor"
    return None


def main(folder: str) -> int:
    """Print what is wrong; return the exit code."""
    found = faults(Path(folder))
    pages = len(list(Path(folder).rglob("*.html")))
    print("\n".join([*found, f"{pages} pages, {len(found)} faults"]))
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
