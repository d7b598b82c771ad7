"""Whoever follows one page installs what another page needs: the lines that install are the same, and so is the quickstart."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples" / "two_departments" / "README.md"]
START = "pip install --extra-index-url https://download.pytorch.org/whl/cpu -c constraints.txt "
ENVIRONMENT = "python3 -m venv .venv && . .venv/bin/activate "
FIRST = START + "'.[report,privacy]' pandas"


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["README.md", "docs/index.md", "docs/quickstart.md", "docs/install.md"])
def test_the_front_pages_install_the_same(name):
    assert re.findall(r"^pip install .*$", text(name), re.MULTILINE) == [FIRST]
    # Many systems refuse to install outside of an environment.
    assert f"```bash\n{ENVIRONMENT}" in text(name)
    assert text(name).index(ENVIRONMENT) < text(name).index(FIRST)


def test_every_line_that_installs_from_a_clone_takes_the_small_torch_and_the_tested_versions():
    found = [line for page in PAGES for line in re.findall(r"pip install [^\n`]*'\.\[[^\n`]*", text(page))]
    by_pip = [line for line in found if "--torch-backend=cpu -c constraints.txt" not in line]
    assert len(by_pip) >= 7
    assert [line for line in by_pip if not line.startswith(START)] == []


def test_the_quickstart_of_the_site_is_that_of_the_readme():
    for kind in ("python", "text"):
        of_site, of_readme = (
            re.search(rf"^```{kind}\n.*?^```", text(name), re.MULTILINE | re.DOTALL)[0]
            for name in ("docs/quickstart.md", "README.md")
        )
        assert of_site == of_readme
