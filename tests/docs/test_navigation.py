"""Every page is in the navigation, and the navigation names pages alone. (`make docs` says so, too, and takes longer.)"""

from __future__ import annotations

import re

from docs.site.links import DOCS

TREE = re.compile(r"```\{toctree\}\n(.*?)```", re.DOTALL)


def listed() -> list[str]:
    trees = [tree for path in DOCS.glob("*.md") for tree in TREE.findall(path.read_text(encoding="utf-8"))]
    return [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]


def test_every_page_is_in_the_navigation_once():
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    assert sorted(listed()) == sorted(pages - {"index"})
