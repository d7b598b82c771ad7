"""Links of pages to what lies beside docs/, as the site can follow them.

A page links to files of the repository. Those that are pages of the site themselves are linked as such; other files are copied
into the site, by Sphinx; a folder has nothing to show, and is named.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {  # files beside docs/ that are pages of the site
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "examples/two_departments/README.md": "two-departments.md",
}
LINK = re.compile(r"\[([^\]\n]*)\]\(((?!\w+:)[^)#\s]+)(#[^)\s]*)?\)")


def inside(text: str, folder: Path) -> str:
    """Return a page's text with its links as the site has them; `folder` is where the page lies."""

    def changed(link: re.Match[str]) -> str:
        words, target, anchor = link[1], (folder / link[2]).resolve(), link[3] or ""
        if not target.is_relative_to(ROOT) or not target.exists():
            return link[0]  # which Sphinx says
        name = target.relative_to(ROOT).as_posix()
        if name in PAGES:
            return f"[{words}](/{PAGES[name]}{anchor})"
        if target.is_dir():
            return f"`{name}/`" if words.strip("`/") == name else f"{words} (`{name}/`)"
        if target.is_relative_to(DOCS):
            return f"[{words}](/{target.relative_to(DOCS).as_posix()}{anchor})"
        return link[0]

    return LINK.sub(changed, text)
