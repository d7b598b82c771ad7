"""Every notebook runs, and its page in the documentation shows its cells and what they print."""

from __future__ import annotations

import pytest

from docs.site import notebooks
from fedonce.assess.attacks import ATTACKS
from fedonce.hostmodels import HOST_MODELS
from fedonce.learners import LEARNERS
from tests.conftest import ROOT
from tests.examples.test_blocks import pattern

NAMES = sorted(path.stem for path in notebooks.SOURCES.glob("*.py"))


@pytest.fixture
def tables_as_before():
    tables = (LEARNERS, HOST_MODELS, ATTACKS)
    before = [dict(table) for table in tables]
    yield
    for table, names in zip(tables, before, strict=True):
        table.clear()
        table.update(names)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_and_prints_what_its_page_shows(name, tables_as_before, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outputs = notebooks.executed(name)
    committed = (notebooks.PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert notebooks.without_outputs(committed) == notebooks.without_outputs(notebooks.page(name, outputs))
    shown = "".join(notebooks.OUTPUT.findall(committed))
    assert words(shown) == words("".join(outputs))
    assert len(committed) < 20_000
    assert list(tmp_path.iterdir()) == []


def words(text: str) -> list[list[str]]:
    """Return what is printed without numbers, and without the blanks that align them."""
    return [line.split() for line in pattern(text)]


def test_every_notebook_is_on_the_page_of_notebooks():
    text = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    assert all(f"(notebooks/{name}.md)" in text for name in NAMES)
    assert len(NAMES) == text.count("(notebooks/")


def test_cells_are_divided_and_run_as_in_a_notebook():
    text, code = notebooks.cells("# %% [markdown]\n# # Head\n#\n# words\n\n# %%\nx = 2\nprint(x)\nx + 1\n")
    assert text == notebooks.Cell(True, "# Head\n\nwords")
    assert notebooks.run(code.text, {}) == "2\n3\n"
    assert notebooks.run("x = 1", {}) == ""
