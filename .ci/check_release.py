"""Whether a tag may become a release: version, changelog, citation and address say the same.

python .ci/check_release.py v0.1.0 https://github.com/OWNER/PROJECT
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The only files that name the repository: their formats cannot take it from elsewhere. A test looks for others.
ADDRESSED = ("pyproject.toml", ".github/ISSUE_TEMPLATE/config.yml")
NAMED = re.compile(r"https://(?:github|raw\.githubusercontent)\.com/([\w.-]+/[\w.-]+)")


def problems(tag: str, address: str, root: Path = ROOT) -> list[str]:
    """Return what does not fit the tag, in words."""

    def text(name: str) -> str:
        return (root / name).read_text(encoding="utf-8")

    version = re.findall(r'^__version__ = "(.+)"$', text("src/fedonce/__init__.py"), re.MULTILINE)[0]
    cited = re.findall(r"^version: (.+)$", text("CITATION.cff"), re.MULTILINE)[0]
    found = []
    if tag != f"v{version}":
        found.append(f"the tag is {tag}, src/fedonce/__init__.py has version {version}")
    if cited != version:
        found.append(f"CITATION.cff has version {cited}, src/fedonce/__init__.py {version}")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", text("CHANGELOG.md"), re.MULTILINE):
        found.append(f"CHANGELOG.md has no dated section for {version}")
    for name in ADDRESSED:
        others = sorted({each for each in NAMED.findall(text(name)) if not address.endswith(f"/{each}")})
        found += [f"{name} names {other}, the release is made by {address}" for other in others]
    return found


def main() -> None:
    """Check the tag that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tag")
    parser.add_argument("address")
    arguments = parser.parse_args()
    found = problems(arguments.tag, arguments.address)
    if found:
        raise SystemExit("\n".join(found))


if __name__ == "__main__":
    main()
