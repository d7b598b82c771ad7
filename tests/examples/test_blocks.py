"""Every block of Python in the documentation is run: by this test in the order of its page, or by one that is named here."""

from __future__ import annotations

import importlib
import re

import numpy as np
import pytest

from tests.conftest import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
PAGES = {path.stem: BLOCK.findall(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "docs").glob("*.md"))}
DOCS, DEPARTMENTS = "tests.examples.test_docs", "tests.examples.test_two_departments"

# Pages whose blocks need tables or checks of their own: for each block, in order, the test that runs it.
BY_TESTS = {
    "datasets": [
        f"{DOCS}.test_datasets_load_and_train",
        f"{DOCS}.test_divisions",
        f"{DOCS}.test_presets_and_embeddings",
    ],
    "host-models": [f"{DOCS}.test_own_host_model"],
    "hints": [f"{DOCS}.test_hints"] * 4,
    "leakage": [f"{DOCS}.test_what_leaks_and_an_attack_of_ones_own"] * 3,
    "learners": [
        f"{DOCS}.test_own_learner",
        f"{DOCS}.test_own_network",
        f"{DOCS}.test_own_loss",
        f"{DOCS}.test_presets_and_embeddings",
    ],
    "message": [f"{DOCS}.test_messages_by_hand", f"{DOCS}.test_the_encoding_of_the_page_on_messages"],
    "parties": [f"{DEPARTMENTS}.test_the_guide_runs_in_python", f"{DEPARTMENTS}.test_the_jobs_of_the_guide_run"],
    "privacy": [f"{DOCS}.test_privacy_budgets"] * 3,
    "rounds": [f"{DOCS}.test_rounds_and_noise"] * 2,
}

# Names that a page takes for granted.
GIVEN = {
    "alignment": {
        "bank_ids": np.array([f"C-{number}" for number in range(30)], dtype=object),
        "shop_ids": np.array([f"C-{number}" for number in range(20, 60)], dtype=object),
    }
}


def pattern(text: str) -> list[str]:
    """Return a text's lines without their numbers, which may differ in the last digits between machines."""
    return [re.sub(r"\d[\d.,]*", "#", line).rstrip() for line in text.splitlines()]


@pytest.mark.parametrize("page", [page for page, blocks in PAGES.items() if blocks and page not in BY_TESTS])
def test_the_blocks_of_a_page_run_and_print_what_stands_below(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = dict(GIVEN.get(page, {}))
    for code, shown in PAGES[page]:
        exec(code, names)
        printed = capsys.readouterr().out
        assert not shown or pattern(printed) == pattern(shown)


@pytest.mark.parametrize("page", BY_TESTS)
def test_every_other_block_has_a_test_of_its_own(page):
    assert len(PAGES[page]) == len(BY_TESTS[page])
    for name in BY_TESTS[page]:
        module, _, test = name.rpartition(".")
        assert callable(getattr(importlib.import_module(module), test))


def test_no_block_hides_behind_another_word():
    for page in PAGES:
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        assert not re.findall(r"^ *```(?:py|python3|pycon|ipython)\b(?!thon)", text, re.MULTILINE)
        assert len(re.findall(r"^ *```python", text, re.MULTILINE)) == len(PAGES[page])
