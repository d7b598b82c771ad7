"""The committed tables are what the committed results give."""

from __future__ import annotations

import pytest

from benchmarks.report import tables


@pytest.mark.parametrize("name", tables.TABLES)
def test_a_table_is_somewhere_and_shows_the_committed_results(name):
    texts = [path.read_text() for path in tables.FILES]
    shown = [text for text in texts if f"<!-- {name} -->" in text]
    assert shown
    made = tables.TABLES[name]()
    assert all(f"<!-- {name} -->\n{made}\n<!-- /{name} -->" in text for text in shown)


def test_a_text_is_filled_between_its_marks():
    text = "a\n<!-- x -->\nold\n<!-- /x -->\nb\n"
    assert tables.filled(text, {"x": "new", "y": "?"}) == "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n"
