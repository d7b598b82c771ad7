from __future__ import annotations

import pytest

from docs.site.links import DOCS, PAGES, ROOT, inside


@pytest.mark.parametrize(
    ("link", "becomes"),
    [
        ("[x](../README.md)", "[x](/index.md)"),
        ("[x](../examples/two_departments/README.md#set-up)", "[x](/two-departments.md#set-up)"),
        ("[stored runs](../benchmarks/results)", "stored runs (`benchmarks/results/`)"),
        ("[benchmarks/results](../benchmarks/results)", "`benchmarks/results/`"),
        ("[x](privacy.md#accounting)", "[x](/privacy.md#accounting)"),
        ("[x](../pyproject.toml)", "[x](../pyproject.toml)"),  # a file, which Sphinx copies
        ("[x](https://example.org/a.md)", "[x](https://example.org/a.md)"),
        ("[x](gone.md)", "[x](gone.md)"),  # which Sphinx refuses
    ],
)
def test_links_of_a_page(link, becomes):
    assert inside(f"a {link} b", DOCS) == f"a {becomes} b"


def test_links_of_a_file_that_a_page_includes():
    folder = ROOT / "examples" / "two_departments"
    assert inside("[x](../../docs/message.md#ids)", folder) == "[x](/message.md#ids)"


def test_files_that_are_pages_are_there():
    for source, page in PAGES.items():
        assert (ROOT / source).exists()
        assert (DOCS / page).exists()
